"""Ranking: features and weights become one order, and a word on how sure it is. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.around import Column
from jiyi.long_term.recall.features import NAMES, Feature, Features
from jiyi.long_term.recall.weights import CONFIDENCE, WEIGHTS
from jiyi.storage import Candidates

__all__ = ["SIGNALS", "Ranked", "nothing_relevant", "rank", "signals"]

_ROUND = 4  # decimals of a share: enough to explain, short enough to read

SIGNALS = ("best", "lead", "cover", "meaning", "of_the_named", "named")
"""What the probability that nothing is relevant looks at; see `signals`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The candidates of one question in order."""

    rows: NDArray[np.intp]  # rows that may be returned, best first
    scores: Column  # of every row of the table
    shares: NDArray[np.float32]  # (n, features): what each feature adds to a score

    def why(self, row: int) -> dict[str, float]:
        """Return the features that moved a row, the strongest first."""
        shares = self.shares[row].round(_ROUND)
        strongest = np.argsort(-np.abs(shares), kind="stable")[: np.count_nonzero(shares)]
        return {NAMES[place]: round(float(shares[place]), _ROUND) for place in strongest}


def rank(features: Features, table: Candidates, weights: Mapping[Feature, float] = WEIGHTS) -> Ranked:
    """Order the eligible rows by the weighted sum of their features, the newer of equal ones first."""
    shares = features.matrix * np.array([weights[name] for name in NAMES], np.float32)
    scores: Column = shares.sum(axis=1)
    rows = np.flatnonzero(table.eligible)
    order = np.lexsort((-table.created_at[rows], -scores[rows]))
    return Ranked(rows=rows[order], scores=scores, shares=shares)


def signals(features: Features, ranked: Ranked) -> list[float]:
    """Return what the confidence looks at, in the order of `SIGNALS`, for at least one ranked row.

    ``best``: the highest score; ``lead``: how far it is ahead of the mean of the best ten;
    ``cover``: the share of the question's words that the best row has; ``meaning``: how near
    the best row is to the question; ``of_the_named``: by how much the best row of the speaker
    that the question names would beat the best row of others if speakers did not count (a
    question about the wrong person finds its answer with the other one); ``named``: whether
    the question names exactly one speaker.
    """
    first, ten = ranked.rows[0], ranked.rows[:10]
    place = NAMES.index("speaker")
    who = features.matrix[ranked.rows, place]
    alike = ranked.scores[ranked.rows] - ranked.shares[ranked.rows, place]
    mine, others = alike[who > 0], alike[who < 0]
    ahead = float(mine.max() - others.max()) if len(mine) and len(others) else 0.0
    return [
        float(ranked.scores[first]),
        float(ranked.scores[first] - ranked.scores[ten].mean()),
        float(features.cover[first]),
        float(features.column("apart")[first]),
        ahead,
        float(features.named),
    ]


def nothing_relevant(features: Features, ranked: Ranked, unanswered: float = 0.0) -> float:
    """Return the probability, 0 to 1, that no candidate answers the question.

    That nothing fits is a logistic regression on `signals`, learned with the weights from
    questions with and without an answer; a memory without candidates gives 1. What fits may
    still lack the point asked for: ``unanswered``, see `jiyi.long_term.recall.answerable`.
    """
    if not len(ranked.rows):
        return 1.0
    values = zip(SIGNALS, signals(features, ranked), strict=True)
    logit = CONFIDENCE["constant"] + sum(CONFIDENCE[name] * value for name, value in values)
    nothing_fits = 1 / (1 + exp(-max(-50.0, min(50.0, logit))))
    return 1 - (1 - nothing_fits) * (1 - unanswered)
