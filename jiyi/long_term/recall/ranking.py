"""Ranking: features and weights give one order, and repeats in it. Pure functions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import NAMES, Column, Feature, Features
from jiyi.long_term.recall.question import asks_again
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS, Weights, row_of
from jiyi.records import Message, Searchable
from jiyi.storage import Candidates
from jiyi.text import query_terms

__all__ = ["Ranked", "rank", "repeats"]

_WORD = re.compile(r"\w+")
_ROUND = 4  # decimals of a share: enough to explain, short enough to read


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The candidates of one question in order."""

    table: Candidates
    features: Features
    rows: NDArray[np.intp]  # rows that may be returned, best first
    scores: Column  # of every row of the table
    shares: NDArray[np.float32]  # (n, features): what each feature adds to a score

    def share(self, name: Feature) -> Column:
        """Return what a feature adds to each score."""
        column: Column = self.shares[:, NAMES.index(name)]
        return column

    def why(self, rows: Sequence[int]) -> list[dict[str, float]]:
        """Return of each row the features that moved it, the strongest first."""
        shares = self.shares[rows].astype(np.float64).round(_ROUND)
        order = np.argsort(-np.abs(shares), axis=1, kind="stable").tolist()
        return [
            {NAMES[place]: share for place in strongest if (share := of_row[place])}
            for of_row, strongest in zip(shares.tolist(), order, strict=True)
        ]


def rank(features: Features, table: Candidates, weights: Weights = WEIGHTS) -> Ranked:
    """Order the eligible rows by the weighted sum of their features, the newer of equal ones first.

    The weights are learned from conversations. Without turn taking, `PLAIN` is at least as good.
    """
    used = weights if features.turns > 0 else PLAIN
    shares = features.matrix * row_of(used, NAMES).astype(np.float32)
    scores: Column = shares.sum(axis=1)
    rows = np.flatnonzero(table.eligible)
    order = np.lexsort((-table.created_at[rows], -scores[rows]))
    return Ranked(table=table, features=features, rows=rows[order], scores=scores, shares=shares)


def repeats(records: Sequence[Searchable], question: str = "") -> list[bool]:
    """Say of each record, given best first, whether it only repeats an earlier one.

    That is a text of the same speaker that equals an earlier one apart from case, punctuation and
    white space, and every message but the first that only asks the question again: however often a
    question was asked, its answer does not come after all of them. What merely resembles another
    may hold the answer that the other lacks.
    """
    terms = frozenset(query_terms(question))
    seen: set[tuple[str, str | None]] = set()
    again: list[bool] = []
    for record in records:
        who = (record.name or record.role) if isinstance(record, Message) else None
        key = " ".join(_WORD.findall(record.search_text.casefold())) or record.search_text, who
        if isinstance(record, Message) and asks_again(record.text, terms):
            key = "", None
        again.append(key in seen)
        seen.add(key)
    return again
