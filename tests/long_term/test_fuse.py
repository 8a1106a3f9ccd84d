"""Fusing: the same order whatever the input's, and what both indexes found wins."""

from itertools import pairwise
from math import isclose, isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.long_term import WEIGHTS, fuse
from jiyi.records import Match

scores = st.floats(-1e6, 1e6)
keys = st.tuples(st.sampled_from(["message", "episode", "knowledge"]), st.sampled_from("abcdefgh"))
answers = st.dictionaries(keys, scores, max_size=12).map(
    lambda found: [Match(kind=kind, id=id_, score=s) for (kind, id_), s in found.items()]
)


@given(st.dictionaries(st.sampled_from(["text", "vector"]), answers), st.randoms(use_true_random=False))
def test_every_find_is_in_the_order_once_and_its_shares_sum_to_its_score(found, random):
    ranked = fuse(found)
    keys = [key for key, _, _ in ranked]
    assert sorted(keys) == sorted({(m.kind, m.id) for some in found.values() for m in some})
    assert [s for _, s, _ in ranked] == sorted((s for _, s, _ in ranked), reverse=True)
    for _, score, why in ranked:
        assert isfinite(score)
        assert isclose(sum(why.values()), score, abs_tol=1e-9)
        assert set(why) == {name for name, some in found.items() if some}
    shuffled = {name: random.sample(some, len(some)) for name, some in reversed(found.items())}
    assert [key for key, _, _ in fuse(shuffled)] == keys


@given(st.lists(st.floats(0.01, 50), min_size=2, max_size=20, unique=True))
def test_one_index_alone_keeps_its_order(values):
    found = [Match(kind="message", id=str(i), score=v) for i, v in enumerate(values)]
    for name in WEIGHTS:
        in_order = [values[int(key[1])] for key, _, _ in fuse({name: found})]
        assert sorted(in_order) == sorted(values)
        assert all(better >= worse - 1e-9 for better, worse in pairwise(in_order))


def test_what_both_find_beats_what_one_finds():
    text = [Match(kind="message", id=i, score=s) for i, s in (("both", 5.0), ("text", 5.0), ("weak", 1.0))]
    vector = [Match(kind="message", id=i, score=s) for i, s in (("both", 0.9), ("vector", 0.9), ("low", 0.1))]
    ranked = fuse({"text": text, "vector": vector})
    assert ranked[0][0] == ("message", "both")
    assert {key[1] for key, _, _ in ranked[1:3]} == {"text", "vector"}


def test_a_weight_counts():
    text = [Match(kind="message", id="t", score=2.0), Match(kind="message", id="v", score=1.0)]
    vector = [Match(kind="message", id="v", score=0.9), Match(kind="message", id="t", score=0.1)]
    found = {"text": text, "vector": vector}
    assert fuse(found, {"text": 2.0, "vector": 1.0})[0][0][1] == "t"
    assert fuse(found, {"text": 1.0, "vector": 2.0})[0][0][1] == "v"


@pytest.mark.parametrize("found", [{}, {"text": []}, {"text": [], "vector": []}])
def test_nothing_found_is_nothing(found):
    assert fuse(found) == []
