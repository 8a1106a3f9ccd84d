"""Ranks candidates by the weighted sum of their features."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import FEATURE_NAMES, Column, Feature, Features
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS, Weights, weight_vector
from jiyi.storage import Candidates

_DECIMALS = 4  # of the shares in `Hit.why`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The ranked candidates of one question."""

    table: Candidates
    features: Features
    rows: NDArray[np.intp]  # rows that may be returned, best first
    scores: Column  # of every row of the table
    shares: NDArray[np.float32]  # (n, `FEATURE_NAMES`): what each feature adds to a score

    def share(self, name: Feature) -> Column:
        """Return what a feature adds to each score."""
        return np.asarray(self.shares[:, FEATURE_NAMES.index(name)])

    def why(self, rows: Sequence[int]) -> list[dict[str, float]]:
        """Return for each row what its features add to the score, the strongest first."""
        shares = self.shares[rows].astype(np.float64).round(_DECIMALS)
        order = np.argsort(-np.abs(shares), axis=1, kind="stable").tolist()
        return [
            {FEATURE_NAMES[place]: share for place in strongest if (share := of_row[place])}
            for of_row, strongest in zip(shares.tolist(), order, strict=True)
        ]


def rank(features: Features, table: Candidates, weights: Weights = WEIGHTS) -> Ranked:
    """Sort the eligible rows by the weighted sum of their features; of equal rows the newer comes first.

    The weights are learned from conversations; without turn taking `PLAIN` is used instead.
    """
    used = weights if features.is_dialogue else PLAIN
    shares = features.matrix * weight_vector(used, FEATURE_NAMES).astype(np.float32)
    scores: Column = shares.sum(axis=1)
    rows = np.flatnonzero(table.eligible)
    order = np.lexsort((-table.created_at[rows], -scores[rows]))
    return Ranked(table=table, features=features, rows=rows[order], scores=scores, shares=shares)
