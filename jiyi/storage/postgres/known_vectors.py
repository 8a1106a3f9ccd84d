"""Vectors of a user's records: from memory where a question met them before, else from the server."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.candidates import Key
from jiyi.storage.database import Call
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.relational.spaces import spaces_of
from jiyi.storage.relational.users import Snapshot
from jiyi.storage.vectors import Parts

__all__ = ["Docs", "KnownVectors", "look_up_parts", "recall_parts"]

Docs = NDArray[np.int64]  # numbers of records; -1 for none

_MOST = 100_000  # vectors: beyond that it begins anew
_HEAD = 2  # halves before the numbers in a vector's binary form
_PLACE_BYTES = 200  # a number with its place, about


@dataclass(slots=True)
class KnownVectors:
    """The parts of records side by side, as they are stored.

    A number is never given again and other words are another record: what is here needs no
    looking up. Records without vectors are not noted, theirs may come. Arrays grow with room
    to spare and nothing in use changes: a view stays right while others add to it.
    """

    generation: int = 0  # of the user's removals and changes, when it was begun
    space: int = 0  # number of the set they are of
    size: int = 0  # vectors held
    rows: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row of a record, and how many

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return self.rows.nbytes + _PLACE_BYTES * len(self.places)

    def view(self) -> "KnownVectors":
        """Return what is held as it is now."""
        return replace(self)

    def turn_to(self, space: int) -> None:
        """Forget everything where it is of another set, or too much."""
        if self.space != space or self.size > _MOST:
            self.space, self.size, self.places = space, 0, {}
            self.rows = np.empty((0, 0), np.float32)

    def unknown(self, docs: Docs) -> list[int]:
        """Return the records whose vectors are not held."""
        return [doc for doc in docs.tolist() if doc not in self.places]

    def add(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Take in records that are not held: shape (parts, dims) of each."""
        if not vectors:
            return
        new = np.concatenate(list(vectors.values()))
        start, size = self.size, self.size + len(new)
        if size > len(self.rows):
            grown = np.empty((max(size, start + start // 2), new.shape[1]), np.float32)
            if start:
                grown[:start] = self.rows[:start]
            self.rows = grown
        self.rows[start:size] = new
        for doc, parts in vectors.items():
            self.places[doc] = start, len(parts)
            start += len(parts)
        self.size = size

    def parts(self, docs: Docs) -> Parts:
        """Return the vectors of records, those of each in their order."""
        nothing = (0, 0)
        spans = np.array([self.places.get(doc, nothing) for doc in docs.tolist()], np.intp).reshape(-1, 2)
        starts, counts = spans.T
        before = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(before, counts)
        return Parts(
            rows=np.repeat(np.arange(len(docs)), counts),
            vectors=self.rows[np.repeat(starts, counts) + within],
        )


def recall_parts(
    database: PostgresDatabase, db: PostgresConnection, seen: Snapshot, keys: Sequence[Key]
) -> Parts:
    """Return vectors of records, and keep those read from the server in the database's cache."""
    if seen.owner is None:
        return KnownVectors().parts(np.empty(0, np.int64))
    mine, user_id, space = seen.terms, seen.user_id, seen.spaces.number
    places = mine.rows_of(keys)
    there = places >= 0
    docs = np.full(len(keys), -1, np.int64)
    docs[there] = mine.columns["doc"][places[there]]

    def extend(known: KnownVectors) -> None:
        known.turn_to(space)
        known.add(_read(db, user_id, space, known.unknown(docs[there])))

    return database.cache.use(user_id, KnownVectors, seen.owner[1], extend).parts(docs)


def look_up_parts(db: PostgresConnection, user_id: str, keys: Sequence[Key]) -> Parts:
    """Return vectors of records as the server has them now; nothing of it is kept."""
    ids: dict[str, list[str]] = {}
    for kind, id_ in dict.fromkeys(keys):
        ids.setdefault(kind, []).append(id_)
    asked = [
        Call("docs_of", {"user_id": user_id, "kind": kind, "ids": db.dialect.listed(some)})
        for kind, some in ids.items()
    ]
    meta, *found = db.all_of([Call("all_meta", {}), *asked])
    numbers = {(kind, row[0]): row[1] for kind, answer in zip(ids, found, strict=True) for row in answer.rows}
    docs = np.array([numbers.get(key, -1) for key in keys], np.int64)
    known = KnownVectors()
    known.add(_read(db, user_id, spaces_of(meta.rows).number, known.unknown(docs[docs >= 0])))
    return known.parts(docs)


def _read(
    db: PostgresConnection, user_id: str, space: int, docs: Sequence[int]
) -> dict[int, NDArray[np.float32]]:
    """Read the vectors of records of a set, those of each in their order."""
    values = {"user_id": user_id, "space": space, "docs": db.dialect.listed(docs)}
    rows = db.rows("read_vectors", values) if docs else []
    if not rows:
        return {}
    numbers = np.frombuffer(b"".join(row[1] for row in rows), ">f2")
    vectors = numbers.reshape(len(rows), -1)[:, _HEAD:].astype(np.float32)
    counts = Counter(cast("int", row[0]) for row in rows)
    return dict(zip(counts, np.split(vectors, np.cumsum(list(counts.values()))[:-1]), strict=True))
