import pytest
from conversations import assistant, calls, check, conversations, must_stay, result, system, user
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_tools import policies
from refusing import raises, refused
from session_tools import talk_of

from jiyi.errors import BudgetTooSmall, InputError
from jiyi.short_term import ImportanceSampling, Kept, Pipeline, SlidingWindow, TokenBudget
from jiyi.text import counter_for

COUNTER = counter_for()


def test_policies_decide_from_left_to_right():
    talk = [system(), *talk_of(5)]
    limit = COUNTER.count_all([talk[0], *talk[-2:]])
    decided = Pipeline(SlidingWindow(3), TokenBudget(limit))(talk)
    assert decided.kept == (talk[0], *talk[-2:])
    assert [d.message for d in decided.dropped] == talk[1:-2]
    over = f"over the budget of {limit} tokens"
    assert [d.reason for d in decided.dropped] == ["older than the last 3 turns"] * 4 + [over] * 4
    assert {d.reason for d in Pipeline(TokenBudget(limit), SlidingWindow(3))(talk).dropped} == {over}


def test_without_policies_all_but_the_broken_stays_and_a_message_twice_has_two_places():
    talk = [user(), result("a"), calls("b"), assistant()]
    decided = Pipeline()(talk)
    assert decided.kept == (talk[0], talk[3])
    reasons = [d.reason for d in decided.dropped]
    assert reasons == ["tool result without its call", "tool call without its result"]
    assert Pipeline()([]) == Kept(kept=(), dropped=())
    one = user("again")
    talk = [one, assistant("a"), one, assistant("b")]
    decided = Pipeline(SlidingWindow(1))(talk)
    assert decided.kept == (one, talk[3])
    assert [d.message for d in decided.dropped] == [one, talk[1]]


def test_a_pipeline_is_a_policy_and_its_budget_reaches_every_one_in_it():
    talk = talk_of(9)
    limit = COUNTER.count_all(talk[-2:])
    assert Pipeline(SlidingWindow(5), TokenBudget(10_000))(talk, limit).kept == tuple(talk[-2:])
    inner = Pipeline(SlidingWindow(4))
    assert Pipeline(inner, TokenBudget(10_000))(talk) == inner(talk)
    assert Pipeline(SlidingWindow(4)) == inner


def test_the_policies_are_asked_until_nothing_more_leaves():
    """A call that reaches across turns joins them; without it there are more turns than allowed."""
    late = [calls("x"), user("a"), user("b"), result("x", "word " * 300)]
    talk = [user("first"), *late, user("c"), user("d")]
    pipeline = Pipeline(SlidingWindow(3), TokenBudget(200))
    kept = pipeline(talk).kept
    assert [m.content for m in kept] == ["b", "c", "d"]
    assert pipeline(kept).kept == kept


def test_what_is_no_policy_or_makes_messages_up_is_refused_and_what_raises_inside_raises():
    refused(InputError, "is no policy", Pipeline, SlidingWindow(1), 400)

    def forger(messages, budget=None):
        return Kept(kept=(user("made up"),), dropped=())

    refused(InputError, "was not given", Pipeline(forger), [user("real")])
    raises(BudgetTooSmall, Pipeline(SlidingWindow(1), ImportanceSampling(5)), [user("word " * 50)])


def holds(policy, talk, budget):
    """Check one policy's promises and return its decision; None where it does not fit."""
    try:
        decided = policy(talk, budget)
    except BudgetTooSmall:
        with pytest.raises(BudgetTooSmall) as caught:
            policy(talk, budget)
        assert caught.value.needed > caught.value.available
        return None
    check(talk, decided)
    assert policy(talk, budget) == decided
    again = policy(decided.kept, budget)
    assert (again.kept, again.dropped) == (decided.kept, ())
    return decided


def one_by_one(parts, talk, budget):
    step = tuple(talk)
    for part in parts:
        step = part(step, budget).kept


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(conversations(), st.lists(policies(), min_size=1, max_size=3), st.none() | st.integers(20, 400))
def test_every_pipeline_keeps_the_guarantees(talk, parts, budget):
    decided = holds(Pipeline(*parts), talk, budget)
    bounded = [p for p in parts if isinstance(p, TokenBudget | ImportanceSampling)]
    limits = [min(p.max_tokens, budget or p.max_tokens) for p in bounded]
    if decided is None:
        with pytest.raises(BudgetTooSmall) as caught:
            one_by_one(parts, talk, budget)
        assert caught.value.available in limits
        return
    if limits:
        assert COUNTER.count_all(decided.kept) <= min(limits)
    assert COUNTER.count_all(must_stay(talk)) <= min(limits, default=10**9)
