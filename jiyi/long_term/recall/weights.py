"""The learned weights of the ranking and of the steps after it: tables in weights.json.

Made by ``python bench/learn_weights.py FILE... --keep-ranking --write``; the ranking was learned without
``--keep-ranking``, from recordings alone; the one for facts by ``bench/learn_facts.py``. Results on
files, families and writers they were not learned from are in docs/recall-log.md.
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
"""What one unit of each named sign is worth; a sign that is not in it is worth nothing."""


class _Learned(Weights):
    """A table of weights.json, read when it is first asked for: importing jiyi reads no data."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[tuple[str, ...], NDArray[np.float64]] = {}

    def row(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the weights of names, made once."""
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
"""The ranking: see `jiyi.long_term.recall.features`. A softmax over the candidates of each
question (listwise cross-entropy: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise
Approach")."""

PAIR: Weights = _Learned("pair")
"""The logit of "the later statement has replaced the earlier": see `jiyi.long_term.recall.pairs`."""

FACTS: Weights = _Learned("facts")
"""The logit of the same of two facts: see `jiyi.long_term.facts.succession`."""

SUCCESSION: Weights = _Learned("succession")
"""The logit of the same among messages that a question found: see `jiyi.long_term.recall.outdated`."""

ORDER: Weights = _Learned("order")
"""The last order of the best messages: see `jiyi.long_term.recall.outdated`."""

NOTHING: Weights = _Learned("nothing")
"""The logit of "it speaks of nothing like that": see `jiyi.long_term.recall.unanswerable`."""

MISSING: Weights = _Learned("missing")
"""The logit of "the point asked for is missing": see `jiyi.long_term.recall.unanswerable`."""

PLAIN: Weights = {
    "words": 1.0,
    "meaning": 1.0,
    "first_by_words": 1.0,
    "first_by_meaning": 1.0,
    "in_time": 4.0,  # more than one sum can lead another by, as a rule
    "later": -2.4,
    "speaker": 1.0,
}
"""The ranking of notes, where nobody takes turns: the plain sum of the two z-scores; chosen, not learned."""

PRIORS: Weights = {
    "pinned": 0.5,  # kept by hand
    "importance": 1.0,  # times importance - 0.5, where somebody judged it
    "confidence": 0.5,  # times confidence - 0.5, of knowledge
}
"""What a record is worth whatever is asked; chosen, not learned: at most half a unit, a tie-breaker."""


def dot(weights: Weights, names: Sequence[str], signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted sum of signs along the last axis, which are named in order, and the constant."""
    return np.asarray(signs @ row_of(weights, names) + weights.get("constant", 0.0))


def row_of(weights: Weights, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the weights of names in their order; not to be written to."""
    if isinstance(weights, _Learned):
        return weights.row(tuple(names))
    return np.array([weights.get(name, 0.0) for name in names])


def chance(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of logits."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -50, 50))))
