"""What the tests of the policies share: random policies, and what stays because it is newest."""

from conversations import partners
from hypothesis import strategies as st

from jiyi.short_term import ImportanceSampling, RunningSummary, SlidingWindow, TokenBudget


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
