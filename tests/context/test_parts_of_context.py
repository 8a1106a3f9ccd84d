"""Sharing, packing, ordering, arranging and quoting, each alone."""

import pytest
from conversations import conversations
from hypothesis import given
from hypothesis import strategies as st

from jiyi.context import allot, arrange, context_pieces, edges, pack
from jiyi.records import SHARED_SECTIONS, Block, Message

demands = st.dictionaries(st.sampled_from(SHARED_SECTIONS), st.integers(0, 5000))
shares = st.dictionaries(st.sampled_from(SHARED_SECTIONS), st.floats(0, 1))
some_blocks = st.lists(
    st.builds(
        lambda n, tokens, score: Block(section="recalled", text="x", tokens=tokens, source_id=n, score=score),
        st.uuids().map(str),
        st.integers(0, 40),
        st.floats(-5, 5),
    ),
    max_size=15,
)


@given(st.integers(-10, 20_000), demands, shares)
def test_allot_never_gives_more_than_there_is_nor_than_is_asked_and_wastes_nothing(available, asked, shared):
    given_out = allot(available, asked, shared)
    assert set(given_out) == set(asked)
    assert all(0 <= given_out[name] <= asked[name] for name in asked)
    assert sum(given_out.values()) == min(max(available, 0), sum(asked.values()))


@given(st.integers(1, 20_000), demands, shares)
def test_a_section_without_a_share_gets_what_nobody_else_wants(available, asked, shared):
    given_out = allot(available, asked, shared)
    if any(shared.get(name, 0) == 0 and given_out[name] for name in asked):
        assert all(given_out[name] == asked[name] for name in asked if shared.get(name, 0) > 0)


@given(some_blocks)
def test_the_best_stand_at_the_edges(given_blocks):
    order = [b.score for b in edges(given_blocks)]
    assert sorted(order) == sorted(b.score for b in given_blocks)
    if order:
        lowest = order.index(min(order))
        assert order[: lowest + 1] == sorted(order[: lowest + 1], reverse=True)
        assert (order[lowest:], order[0]) == (sorted(order[lowest:]), max(order))


@given(some_blocks, st.integers(-5, 200))
def test_what_is_packed_stays_within_the_allowance_and_nothing_is_lost(given_blocks, allowance):
    taken, left = pack(given_blocks, allowance)
    room = allowance - sum(b.tokens for b in taken)
    assert room >= min(allowance, 0)
    assert sorted(b.source_id for b in (*taken, *left)) == sorted(b.source_id for b in given_blocks)
    assert all(b.tokens > room for b in left)
    assert pack(given_blocks, allowance) == (taken, left)


@given(conversations(), st.none() | st.sampled_from(("what now?", "好", "  好 ", "")))
def test_arranging_loses_nothing_and_keeps_the_order(talk, question):
    arranged = arrange(talk, question)
    current = [arranged.current] if arranged.current else []
    parts = [*arranged.history, *current, *arranged.tail]
    asked_again = [m for m in current if m not in talk]
    assert [m for m in parts if m not in asked_again] == [m for m in talk if m.role != "system"]
    listed = [m.id for m in arranged.system] + [m.id for m in arranged.repeated]
    assert sorted(listed) == sorted(m.id for m in talk if m.role == "system")
    assert all(m.role != "user" for m in arranged.tail)
    if question:
        assert arranged.current.text.strip() == question.strip()
    if asked_again:
        assert arranged.tail == ()


def test_a_question_already_asked_is_not_asked_twice():
    asked = Message(role="user", content="why?")
    answered = Message(role="assistant", content="because")
    arranged = arrange([asked, answered], " why? ")
    assert (arranged.current, arranged.tail) == (asked, (answered,))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_blocks_no_context_message(language):
    assert context_pieces({}, "opening", language) == context_pieces({"task": []}, "opening", language) == []


def test_what_a_section_leaves_flows_on_by_shares():
    shared = {"task": 0.2, "history": 0.4, "recalled": 0.4}
    given_out = allot(100, {"task": 0, "history": 100, "recalled": 100}, shared)
    assert given_out == {"task": 0, "history": 50, "recalled": 50}
    assert allot(100, {"task": 10, "history": 20, "recalled": 100}, shared)["recalled"] == 70
