"""Vectors as float16 rows beside a `SqliteStore`, searched with numpy."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import apsw
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from jiyi.errors import EmbedderMismatch
from jiyi.records import SEARCHABLE, Episode, Kind, Knowledge, Match, Message, Query, Role, Scope
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import WHOLE_USER, on_documents
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import find_records
from jiyi.storage.user_vectors import UserVectors
from jiyi.storage.vectors import PendingText, VectorRow

__all__ = ["SqliteVectors"]

_SQL = load_queries("sqlite")
_LEASE_SECONDS = 120
_EVER = 2**62  # later than any lease ends, even where a clock went back
_LABELS: tuple[tuple[Kind, Role | None], ...] = (
    ("message", "system"),
    ("message", "user"),
    ("message", "assistant"),
    ("message", "tool"),
    ("episode", None),
    ("knowledge", None),
)
_PIECE = 10_000  # rows read at once
_one_blas_thread = threading.Lock()  # the limit is the whole process's: two at once would leave it behind


class SqliteVectors:
    """`jiyi.storage.vectors.VectorIndex` on the same `SqliteDatabase` as the store.

    One user's vectors are read once, kept in memory (see `UserVectors`) and extended as
    new ones arrive. Those of the least recently asked users leave when all together
    exceed ``cache_bytes``.
    """

    def __init__(
        self,
        database: SqliteDatabase,
        *,
        cache_bytes: int = 512 * 1024 * 1024,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._db = database
        self._cache_bytes = cache_bytes
        self._now = now
        self._lock = threading.Lock()
        self._users: OrderedDict[str, UserVectors] = OrderedDict()
        self._blas = ThreadpoolController()

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
        # Kinds and roles are held in memory; only the other conditions are asked of the database.
        where, values = on_documents(replace(query, kinds=SEARCHABLE, roles=None))
        with self._db.read() as db:
            mine = self._vectors_of(db, query.scope.user_id)
            if mine.size and mine.dims != len(vector):
                raise EmbedderMismatch(
                    f"{self._db.path} holds vectors of {mine.dims} numbers, the question's has "
                    f"{len(vector)}; open it with the embedder that made them"
                )
            allowed = None
            if where != WHOLE_USER:
                rows = db.execute(_SQL["document_ids"].format(where=where), values)
                allowed = np.fromiter((row[0] for row in rows), dtype=np.int64)
            # One BLAS thread: on busy cores a second one costs more than it brings.
            with _one_blas_thread, self._blas.limit(limits=1, user_api="blas"):
                docs, scores = mine.nearest(
                    vector.astype(np.float32),
                    query.limit,
                    labels=_labels_of(query),
                    allowed=allowed,
                    fetch=lambda parts: _read_parts(db, parts, mine.dims),
                )
            names = {"user_id": query.scope.user_id, "docs": json.dumps(docs.tolist())}
            named = {doc: (kind, id_) for doc, kind, id_ in db.execute(_SQL["names_of"], names)}
        ranked = zip(docs.tolist(), scores.tolist(), strict=True)
        return [
            Match(kind=cast("Kind", named[doc][0]), id=str(named[doc][1]), score=score)
            for doc, score in ranked
            if doc in named
        ]

    def reset(self, name: str, dims: int) -> int:
        """See `VectorIndex.reset`."""
        with self._db.write() as db:
            db.execute(_SQL["drop_every_vector"])
            db.execute(_SQL["bump_every_generation"])
            db.execute(_SQL["all_pending"])
            _bind(db, name, dims)
            row = db.execute(_SQL["count_pending"]).fetchone()
        return int(row[0]) if row else 0

    def _vectors_of(self, db: apsw.Connection, user_id: str) -> UserVectors:
        """Return the user's vectors as of now; what others added or removed is noticed here."""
        row = db.execute(_SQL["get_owner"], {"user_id": user_id}).fetchone()
        owner, generation = cast("tuple[int, int]", row or (0, 0))
        if db.in_transaction:  # what is not committed may be undone: nothing of it is kept
            fresh = UserVectors(generation)
            _read_new(db, owner, fresh)
            return fresh
        with self._lock:
            mine = self._users.get(user_id)
            if mine is None or mine.generation != generation:
                mine = self._users[user_id] = UserVectors(generation)
            _read_new(db, owner, mine)
            self._users.move_to_end(user_id)
            while len(self._users) > 1 and sum(u.nbytes for u in self._users.values()) > self._cache_bytes:
                self._users.popitem(last=False)
            return mine.view()


def _read_new(db: apsw.Connection, owner: int, mine: UserVectors) -> None:
    """Read the rows behind the newest one known, in pieces: a million must not be in memory at once."""
    while True:
        values = {"owner": owner, "after": mine.last_part, "limit": _PIECE}
        rows: list[Any] = db.execute(_SQL["read_vectors"], values).fetchall()
        if rows:
            parts, docs = np.asarray([row[:2] for row in rows], dtype=np.int64).T
            labels = np.asarray([_LABELS.index(row[3:]) for row in rows], dtype=np.uint8)
            mine.append(parts, docs, labels, _floats([row[2] for row in rows]))
        if len(rows) < _PIECE:
            return


def _labels_of(query: Query) -> list[int] | None:
    """Return the labels a query asks for, None where it asks for all."""
    if query.roles is None and set(query.kinds) >= set(SEARCHABLE):
        return None
    wanted = ((query.roles is None or role in query.roles) and kind in query.kinds for kind, role in _LABELS)
    return [label for label, asked in enumerate(wanted) if asked]


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
