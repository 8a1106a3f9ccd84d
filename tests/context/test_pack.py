"""What packing guarantees for any blocks."""

from hypothesis import given
from hypothesis import strategies as st

from jiyi.context import pack
from jiyi.records import Block


def block(number, tokens, score):
    return Block(section="recalled", text="x", tokens=tokens, source_id=f"b{number}", score=score)


some_blocks = st.lists(st.tuples(st.integers(0, 40), st.floats(-5, 5)), max_size=9).map(
    lambda pairs: [block(n, *pair) for n, pair in enumerate(pairs)]
)


@given(given_blocks=some_blocks, allowance=st.integers(-5, 200))
def test_what_is_taken_stays_within_the_allowance_and_nothing_is_lost(given_blocks, allowance):
    taken, left = pack(given_blocks, allowance)
    room = allowance - sum(b.tokens for b in taken)
    assert room >= min(allowance, 0)
    assert sorted(b.source_id for b in (*taken, *left)) == sorted(b.source_id for b in given_blocks)
    assert all(b.tokens > room for b in left)
    assert pack(given_blocks, allowance) == (taken, left)
