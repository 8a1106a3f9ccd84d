"""Packing exactly, judged by trying every choice."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jiyi.context import build_window, pack, pack_exact
from jiyi.context.builder import Materials
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

PACKERS = (pack, pack_exact)


def block(number, tokens, score):
    return Block(section="recalled", text="x", tokens=tokens, source_id=f"b{number}", score=score)


some_blocks = st.lists(st.tuples(st.integers(0, 40), st.floats(-5, 5)), max_size=9).map(
    lambda pairs: [block(n, *pair) for n, pair in enumerate(pairs)]
)


@pytest.mark.parametrize("packer", PACKERS)
@given(given_blocks=some_blocks, allowance=st.integers(-5, 200))
def test_every_packer_stays_within_the_allowance_and_loses_nothing(packer, given_blocks, allowance):
    taken, left = packer(given_blocks, allowance)
    room = allowance - sum(b.tokens for b in taken)
    assert room >= min(allowance, 0)
    assert sorted(b.source_id for b in (*taken, *left)) == sorted(b.source_id for b in given_blocks)
    assert all(b.tokens > room for b in left)
    assert packer(given_blocks, allowance) == (taken, left)


@settings(deadline=None)
@given(some_blocks, st.integers(0, 150))
def test_exact_is_the_best_of_all_choices(given_blocks, allowance):
    taken, _ = pack_exact(given_blocks, allowance)
    found = sum(max(b.score, 0) for b in taken)
    best = max(
        sum(max(b.score, 0) for b in some)
        for size in range(len(given_blocks) + 1)
        for some in combinations(given_blocks, size)
        if sum(b.tokens for b in some) <= allowance
    )
    assert found == pytest.approx(best)
    assert [b.score for b in taken] == sorted((b.score for b in taken), reverse=True)


def test_what_greedy_gives_away():
    blocks = [block(0, 60, 3.0), block(1, 50, 2.9), block(2, 50, 2.8)]
    assert [b.source_id for b in pack(blocks, 100)[0]] == ["b0"]
    assert [b.source_id for b in pack_exact(blocks, 100)[0]] == ["b1", "b2"]


def test_exact_stays_close_where_it_counts_in_units():
    blocks = [block(n, 300 + 37 * (n % 11), 1 + (n * 7919 % 101) / 10) for n in range(300)]
    allowance = 60_000
    taken, left = pack_exact(blocks, allowance)
    assert sum(b.tokens for b in taken) <= allowance
    assert len(taken) + len(left) == 300
    assert sum(b.score for b in taken) >= 0.99 * sum(b.score for b in pack(blocks, allowance)[0])


def test_a_window_is_packed_as_it_is_told():
    texts = ["word " * 60, "word " * 50, "word " * 50]
    blocks = [
        Block(section="recalled", text=text, tokens=0, source_id=f"b{n}", score=3 - n / 10)
        for n, text in enumerate(texts)
    ]
    materials = Materials(current=Message(role="user", content="q"), blocks=blocks)
    shown = {}
    for packer in (pack, pack_exact):
        window = build_window(
            materials,
            Budget(max_input_tokens=143),
            counter=counter_for(),
            language="en",
            packer=packer,
        )
        shown[packer.__name__] = sorted(b.source_id for b in window.blocks)
    assert shown == {"pack": ["b0"], "pack_exact": ["b1", "b2"]}
