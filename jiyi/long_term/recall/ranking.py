"""Ranking: features and weights become one order; repeats go last. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.around import Column
from jiyi.long_term.recall.features import NAMES, Feature, Features
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS, Weights, row_of
from jiyi.records import Message, Searchable
from jiyi.storage import Candidates

__all__ = ["Ranked", "rank", "repeats_last"]

_ROUND = 4  # decimals of a share: enough to explain, short enough to read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The candidates of one question in order."""

    rows: NDArray[np.intp]  # rows that may be returned, best first
    scores: Column  # of every row of the table
    shares: NDArray[np.float32]  # (n, features): what each feature adds to a score

    def share(self, name: Feature) -> Column:
        """Return what a feature adds to each score."""
        column: Column = self.shares[:, NAMES.index(name)]
        return column

    def why(self, row: int) -> dict[str, float]:
        """Return the features that moved a row, the strongest first."""
        return self.why_each([row])[0]

    def why_each(self, rows: Sequence[int]) -> list[dict[str, float]]:
        """Return `why` of several rows."""
        shares = self.shares[rows].astype(np.float64).round(_ROUND)
        order = np.argsort(-np.abs(shares), axis=1, kind="stable").tolist()
        return [
            {NAMES[place]: share for place in strongest if (share := of_row[place])}
            for of_row, strongest in zip(shares.tolist(), order, strict=True)
        ]


def rank(features: Features, table: Candidates, weights: Weights = WEIGHTS) -> Ranked:
    """Order the eligible rows by the weighted sum of their features, the newer of equal ones first.

    The weights are learned from talk. Where nobody takes turns, `PLAIN` is at least as good.
    """
    used = weights if features.turns > 0 else PLAIN
    shares = features.matrix * row_of(used, NAMES).astype(np.float32)
    scores: Column = shares.sum(axis=1)
    rows = np.flatnonzero(table.eligible)
    order = np.lexsort((-table.created_at[rows], -scores[rows]))
    return Ranked(rows=rows[order], scores=scores, shares=shares)


def repeats_last(records: Sequence[Searchable]) -> list[int]:
    """Return the places of records in a new order: word-for-word repeats after all others.

    Only a text that is the same but for case and white space is a repeat, said by the same
    one: what merely resembles another may hold the answer that the other lacks, so nothing
    else is moved and nothing is dropped. Otherwise the order stays.
    """
    seen: set[tuple[str, str | None]] = set()
    first: list[int] = []
    again: list[int] = []
    for place, record in enumerate(records):
        who = (record.name or record.role) if isinstance(record, Message) else None
        key = " ".join(record.search_text.casefold().split()), who
        (again if key in seen else first).append(place)
        seen.add(key)
    return first + again
