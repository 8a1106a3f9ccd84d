"""Vectors of a user's records: from memory where this process met them before, else from the server."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.candidates import Key
from jiyi.storage.database import Call
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.postgres.known_vectors import KnownVectors
from jiyi.storage.relational.spaces import spaces_of
from jiyi.storage.relational.users import look, seen_of
from jiyi.storage.user_terms import UserTerms
from jiyi.storage.vectors import Parts

__all__ = ["look_up_parts", "recall_parts"]

_HEAD = 2  # halves in front of the numbers in a vector's binary form


def recall_parts(
    database: PostgresDatabase, db: PostgresConnection, user_id: str, keys: Sequence[Key]
) -> Parts:
    """Return vectors of records, and keep those read from the server in the database's cache."""
    seen = seen_of(database, user_id) or look(database, db, user_id)
    if seen.owner is None:
        return KnownVectors().parts(np.empty(0, np.int64))
    mine, space = cast("UserTerms", seen.parts[UserTerms]), seen.spaces.number
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
