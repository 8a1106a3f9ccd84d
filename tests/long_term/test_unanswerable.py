"""How likely it is that nothing answers: a probability for any candidates, in any order."""

import numpy as np
import pytest
from candidate_tables import Row, at_random, permuted, question, questions, table, tables
from hypothesis import given
from hypothesis import strategies as st

from jiyi.long_term.recall.features import compute_features
from jiyi.long_term.recall.outdated import compare_messages, rows_to_compare
from jiyi.long_term.recall.ranking import rank
from jiyi.long_term.recall.unanswerable import NOTHING_FEATURES, nothing_features, nothing_relevant

SAID = ["the port is 8443", "is it?", "端口改成 9443 了", "my sister lives in Turin"]


def asked(found, what, about=None):
    ranked = rank(compute_features(what, found, about), found)
    texts = {row: SAID[int(found.keys[row][1]) % len(SAID)] for row in rows_to_compare(ranked)}
    return ranked, compare_messages(ranked, texts)


@pytest.mark.slow
@given(found=tables(), what=questions, seed=st.integers(0, 2**32), vectors=st.booleans())
def test_it_is_a_probability_and_one_without_candidates(found, what, seed, vectors):
    given_all = asked(found, what, at_random(seed, len(found), pending=0.3) if vectors else None)
    chance = nothing_relevant(*given_all)
    assert 0 <= chance <= 1
    assert nothing_relevant(*given_all) == chance
    if not found.eligible.any():
        assert chance == 1
    else:
        signs = nothing_features(*given_all)
        assert signs.shape == (len(NOTHING_FEATURES),)
        assert np.isfinite(signs).all()


@given(size=st.integers(2, 9), seed=st.integers(0, 2**32), data=st.data())
def test_the_order_of_rows_plays_no_part(size, seed, data):
    draw = np.random.default_rng(seed)
    drawn = zip(draw.random((size, 2)), draw.integers(3, size=size), draw.normal(size=size), strict=True)
    said = [Row(words=tuple(words), session=int(session), at=float(at)) for words, session, at in drawn]
    found = table(*said, idf=(1.5, 0.5))
    order = list(data.draw(st.permutations(range(size))))
    got, expected = (nothing_relevant(*asked(some, question())) for some in (permuted(found, order), found))
    assert got == pytest.approx(expected, abs=1e-3)


def test_words_that_nobody_said_and_kinds_that_nobody_told_are_signs():
    def sign(name, given_all):
        return nothing_features(*given_all)[NOTHING_FEATURES.index(name)]

    known = table(Row(words=(1.0, 1.0)), Row(words=(0.5,)))
    unheard = table(Row(words=(1.0,)), Row(words=(0.5,)))
    assert sign("unknown words", asked(known, question())) == 0
    assert sign("unknown words", asked(unheard, question())) == pytest.approx(0.5)
    assert sign("cover of the best", asked(known, question("why is it so warm?"))) == pytest.approx(1)
    assert sign("a kind is asked for", asked(known, question("Which port is it?"))) == 1
    assert sign("any fits", asked(known, question("Which port is it?"))) == 1
    assert sign("a kind is asked for", asked(known, question("why is it so warm?"))) == 0
    assert sign("other language", asked(known, question("硬盘满了吗？"))) == 1
