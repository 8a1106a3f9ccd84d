"""The result of a text search for ranking: records as columns, with their neighbours in conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.records import SEARCHABLE, Kind, Role

__all__ = ["KINDS_BY_LABEL", "LABELS", "LABEL_NUMBERS", "ROLES", "Candidates", "Key", "Rows"]

Key = tuple[Kind, str]
"""Kind and id of a record."""

Rows = NDArray[np.intp]  # rows of a `UserTerms`, one for each record

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
"""The order that the numbers in `Candidates.roles` stand for."""

LABELS: tuple[tuple[Kind, Role | None], ...] = (
    *(("message", role) for role in ROLES),
    *((kind, None) for kind in SEARCHABLE if kind != "message"),
)
"""Kind and role of a record by label, a small number for arrays; labels of messages index `ROLES` too."""

KINDS_BY_LABEL: tuple[Kind, ...] = tuple(kind for kind, _ in LABELS)
"""The kind of each label."""

LABEL_NUMBERS: Mapping[tuple[Kind, Role | None], int] = {pair: label for label, pair in enumerate(LABELS)}
"""The label of each pair of kind and role."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """Rows of one user, best text score first, the newer of equal ones before the older.

    All columns have the same length. A row is here because its words match, because it was asked
    for, or because it is next to such a message in its session; its scores are exact in each case.
    Columns must not be written to.
    """

    rows: Rows  # place of each row in the user's memory
    ids: Sequence[str]  # of all records of that memory
    kinds: NDArray[np.int8]  # place in `jiyi.records.SEARCHABLE`
    text: NDArray[np.float32]  # BM25 of the question's words, 0 where the row has none of them
    words: NDArray[np.float32]  # (n, terms): what each term gives each row, before its idf, 0..1
    eligible: NDArray[np.bool_]  # may be returned; the others are only neighbours
    session: NDArray[np.int32]  # number of its session within this answer, -1 for none
    previous: NDArray[np.int32]  # row of the message said before it in its session, -1 if not here
    following: NDArray[np.int32]  # row of the message said after it, -1 if not here
    speaker: NDArray[np.int32]  # place in `speakers`, -1 for none
    speakers: tuple[str, ...]  # all speakers in this user's memory; the role of a message without a name
    roles: NDArray[np.int8]  # place in `ROLES`, -1 for other records than messages
    created_at: NDArray[np.int64]  # microseconds since 1970 UTC
    traits: NDArray[np.int32]  # bits of `jiyi.text.Trait`
    length: NDArray[np.int32]  # terms, with repetitions
    total: int  # rows in the question's scope, found or not
    terms: tuple[str, ...]  # of the query, including those that no record has
    idf: NDArray[np.float32]  # of each term; ``text`` is the sum of words x idf

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Kind and id of each row; built at each call."""
        return tuple(self.keys_of(range(len(self))))

    def keys_of(self, rows: Sequence[int] | NDArray[np.intp]) -> list[Key]:
        """Return kind and id of these rows."""
        places = zip(self.kinds[rows].tolist(), self.rows[rows].tolist(), strict=True)
        return [(SEARCHABLE[kind], self.ids[place]) for kind, place in places]

    def key(self, row: int) -> Key:
        """Return kind and id of a row."""
        return SEARCHABLE[self.kinds[row]], self.ids[self.rows[row]]
