"""The tables of weights: finite numbers of signs that there are, and no prior stronger than a tie-breaker."""

from math import isfinite

import pytest

from jiyi.long_term.recall.features import FEATURE_NAMES
from jiyi.long_term.recall.outdated import ORDER_FEATURES, SUCCESSION_FEATURES
from jiyi.long_term.recall.pairs import PAIR_FEATURES
from jiyi.long_term.recall.unanswerable import NOTHING_FEATURES
from jiyi.long_term.recall.weights import MISSING, NOTHING, ORDER, PAIR, PLAIN, PRIORS, SUCCESSION, WEIGHTS

TABLES = {
    "features": (WEIGHTS, FEATURE_NAMES),
    "plain": (PLAIN, FEATURE_NAMES),
    "pair": (PAIR, (*PAIR_FEATURES, "constant")),
    "succession": (SUCCESSION, (*SUCCESSION_FEATURES, "constant")),
    "order": (ORDER, ORDER_FEATURES),
    "missing": (MISSING, (*NOTHING_FEATURES, "constant")),
    "nothing": (NOTHING, (*NOTHING_FEATURES, "constant")),
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
