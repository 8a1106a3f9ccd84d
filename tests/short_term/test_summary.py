"""The running summary: when it is time, what is folded, and that a failure changes nothing."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from conversations import assistant, calls, check, conversations, result, system, user
from hypothesis import given, settings
from hypothesis import strategies as st
from reading_model import FixedModel
from refusing import refused
from tables import each

from jiyi.compression.compressor import Compressed
from jiyi.compression.summarize import Summarize
from jiyi.errors import LLMError, LLMUnreachable, SettingsError
from jiyi.records import Scope, Summary
from jiyi.short_term import RunningSummary
from jiyi.text import counter_for

COUNTER = counter_for()


def rounds(count, start=0):
    return [
        m
        for n in range(start, start + count)
        for m in (
            user(f"question {n}: which port has host-{n}?", id=f"q{n}", seq=2 * n),
            assistant(f"host-{n} listens on port {8000 + n}.", id=f"a{n}", seq=2 * n + 1),
        )
    ]


def fails(given, **options):
    raise LLMUnreachable("nobody there; start the model")


class Recorder:
    """A summarizer that remembers what it was given."""

    def __init__(self, text="- a summary"):
        self.text, self.given = text, []

    def __call__(self, given, *, max_tokens=None, query=None, previous=None):
        self.given.append(([m.id for m in given], previous))
        ids = tuple(m.id for m in given)
        return Compressed(text=self.text, sources=ids, tokens_before=99, tokens=4, method="llm")


def test_nothing_leaves_before_it_is_time():
    talk, policy = [system(), *rounds(20)], RunningSummary(10_000)
    assert policy.due(talk) == ""
    assert policy(talk).kept == tuple(talk)
    folded = policy.fold(talk, None, fails)
    assert (folded.kept, folded.summary, folded.trigger, folded.note) == (tuple(talk), None, "", "")
    assert not folded.changed


def test_it_is_time_over_four_fifths_of_the_window_with_the_summary_and_over_fifty_messages():
    talk = rounds(10)
    tokens = COUNTER.count_all(talk)
    assert RunningSummary(tokens * 5 // 4 + 1).due(talk) == ""
    policy = RunningSummary(tokens * 5 // 4 - 1)
    assert policy.due(talk) == f"{tokens:,} tokens, more than 80 % of {tokens * 5 // 4 - 1:,}"
    assert policy(talk).kept == tuple(talk[-6:])
    assert {d.reason for d in policy(talk).dropped} == {"goes into the summary"}
    assert RunningSummary(10_000)(talk, tokens).kept == tuple(talk[-6:]), "a smaller budget counts"
    assert RunningSummary(2 * tokens, at=0.4).due(talk)
    talk = rounds(10)
    policy = RunningSummary(2 * COUNTER.count_all(talk))
    assert policy.due(talk) == ""
    assert policy.due(talk, more_tokens=COUNTER.count_all(talk))
    talk, policy = [system(), *rounds(25)], RunningSummary(10**6)
    assert policy.due(talk) == ""
    assert policy.due([*talk, user()]) == "51 messages, more than 50"
    assert RunningSummary(10**6, max_messages=10, keep_turns=2)(talk).kept == (talk[0], *talk[-4:])


def test_by_hand():
    talk = rounds(5)
    folded = RunningSummary(10**6).fold(talk, None, Recorder(), force=True)
    assert (folded.trigger, folded.kept) == ("asked for", tuple(talk[-6:]))
    few = RunningSummary(10**6).fold(talk[:6], None, fails, force=True)
    assert (few.kept, few.summary) == (tuple(talk[:6]), None)
    assert few.note == "nothing to summarise: the last 3 turns stay whole, and there is no more"


def test_system_pinned_and_tool_pairs_stay_together():
    talk = [
        system("rules"),
        user("keep", pinned=True),
        calls("a"),
        result("a", pinned=True),
        calls("b"),
        result("b"),
        calls("open"),
        *rounds(3),
    ]
    folded = RunningSummary(10**6).fold(talk, None, seen := Recorder(), force=True)
    assert folded.kept == (*talk[:4], *talk[7:])
    assert seen.given == [([talk[4].id, talk[5].id], "")]
    reasons = ["goes into the summary"] * 2 + ["tool call without its result"]
    assert [d.reason for d in folded.dropped] == reasons
    assert folded.summary.covers == (talk[4].id, talk[5].id)


def test_each_fold_builds_on_the_one_before():
    policy, write = RunningSummary(10**6, keep_turns=1), Recorder("- first")
    first = policy.fold(rounds(3), None, write, force=True)
    assert first.changed
    assert (first.summary.text, first.summary.covers) == ("- first", ("q0", "a0", "q1", "a1"))
    assert (first.summary.upto_seq, first.summary.method, first.summary.language) == (3, "llm", "en")
    write.text = "- 第二"
    second = policy.fold([*first.kept, *rounds(2, 3)], first.summary, write, force=True)
    assert write.given[-1] == (["q2", "a2", "q3", "a3"], "- first")
    assert second.summary.covers == ("q2", "a2", "q3", "a3")
    assert (second.summary.upto_seq, second.summary.language) == (7, "zh")


def test_a_stored_summary_is_taken_up():
    scope = Scope(user_id="ana", session_id="s")
    stored = Summary(
        scope=scope, text="- old", version=4, covers=(), upto_seq=90, method="llm", tokens=3,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    unsaved = [replace(m, seq=None) for m in rounds(3)]
    folded = RunningSummary(10**6, keep_turns=1).fold(unsaved, stored, write := Recorder(), force=True)
    assert write.given[0][1] == "- old"
    assert folded.summary.upto_seq == 90


@pytest.mark.parametrize("previous", [None, "old"])
def test_a_failure_leaves_everything_as_it_was(previous):
    talk, policy = [system(), *rounds(30)], RunningSummary(10**6)
    if previous:
        previous = policy.fold(talk, None, Recorder(), force=True).summary
    folded = policy.fold(talk, previous, fails)
    assert folded.kept == tuple(talk)
    assert folded.summary is previous
    assert (folded.dropped, folded.changed) == ((), False)
    assert folded.trigger == "60 messages, more than 50"
    assert folded.note == "nothing was summarised: nobody there; start the model"


def test_a_failed_model_with_the_extractive_way_off_and_on():
    talk, policy, broken = rounds(30), RunningSummary(10**6), FixedModel(LLMError("no key"))
    assert policy.fold(talk, None, Summarize(broken, fallback=False)).kept == tuple(talk)
    folded = policy.fold(talk, None, Summarize(broken))
    assert (folded.kept, folded.summary.method) == (tuple(talk[-6:]), "extractive")
    assert folded.note == "the language model failed, so the summary is extractive: no key"


def test_without_a_model_it_works_too_and_what_has_no_words_is_not_lost():
    folded = RunningSummary(10**6).fold(rounds(30), None)
    assert folded.summary.method == "extractive"
    assert "host-" in folded.summary.text
    assert folded.summary.tokens == COUNTER.count_text(folded.summary.text) <= 500
    talk = [user(" ", id="blank"), *rounds(1)]
    folded = RunningSummary(10**6, keep_turns=1).fold(talk, None, force=True)
    assert (folded.kept, folded.summary) == (tuple(talk), None)
    assert "no words" in folded.note


@pytest.mark.parametrize("options", each(at=[0, 1.1, True, "x"], max_messages=[0], keep_turns=[0, 1.5]))
def test_what_can_be_no_limit_is_refused(options):
    refused(SettingsError, next(iter(options)), RunningSummary, 100, **options)


@settings(deadline=None)
@given(conversations(), st.integers(1, 4), st.booleans(), st.booleans())
def test_folding_holds_its_promises_for_any_conversation(talk, keep_turns, works, force):
    policy = RunningSummary(150, keep_turns=keep_turns)
    previous = policy.fold(rounds(30), None, Recorder("- before")).summary
    folded = policy.fold(talk, previous, Recorder() if works else fails, force=force)
    check(talk, folded)
    assert bool(folded.trigger) == (force or bool(policy.due(talk, more_tokens=previous.tokens)))
    if folded.changed:
        assert works
        gone = {d.message.id for d in folded.dropped if d.reason == "goes into the summary"}
        assert [m.id for m in talk if m.id in gone] == list(folded.summary.covers)
        assert folded.kept == policy.fold(talk, previous, Recorder(), force=True).kept
    else:
        assert folded.summary is previous
        assert folded.kept == policy.fold(talk, previous, fails).kept
    if not works:
        assert not folded.changed
