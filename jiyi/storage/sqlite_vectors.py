"""Vectors as float16 rows beside a `SqliteStore`, searched with numpy."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from jiyi.errors import EmbedderMismatch
from jiyi.records import Episode, Kind, Knowledge, Match, Message, Query, Scope
from jiyi.storage.candidates import Key
from jiyi.storage.matching import allowed_rows, kinds_of
from jiyi.storage.one_thread import one_blas_thread
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import find_records
from jiyi.storage.sqlite_users import hold, hold_terms, read_allowed
from jiyi.storage.user_vectors import EXACT_MOST, UserVectors
from jiyi.storage.vectors import Parts, PendingText, VectorRow

__all__ = ["SqliteVectors"]

_SQL = load_queries("sqlite")
_LEASE_SECONDS = 120
_EVER = 2**62  # later than any lease ends, even where a clock went back
_PIECE = 10_000  # rows read at once


class SqliteVectors:
    """`jiyi.storage.vectors.VectorIndex` on the same `SqliteDatabase` as the store.

    One user's vectors are read once, kept in the database's cache (see `UserVectors`) and
    extended as new ones arrive.
    """

    def __init__(self, database: SqliteDatabase, *, now: Callable[[], float] = time.time) -> None:
        self._db = database
        self._now = now

    def claim(self, name: str, dims: int | None = None) -> None:
        """See `VectorIndex.claim`."""
        with self._db.read() as db:
            bound = _identity(db)
        if bound is None and dims is not None:
            with self._db.write() as db:
                bound = _identity(db)
                if bound is None:
                    _bind(db, name, dims)
        if bound is not None and (bound[0] != name or dims not in (None, bound[1])):
            raise EmbedderMismatch(
                f"{self._db.path} holds vectors of {bound[0]} ({bound[1]} numbers), not of {name}; "
                f"open it with that embedder, or embed all anew with: jiyi reembed --db {self._db.path}"
            )

    def pending(self, limit: int, *, leased: bool = True) -> list[PendingText]:
        """See `VectorIndex.pending`."""
        now = int(self._now())
        values = {"now": now if leased else _EVER, "until": now + _LEASE_SECONDS}
        with self._db.read() as db:
            if db.execute(_SQL["any_pending"], values).fetchone() is None:
                return []
        with self._db.write() as db:
            rows: list[Any] = db.execute(_SQL["lease_pending"], values | {"limit": limit}).fetchall()
            return [
                PendingText(key=doc, text=_text(db, user, kind, id_), role=role)
                for doc, user, kind, id_, role in sorted(rows, key=lambda row: row[0])
            ]

    def add(self, rows: Sequence[VectorRow]) -> int:
        """See `VectorIndex.add`."""
        added = 0
        with self._db.write() as db:
            for row in rows:
                state = "ready" if len(row.vectors) else "none"
                settled = db.execute(_SQL["settle"], {"doc": row.key, "state": state}).fetchone()
                if settled is None:
                    continue
                owner = db.execute(_SQL["get_owner"], {"user_id": settled[0]}).fetchone()
                assert owner is not None
                for vector in row.vectors.astype(np.float16):
                    values = {"doc": row.key, "owner": owner[0], "vector": vector.tobytes()}
                    db.execute(_SQL["add_vector"], values)
                added += 1
        return added

    def nearest(self, query: Query, vector: NDArray[np.float32]) -> list[Match]:
        """See `VectorIndex.nearest`."""
        with self._db.read() as db:
            mine = hold(self._db, db, query.scope.user_id, UserVectors, _read_new)
            if not mine.size:
                return []
            if mine.dims != len(vector):
                raise EmbedderMismatch(
                    f"{self._db.path} holds vectors of {mine.dims} numbers, the question's has "
                    f"{len(vector)}; open it with the embedder that made them"
                )
            rows = hold_terms(self._db, db, query.scope.user_id)
            allowed = allowed_rows(rows, query, read_allowed(db, query))
            groups = np.where(allowed, kinds_of(rows), np.int8(-1))
            if not np.array_equal(mine.docs, rows.columns["doc"]):  # several parts, or some are pending
                places = rows.places_of(mine.docs)
                groups = np.where(places >= 0, groups[places], np.int8(-1))
            with one_blas_thread():
                docs, scores = mine.nearest(
                    vector.astype(np.float32),
                    query.limit,
                    groups=groups,
                    fetch=lambda parts: _read_parts(db, parts, mine.dims),
                )
        places = rows.places_of(docs)
        keys = rows.keys(places[places >= 0])
        return [
            Match(kind=kind, id=id_, score=score)
            for (kind, id_), score in zip(keys, scores[places >= 0].tolist(), strict=True)
        ]

    def read(self, scope: Scope, keys: Sequence[Key]) -> Parts:
        """See `VectorIndex.read`."""
        with self._db.read() as db:
            mine = hold(self._db, db, scope.user_id, UserVectors, _read_new)
            rows = hold_terms(self._db, db, scope.user_id)
        places = rows.rows_of(keys)
        docs = np.where(places >= 0, rows.columns["doc"][places], -1) if rows.size else places
        if not mine.size or not len(docs):
            return Parts(rows=np.empty(0, np.intp), vectors=np.empty((0, mine.dims), np.float32))
        held = np.flatnonzero(np.isin(mine.docs, docs))
        order = np.argsort(docs, kind="stable")
        owners = order[np.searchsorted(docs, mine.docs[held], sorter=order)]
        return Parts(rows=owners, vectors=mine.vectors(held))

    def reset(self, name: str, dims: int) -> int:
        """See `VectorIndex.reset`."""
        with self._db.write() as db:
            db.execute(_SQL["drop_every_vector"])
            db.execute(_SQL["bump_every_generation"])
            db.execute(_SQL["all_pending"])
            _bind(db, name, dims)
            row = db.execute(_SQL["count_pending"]).fetchone()
        return int(row[0]) if row else 0


def _read_new(db: apsw.Connection, owner: int, mine: UserVectors) -> None:
    """Read the rows behind the newest one known, in pieces: a million must not be in memory at once."""
    if not mine.size:
        count = db.execute(_SQL["count_vectors"], {"owner": owner}).fetchone()
        mine.expected = min(int(count[0]), EXACT_MOST) if count else 0
    while True:
        values = {"owner": owner, "after": mine.last_part, "limit": _PIECE}
        rows: list[Any] = db.execute(_SQL["read_vectors"], values).fetchall()
        if rows:
            parts, docs = np.asarray([row[:2] for row in rows], dtype=np.int64).T
            mine.append(parts, docs, _floats([row[2] for row in rows]))
        if len(rows) < _PIECE:
            return


def _read_parts(db: apsw.Connection, parts: NDArray[np.int64], dims: int) -> NDArray[np.float32]:
    rows: list[Any] = db.execute(_SQL["read_parts"], {"parts": json.dumps(parts.tolist())}).fetchall()
    found = {part: place for place, (part, _) in enumerate(rows)}
    vectors = _floats([blob for _, blob in rows], dims)
    out = np.zeros((len(parts), dims), np.float32)
    for place, part in enumerate(parts.tolist()):
        if part in found:  # else deleted since; its record is not named either
            out[place] = vectors[found[part]]
    return out


def _floats(blobs: Sequence[bytes], dims: int = -1) -> NDArray[np.float32]:
    matrix = np.frombuffer(b"".join(blobs), dtype=np.float16).astype(np.float32)
    return matrix.reshape(len(blobs), dims)


def _text(db: apsw.Connection, user_id: str, kind: Kind, id_: str) -> str:
    query = Query(scope=Scope(user_id=user_id), kinds=(kind,), ids=(id_,))
    return cast("Message | Episode | Knowledge", find_records(db, kind, query)[0]).search_text


def _identity(db: apsw.Connection) -> tuple[str, int] | None:
    values = [
        db.execute(_SQL["get_meta"], {"name": f"embedder_{part}"}).fetchone() for part in ("name", "dims")
    ]
    return (str(values[0][0]), int(values[1][0])) if values[0] and values[1] else None


def _bind(db: apsw.Connection, name: str, dims: int) -> None:
    for part, value in (("name", name), ("dims", str(dims))):
        db.execute(_SQL["set_meta"], {"name": f"embedder_{part}", "value": value})
