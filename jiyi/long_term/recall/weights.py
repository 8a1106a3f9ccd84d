"""The learned weights of the ranking and of the steps after it, from weights.json.

Made by ``python bench/learn_weights.py FILE... --keep-ranking --write``; the ranking was learned without
``--keep-ranking``, from recordings alone, and the weights for facts by ``bench/learn_facts.py``. Results on
files, families and writers that were not used for learning are in docs/recall-log.md.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FACTS", "MISSING", "NOTHING", "ORDER", "PAIR", "PLAIN", "PRIORS", "SUCCESSION", "WEIGHTS", "Weights",
    "sigmoid", "weight_vector", "weighted_sum",
]  # fmt: skip

Weights: TypeAlias = Mapping[str, float]
"""The weight of each feature by name; a feature that is not in it has weight 0."""


class _LearnedWeights(Weights):
    """A table of weights.json, read on first use, so that importing jiyi reads no data."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._vectors: dict[tuple[str, ...], NDArray[np.float64]] = {}

    def vector(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the weights of these features; cached."""
        if names not in self._vectors:
            self._vectors[names] = np.array([self.get(name, 0.0) for name in names])
        return self._vectors[names]

    def __getitem__(self, name: str) -> float:
        return _tables()[self._name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(_tables()[self._name])

    def __len__(self) -> int:
        return len(_tables()[self._name])


@cache
def _tables() -> dict[str, dict[str, float]]:
    text = files(__package__).joinpath("weights.json").read_text("utf-8")
    return cast("dict[str, dict[str, float]]", json.loads(text))


WEIGHTS: Weights = _LearnedWeights("features")
"""The ranking, see `jiyi.long_term.recall.features`. Learned as a softmax over the candidates of each
question (listwise cross-entropy: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise
Approach")."""

PAIR: Weights = _LearnedWeights("pair")
"""The logit of "the later statement has replaced the earlier one", see `jiyi.long_term.recall.pairs`."""

FACTS: Weights = _LearnedWeights("facts")
"""The same for two facts, see `jiyi.long_term.facts.succession`."""

SUCCESSION: Weights = _LearnedWeights("succession")
"""The same for two messages that a question found, see `jiyi.long_term.recall.outdated`."""

ORDER: Weights = _LearnedWeights("order")
"""The final order of the best messages, see `jiyi.long_term.recall.outdated`."""

NOTHING: Weights = _LearnedWeights("nothing")
"""The logit of "the memory has nothing on the subject", see `jiyi.long_term.recall.unanswerable`."""

MISSING: Weights = _LearnedWeights("missing")
"""The logit of "the point asked for is missing", see `jiyi.long_term.recall.unanswerable`."""

PLAIN: Weights = {
    "words": 1.0,
    "meaning": 1.0,
    "first_by_words": 1.0,
    "first_by_meaning": 1.0,
    "in_time": 4.0,  # more than most differences between the sums
    "later": -2.4,
    "speaker": 1.0,
}
"""The ranking of notes without turn taking: mainly the sum of two z-scores; chosen, not learned."""

PRIORS: Weights = {
    "pinned": 0.5,
    "importance": 1.0,  # times importance - 0.5, if it was rated
    "confidence": 0.5,  # times confidence - 0.5, of knowledge and facts
}
"""Weights that apply to any question; chosen, not learned: at most half a point, to break ties."""


def weighted_sum(weights: Weights, names: Sequence[str], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted sum along the last axis, in the order of ``names``, plus the constant."""
    return np.asarray(values @ weight_vector(weights, names) + weights.get("constant", 0.0))


def weight_vector(weights: Weights, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights of these features; the array must not be changed."""
    if isinstance(weights, _LearnedWeights):
        return weights.vector(tuple(names))
    return np.array([weights.get(name, 0.0) for name in names])


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -50, 50))))
