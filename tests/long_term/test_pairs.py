"""Which of two statements has taken the other's place: the judgement is sound for any of them."""

import numpy as np
import pytest
from groups import group, reordered, seeds, texts
from hypothesis import given
from hypothesis import strategies as st

from jiyi.long_term.recall.pairs import PAIR_FEATURES, pair_features, replacement_logits
from jiyi.long_term.recall.weights import PAIR, weighted_sum


def sign(some, name):
    return pair_features(some)[:, :, PAIR_FEATURES.index(name)]


@given(texts=texts, seed=seeds, vectors=st.booleans())
def test_only_a_later_statement_takes_a_place_by_the_weighted_sum_of_signs(texts, seed, vectors):
    some = group(seed, texts, vectors=vectors)
    logits, signs = replacement_logits(some), pair_features(some)
    later = some.at[None, :] > some.at[:, None]
    size = len(texts)
    assert (logits.shape, signs.shape) == ((size, size), (size, size, len(PAIR_FEATURES)))
    assert np.isfinite(logits[later]).all()
    assert np.isfinite(signs).all()
    assert (logits[~later] == -np.inf).all()
    assert (replacement_logits(some) == logits).all()
    assert logits[later] == pytest.approx(weighted_sum(PAIR, PAIR_FEATURES, signs)[later], rel=1e-9, abs=1e-9)


@given(texts=texts, seed=seeds, data=st.data())
def test_the_order_in_which_they_come_plays_no_part(texts, seed, data):
    some = group(seed, texts)
    order = np.array(data.draw(st.permutations(range(len(texts)))), np.intp)
    got, expected = replacement_logits(reordered(some, order)), replacement_logits(some)[np.ix_(order, order)]
    later = np.isfinite(expected)
    assert (np.isfinite(got) == later).all()
    assert got[later] == pytest.approx(expected[later], abs=1e-6)


def test_values_of_one_kind_are_told_apart():
    some = group(1, ["the port is 8443", "the port is 9000", "the port is 8443 still", "it is raining"])
    assert sign(some, "same value")[0].tolist() == [1, 0, 1, 0]
    assert sign(some, "other value of a kind")[0, 1] > 0 == sign(some, "other value of a kind")[0, 2]
    assert sign(some, "both: number")[0].tolist() == [1, 1, 1, 0]


def test_whose_words_and_what_stood_before_are_signs():
    some = group(2, ["a", "b", "c"])
    for name, numbers in (("same speaker", some.speaker), ("same session", some.session)):
        assert (sign(some, name) == ((numbers[:, None] == numbers) & (numbers >= 0))).all()
    assert (sign(some, "replies to the earlier") == (some.reply_to == np.arange(3)[:, None])).all()
    assert (sign(some, "replies to a question") == some.after_question).all()


def test_shared_words_count_from_either_side_and_rare_ones_more():
    some = group(3, ["disk of web-7 full", "disk of web-7", "disk", "tea"], vectors=False)
    earlier = sign(some, "words of the earlier")
    assert earlier[0, 1] > earlier[0, 2] > earlier[0, 3] == 0
    assert earlier[1, 0] == pytest.approx(1)
    assert (sign(some, "words of the later") == earlier.T).all()
    assert not sign(some, "cosine").any()
