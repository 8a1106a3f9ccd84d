"""Policies as tutorials use them: dicts in, the same dicts out, and limits that need not be given."""

import pytest
from conversations import assistant, calls, result, system, user
from refusing import raises, refused

from jiyi.errors import BadBudget, BadMessage, SettingsError
from jiyi.records import Message
from jiyi.short_term import ImportanceSampling, Pipeline, RunningSummary, SlidingWindow, TokenBudget
from jiyi.text import counter_for

COUNTER = counter_for()
BY_TOKENS = (TokenBudget, ImportanceSampling, RunningSummary)
CALL = {"id": "a", "type": "function", "function": {"name": "logs", "arguments": "{}"}}


def dicts(turns=8):
    talk = [{"role": "system", "content": "be brief"}]
    for n in range(turns):
        talk.append({"role": "user", "content": f"question {n}"})
        talk.append({"role": "assistant", "content": f"answer {n}"})
    return talk


EACH = [
    SlidingWindow(2),
    SlidingWindow(max_messages=5),
    TokenBudget(60),
    ImportanceSampling(60),
    ImportanceSampling(max_messages=4),
    RunningSummary(),
    Pipeline(SlidingWindow(5), TokenBudget(60)),
]
EVERY_POLICY = pytest.mark.parametrize("policy", EACH, ids=lambda policy: repr(policy)[:40])


@EVERY_POLICY
def test_dicts_come_back_as_they_were_given_and_messages_may_be_among_them(policy):
    talk = dicts()
    before, decided = [dict(one) for one in talk], policy(talk)
    ids = {id(one) for one in talk}
    both = [*decided.kept, *(one.message for one in decided.dropped)]
    assert {id(one) for one in both} == ids
    assert len(both) == len(talk) == len(before)
    assert talk == before
    assert decided.dropped
    of_messages = policy([Message.from_openai(one) for one in talk]).kept
    assert [one["content"] for one in decided.kept] == [message.content for message in of_messages] != []
    mixed = [Message.from_openai(one) if n % 2 else one for n, one in enumerate(dicts())]
    decided = policy(mixed)
    assert {id(one) for one in decided.kept} <= {id(one) for one in mixed}


@pytest.mark.parametrize("wrong", [{"content": "x"}, {"role": "nobody", "content": "x"}, "text", 5])
def test_what_is_no_message_is_refused(wrong):
    raises(BadMessage, SlidingWindow(), [wrong])


def test_limits_that_are_not_given():
    assert TokenBudget().max_tokens == ImportanceSampling().max_tokens == 4_000
    assert (SlidingWindow().k, SlidingWindow().max_messages) == (10, None)
    assert (RunningSummary().max_tokens, RunningSummary().max_messages) == (None, 10)
    assert RunningSummary(8_000).max_messages == 50
    long = [user("word " * 90) for _ in range(100)]
    assert COUNTER.count_all(TokenBudget()(long).kept) <= 4_000
    assert TokenBudget()(long).dropped
    talk = [user(f"question {n}") for n in range(10)]
    assert RunningSummary().due(talk) == ""
    assert RunningSummary().due([*talk, user("one more")]) == "11 messages, more than 10"
    assert RunningSummary().due([user("word " * 9_000)]) == ""
    assert RunningSummary().due([user("word " * 90)], 50).endswith("80 % of 50")


def test_dicts_are_folded_and_a_call_and_its_result_stay_together():
    talk = dicts()
    folded = RunningSummary().fold(talk)
    assert folded.changed
    assert "question 0" in folded.summary.text
    assert [id(one) for one in folded.kept] == [id(one) for one in (talk[0], *talk[-6:])]
    assert [one.message["content"] for one in folded.dropped][:2] == ["question 0", "answer 0"]
    talk = [
        *dicts(2),
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]
    assert SlidingWindow(max_messages=1)(talk).kept == (talk[0], *talk[-2:])
    assert SlidingWindow(max_messages=1)(talk[:-1]).kept == (talk[0], talk[-3])


def test_messages_are_counted_where_no_turns_are_given():
    talk = [system(), *(one for n in range(15) for one in (user(f"q{n}"), assistant()))]
    decided = SlidingWindow(max_messages=25)(talk)
    assert decided.kept == (talk[0], *talk[-25:])
    assert decided.dropped[0].reason == "older than the last 25 user and assistant messages"
    assert SlidingWindow(max_messages=25)(decided.kept).dropped == ()
    assert len(SlidingWindow(10, max_messages=25)(talk).kept) == 21


def test_the_least_important_messages_leave_where_messages_are_counted():
    talk = [
        user("We decided to use PostgreSQL."),
        user("ok, great"),
        calls("a"),
        result("a", "port 5433"),
        user("What now?"),
    ]
    decided = ImportanceSampling(max_messages=3)(talk)
    assert decided.kept == (talk[0], *talk[2:])
    assert decided.dropped[0].reason.endswith("the least there was, over the limit of 3 messages")
    assert ImportanceSampling(max_messages=9)(talk).kept == tuple(talk)
    assert ImportanceSampling(max_messages=1)(talk).kept == (talk[-1],)
    assert ImportanceSampling(COUNTER.count_all(talk[-1:]), max_messages=3)(talk).kept == (talk[-1],)
    assert ImportanceSampling(max_messages=3)(talk, COUNTER.count_all(talk[-1:])).kept == (talk[-1],)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3"])
def test_impossible_limits_are_refused(bad):
    for policy in (SlidingWindow, ImportanceSampling, RunningSummary):
        refused(SettingsError, r"max_messages=.*whole number of at least 1", policy, max_messages=bad)
    refused(SettingsError, r"k=.*whole number of at least 1", SlidingWindow, bad)
    for policy in BY_TOKENS:
        refused(BadBudget, r"max_tokens=.*whole number of tokens", policy, bad)
        with pytest.raises(BadBudget, match=r"budget=.*whole number of tokens"):
            (policy.due if policy is RunningSummary else policy.__call__)(policy(400), [], bad)
    refused(BadBudget, "max_tokens", TokenBudget, None)
