"""What the tests of the policies share: random policies, and what stays because it is newest."""

import pytest
from conversations import check, must_stay, partners
from hypothesis import strategies as st

from jiyi.errors import BudgetTooSmall
from jiyi.short_term import ImportanceSampling, RunningSummary, SlidingWindow, TokenBudget
from jiyi.text import counter_for

COUNTER = counter_for()


def tokens(*messages):
    return COUNTER.count_all(messages)


def newest(talk):
    """The newest sound atom without a system message, worked out the slow way."""
    groups = partners(talk)
    starts = [min(g) for i, g in groups.items() if g and talk[min(g)].role != "system"]
    return [talk[i] for i in sorted(groups[max(starts)])] if starts else []


def policies(most=400):
    """Any one policy."""
    limits = st.integers(20, most)
    return st.one_of(
        st.builds(SlidingWindow, st.integers(1, 5), st.none() | st.integers(1, 6)),
        st.builds(TokenBudget, limits, keep_last=st.booleans()),
        st.builds(ImportanceSampling, limits, keep_last=st.booleans()),
        st.builds(
            RunningSummary,
            limits,
            at=st.floats(0.1, 1),
            max_messages=st.integers(1, 20),
            keep_turns=st.integers(1, 4),
        ),
    )


def check_limit(policy, talk, budget):
    """Check the promises of a policy by tokens; return what stays anyway, and the decision if it fits."""
    count, limit = policy.counter.count_all, min(policy.max_tokens, budget or policy.max_tokens)
    stay = [*{m.id: m for m in [*must_stay(talk), *(newest(talk) if policy.keep_last else [])]}.values()]
    if count(stay) > limit:
        with pytest.raises(BudgetTooSmall) as caught:
            policy(talk, budget)
        assert (caught.value.needed, caught.value.available) == (count(stay), limit)
        return stay, None
    decision = policy(talk, budget)
    check(talk, decision)
    assert {m.id for m in stay} <= {m.id for m in decision.kept}
    assert count(decision.kept) <= limit
    assert policy(talk, budget) == decision
    assert policy(decision.kept, budget).kept == decision.kept
    return stay, decision
