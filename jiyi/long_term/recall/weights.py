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
    "FACTS",
    "MISSING",
    "NOTHING",
    "ORDER",
    "PAIR",
    "PLAIN",
    "PRIORS",
    "SUCCESSION",
    "WEIGHTS",
    "Weights",
    "chance",
    "dot",
    "row_of",
]

Weights: TypeAlias = Mapping[str, float]
"""The weight of each feature by name; 0 for a feature that is not in it."""


class _Learned(Weights):
    """A table of weights.json, read on first use, so that importing jiyi reads no data."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[tuple[str, ...], NDArray[np.float64]] = {}

    def row(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the weights of names; cached."""
        if names not in self._rows:
            self._rows[names] = np.array([self.get(name, 0.0) for name in names])
        return self._rows[names]

    def __getitem__(self, sign: str) -> float:
        return _tables()[self._name][sign]

    def __iter__(self) -> Iterator[str]:
        return iter(_tables()[self._name])

    def __len__(self) -> int:
        return len(_tables()[self._name])


@cache
def _tables() -> dict[str, dict[str, float]]:
    text = files(__package__).joinpath("weights.json").read_text("utf-8")
    return cast("dict[str, dict[str, float]]", json.loads(text))


WEIGHTS: Weights = _Learned("features")
"""The ranking, see `jiyi.long_term.recall.features`. Learned as a softmax over the candidates of each
question (listwise cross-entropy: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise
Approach")."""

PAIR: Weights = _Learned("pair")
"""The logit of "the later statement has replaced the earlier", see `jiyi.long_term.recall.pairs`."""

FACTS: Weights = _Learned("facts")
"""The same for two facts, see `jiyi.long_term.facts.succession`."""

SUCCESSION: Weights = _Learned("succession")
"""The same for two messages that a question found, see `jiyi.long_term.recall.outdated`."""

ORDER: Weights = _Learned("order")
"""The final order of the best messages, see `jiyi.long_term.recall.outdated`."""

NOTHING: Weights = _Learned("nothing")
"""The logit of "the memory has nothing on the subject", see `jiyi.long_term.recall.unanswerable`."""

MISSING: Weights = _Learned("missing")
"""The logit of "the point asked for is missing", see `jiyi.long_term.recall.unanswerable`."""

PLAIN: Weights = {
    "words": 1.0,
    "meaning": 1.0,
    "first_by_words": 1.0,
    "first_by_meaning": 1.0,
    "in_time": 4.0,  # more than the usual lead of one sum over another
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


def dot(weights: Weights, names: Sequence[str], signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted sum of features along the last axis, named in order, plus the constant."""
    return np.asarray(signs @ row_of(weights, names) + weights.get("constant", 0.0))


def row_of(weights: Weights, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights of names in their order; the array must not be changed."""
    if isinstance(weights, _Learned):
        return weights.row(tuple(names))
    return np.array([weights.get(name, 0.0) for name in names])


def chance(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -50, 50))))
