"""The most important pieces of text within a number of tokens."""

from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from jiyi.context import PriorityContext
from jiyi.errors import BadBudget, InputError
from jiyi.text import counter_for

COUNTER = counter_for()


def test_the_best_go_in_whole_highest_priority_first():
    queue = PriorityContext(12)
    queue.add("less important words here", priority=0.2)
    queue.add("the decision", priority=1.0)
    queue.add("a very long piece " * 10, priority=0.9)
    queue.add("the number 42", priority=0.5)
    assert queue.best() == ["the decision", "the number 42", "less important words here"]
    assert queue.left() == ["a very long piece " * 10]


def test_equals_keep_their_order_own_sizes_are_believed_and_of_nothing_comes_nothing():
    queue = PriorityContext(10)
    for name in ("a", "b", "c"):
        queue.add(name, priority=1, tokens=5)
    assert queue.best() == ["a", "b"]
    assert queue.left() == ["c"]
    assert (PriorityContext(5).text(), PriorityContext(5).best()) == ("", [])


@given(
    st.lists(st.tuples(st.text(max_size=30), st.floats(0, 1), st.none() | st.integers(0, 5)), max_size=12),
    st.integers(1, 60),
)
def test_the_text_never_takes_more_than_there_is(pieces, size):
    queue = PriorityContext(size)
    for piece in pieces:
        queue.add(*piece)
    assert COUNTER.count_text(queue.text()) <= size
    assert sorted((*queue.best(), *queue.left())) == sorted(text for text, _, _ in pieces)


def test_what_cannot_be_is_refused():
    for wrong in (0, -1, 2.5, True):
        refused(BadBudget, "max_tokens", PriorityContext, wrong)
    refused(InputError, "text", PriorityContext(5).add, 7, 1)
    refused(InputError, "tokens", PriorityContext(5).add, "x", 1, tokens=-1)
