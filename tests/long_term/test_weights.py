"""The table of weights: complete, of finite numbers, and no prior stronger than a tie-breaker."""

from math import isfinite

import pytest

from jiyi.long_term import WEIGHTS
from jiyi.long_term.recall.answerable import ANSWER_SIGNS
from jiyi.long_term.recall.features import NAMES
from jiyi.long_term.recall.outdated import PAIR_SIGNS
from jiyi.long_term.recall.ranking import SIGNALS
from jiyi.long_term.recall.weights import CONFIDENCE, PRIORS, REPLACES, UNANSWERED


def test_every_feature_has_a_weight_and_every_weight_is_of_a_feature():
    assert len(NAMES) == len(set(NAMES))
    assert sorted(WEIGHTS) == sorted(NAMES)


def test_every_signal_of_the_confidence_has_a_weight_beside_the_constant():
    assert sorted(CONFIDENCE) == sorted([*SIGNALS, "constant"])


def test_every_sign_of_a_pair_and_of_an_answer_has_a_weight():
    assert sorted(REPLACES) == sorted(PAIR_SIGNS)
    assert sorted(UNANSWERED) == sorted([*ANSWER_SIGNS, "constant"])


@pytest.mark.parametrize(
    "weights",
    [WEIGHTS, CONFIDENCE, PRIORS, REPLACES, UNANSWERED],
    ids=["features", "confidence", "priors", "pairs", "answers"],
)
def test_weights_are_finite(weights):
    assert all(isfinite(weight) for weight in weights.values())


def test_no_prior_moves_a_record_by_more_than_half_a_unit():
    assert PRIORS["pinned"] <= 0.5
    for judged in ("importance", "confidence"):
        assert abs(PRIORS[judged]) * 0.5 <= 0.5, "they count from -0.5 to 0.5"
