"""Ranking: features and weights give one order, and repeats in it. Pure functions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import NAMES, Column, Feature, Features
from jiyi.long_term.recall.question import asks_again
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS, Weights, row_of
from jiyi.records import Message, Searchable
from jiyi.storage import Candidates
from jiyi.text import query_terms

__all__ = ["Ranked", "Worded", "Wording", "rank", "repeats", "wordings"]

Worded = tuple[Searchable, str]
"""A record with its search text."""

Wording = tuple[str, str | None]
"""What a record says, but for case, punctuation and white space, and who says it."""

_WORD = re.compile(r"\w+")
_KEPT = 500  # characters up to which a text's words are kept: what is found once is found again
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


def wordings(found: Iterable[Worded], question: str = "") -> list[Wording]:
    """Return what each record says; see `repeats`."""
    terms, told = frozenset(query_terms(question)), list[Wording]()
    for record, text in found:
        said = record if isinstance(record, Message) else None
        if said and asks_again(said.text if said.tool_calls else text, terms):
            told.append(("", None))
            continue
        words = _words if len(text) <= _KEPT else _words.__wrapped__
        told.append((words(text), (said.name or said.role) if said else None))
    return told


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold())) or text


def repeats(said: Sequence[Wording]) -> list[bool]:
    """Say of each record, given by its wording and best first, whether it only repeats one before it.

    That is a text of the same speaker that equals an earlier one apart from case, punctuation and
    white space, and every message but the first that only asks the question again: however often a
    question was asked, its answer does not come after all of them. What merely resembles another
    may hold the answer that the other lacks.
    """
    first = {one: place for place, one in reversed(list(enumerate(said)))}
    return [first[one] != place for place, one in enumerate(said)]
