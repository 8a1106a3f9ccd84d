"""Vectors of users with few vectors, cached and compared in this process, which is faster than the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.database import Call, Connection, Database
from jiyi.storage.relational.snapshot import Snapshot, cached_part
from jiyi.storage.search.user_vectors import UserVectors

__all__ = ["MAX_IN_MEMORY", "InMemoryVectors", "as_floats", "in_memory_vectors"]

MAX_IN_MEMORY = 4_000
"""With more records or vectors a user's are compared on the server: reading them would take too long."""

_HEAD = 2  # 16-bit values before the numbers in a vector's binary form


@dataclass(slots=True)
class InMemoryVectors(UserVectors):
    """All vectors of a user, and which rows to read next time."""

    after: int = 0  # newest document that was read
    waiting: list[int] = field(default_factory=list)  # documents up to there without vectors
    too_many: bool = False  # nothing is cached

    def calls(self, user_id: str) -> list[Call]:
        """Return the statements for the missing vectors; ``generation`` is for `_can_extend`."""
        whose = {"user_id": user_id, "space": self.space, "generation": self.generation}
        calls = [Call("vectors_after", {**whose, "after": self.after, "limit": MAX_IN_MEMORY + 1})]
        return [*calls, *([Call("vectors_of_docs", {**whose, "docs": self.waiting})] if self.waiting else [])]


def in_memory_vectors(database: Database, db: Connection, snapshot: Snapshot) -> InMemoryVectors | None:
    """Return a user's vectors as of a snapshot; None if there are too many, or inside a transaction."""
    if db.in_transaction:
        return None
    vectors = cached_part(database, db, snapshot, InMemoryVectors, partial(_extend, db, snapshot))
    return None if vectors.too_many else vectors


def as_floats(rows: Sequence[tuple[Any, ...]]) -> NDArray[np.float32]:
    """Decode vectors from the second column of rows."""
    numbers = np.frombuffer(b"".join(row[1] for row in rows), ">f2")
    return numbers.reshape(len(rows), -1)[:, _HEAD:].astype(np.float32)


def _extend(db: Connection, snapshot: Snapshot, vectors: InMemoryVectors) -> None:
    """Add new vectors, or drop all if there are too many."""
    if vectors.space != snapshot.spaces.number:
        vectors.reset(snapshot.spaces.number)
    if not vectors.too_many and (snapshot.terms.size > MAX_IN_MEMORY or not _add_new(db, snapshot, vectors)):
        vectors.reset(vectors.space)
        vectors.too_many = True


def _add_new(db: Connection, snapshot: Snapshot, vectors: InMemoryVectors) -> bool:
    """Add what the snapshot read already, or else read it now; return False if there are too many."""
    answers = [answer for _, answer in snapshot.extra_answers] if _can_extend(snapshot, vectors) else []
    answers = answers or db.fetch_all(vectors.calls(snapshot.user_id))
    rows = [row for answer in answers for row in answer.rows]
    known = set(vectors.docs[: vectors.size].tolist()) if rows else ()
    rows = [row for row in rows if row[0] not in known]
    if vectors.size + len(rows) > MAX_IN_MEMORY:
        return False
    if rows:
        docs = np.array([row[0] for row in rows], np.int64)
        vectors.append(np.arange(vectors.size, vectors.size + len(rows)), docs, as_floats(rows))
    last = max(vectors.after, snapshot.terms.last_doc)
    if rows or last > vectors.after:
        all_docs = snapshot.terms.columns["doc"]
        new = all_docs[np.searchsorted(all_docs, vectors.after, "right") :]
        asked_for = np.concatenate([np.array(vectors.waiting, np.int64), new])
        vectors.waiting = asked_for[~np.isin(asked_for, vectors.docs[: vectors.size])].tolist()
        vectors.after = last
    return True


def _can_extend(snapshot: Snapshot, vectors: InMemoryVectors) -> bool:
    """Return whether the snapshot's answers fit the cached vectors, which other threads may have changed."""
    values = snapshot.extra_answers[0][0].values if snapshot.extra_answers else {}
    same = (values.get("generation"), values.get("space")) == (vectors.generation, vectors.space)
    return same and int(values["after"]) <= vectors.after
