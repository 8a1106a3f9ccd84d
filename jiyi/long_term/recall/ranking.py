"""Ranking by features and weights, and detection of repeats. Pure functions."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import FEATURE_NAMES, Column, Feature, Features
from jiyi.long_term.recall.question import asks_again
from jiyi.long_term.recall.weights import PLAIN, WEIGHTS, Weights, weight_vector
from jiyi.records import Message, Searchable
from jiyi.storage import Candidates
from jiyi.text import query_terms

__all__ = ["Ranked", "RecordText", "TextKey", "mark_repeats", "rank", "text_keys"]

RecordText = tuple[Searchable, str]
"""A record with its search text."""

TextKey = tuple[str, str | None]
"""A record's text without case, punctuation and white space, and its speaker; equal for repeats."""

_WORD = re.compile(r"\w+")
_MAX_CACHED_CHARS = 500  # of a text whose words are cached, as records are often found again
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


def text_keys(records: Iterable[RecordText], question: str = "") -> list[TextKey]:
    """Return keys of records that are equal for repeats; see `mark_repeats`."""
    terms, keys = frozenset(query_terms(question)), list[TextKey]()
    for record, text in records:
        message = record if isinstance(record, Message) else None
        if message and asks_again(message.text if message.tool_calls else text, terms):
            keys.append(("", None))
            continue
        normalise = _normalise_text if len(text) <= _MAX_CACHED_CHARS else _normalise_text.__wrapped__
        keys.append((normalise(text), (message.name or message.role) if message else None))
    return keys


@lru_cache(maxsize=4096)
def _normalise_text(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold())) or text


def mark_repeats(keys: Sequence[TextKey]) -> list[bool]:
    """Return for each record, given by its text key and best first, whether it repeats an earlier one.

    A repeat is a text of the same speaker that equals an earlier one apart from case, punctuation and
    white space, or a message, except the first, that only asks the question again: otherwise copies of the
    question would come before its answer. A text that only resembles another may hold the answer.
    """
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    return [first[key] != place for place, key in enumerate(keys)]
