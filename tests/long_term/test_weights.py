"""The tables of weights: finite numbers of signs that there are, and no prior stronger than a tie-breaker."""

from math import isfinite

import pytest

from jiyi.long_term.recall.features import NAMES
from jiyi.long_term.recall.outdated import ORDER_SIGNS, SUCCESSION_SIGNS
from jiyi.long_term.recall.pairs import PAIR_SIGNS
from jiyi.long_term.recall.unanswerable import NOTHING_SIGNS
from jiyi.long_term.recall.weights import MISSING, NOTHING, ORDER, PAIR, PLAIN, PRIORS, SUCCESSION, WEIGHTS

TABLES = {
    "features": (WEIGHTS, NAMES),
    "plain": (PLAIN, NAMES),
    "pair": (PAIR, (*PAIR_SIGNS, "constant")),
    "succession": (SUCCESSION, (*SUCCESSION_SIGNS, "constant")),
    "order": (ORDER, ORDER_SIGNS),
    "missing": (MISSING, (*NOTHING_SIGNS, "constant")),
    "nothing": (NOTHING, (*NOTHING_SIGNS, "constant")),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_weight_is_finite_and_of_a_sign_that_there_is(name):
    weights, names = TABLES[name]
    assert len(names) == len(set(names)), "each sign has a name of its own"
    assert weights
    assert set(weights) <= set(names)
    assert all(isfinite(weight) for weight in weights.values())


def test_no_prior_moves_a_record_by_more_than_half_a_unit():
    assert PRIORS["pinned"] <= 0.5
    for judged in ("importance", "confidence"):
        assert abs(PRIORS[judged]) * 0.5 <= 0.5, "they count from -0.5 to 0.5"
