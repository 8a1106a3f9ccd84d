"""Vectors as float16 rows beside a `SqliteStore`, searched exactly with numpy."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import apsw
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from jiyi.errors import EmbedderMismatch
from jiyi.records import Episode, Kind, Knowledge, Match, Message, Query, Scope
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_conditions import WHOLE_USER, on_documents
from jiyi.storage.sqlite_database import SqliteDatabase
from jiyi.storage.sqlite_find import find_records
from jiyi.storage.vectors import PendingText, VectorRow

__all__ = ["SqliteVectors"]

_SQL = load_queries("sqlite")
_LEASE_SECONDS = 120


@dataclass(slots=True)
class _Matrix:
    """One user's vectors in memory; the parts of a record lie side by side.

    The arrays have room to spare, so that a new vector does not copy the old ones. Rows
    behind ``size`` are never looked at, and filled rows never change: a search may go on
    with its own view while the matrix grows.
    """

    generation: int  # of the user's removals, when it was read
    last_part: int = 0  # newest row read
    size: int = 0  # rows in use
    docs: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    @property
    def nbytes(self) -> int:
        return self.docs.nbytes + self.vectors.nbytes

    def view(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self.docs[: self.size], self.vectors[: self.size]

    def append(self, docs: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        size = self.size + len(docs)
        if size > len(self.docs):
            room = max(size, 2 * self.size) if self.size else size
            grown_docs, grown = np.empty(room, np.int64), np.empty((room, vectors.shape[1]), np.float32)
            if self.size:
                grown_docs[: self.size], grown[: self.size] = self.view()
            self.docs, self.vectors = grown_docs, grown
        self.docs[self.size : size], self.vectors[self.size : size] = docs, vectors
        self.size = size


class SqliteVectors:
    """`jiyi.storage.vectors.VectorIndex` on the same `SqliteDatabase` as the store.

    Search is exact: one user's vectors are read once, kept in memory as a float32 matrix
    and extended as new ones arrive. Matrices of the least recently asked users leave
    when all together exceed ``cache_bytes``.
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
        self._matrices: OrderedDict[str, _Matrix] = OrderedDict()
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
        values = {"now": now if leased else now + 2 * _LEASE_SECONDS, "until": now + _LEASE_SECONDS}
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
        where, values = on_documents(query)
        with self._db.read() as db:
            docs, vectors = self._vectors_of(db, query.scope.user_id)
            if not len(docs):
                return []
            docs, scores = _best_parts(docs, self._product(vectors, vector))
            if where != WHOLE_USER:
                rows = db.execute(_SQL["document_ids"].format(where=where), values)
                keep = np.isin(docs, np.fromiter((row[0] for row in rows), dtype=np.int64))
                docs, scores = docs[keep], scores[keep]
            best = _top(scores, docs, query.limit)
            names = {"user_id": query.scope.user_id, "docs": json.dumps(docs[best].tolist())}
            named = {doc: (kind, id_) for doc, kind, id_ in db.execute(_SQL["names_of"], names)}
        ranked = zip(docs[best].tolist(), scores[best].tolist(), strict=True)
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

    def _product(self, vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        # One BLAS thread: on busy cores a second one costs more than it brings.
        with self._blas.limit(limits=1, user_api="blas"):
            return vectors @ vector.astype(np.float32)

    def _vectors_of(self, db: apsw.Connection, user_id: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the user's vectors as of now; what others added or removed is noticed here."""
        row = db.execute(_SQL["get_owner"], {"user_id": user_id}).fetchone()
        owner, generation = cast("tuple[int, int]", row or (0, 0))
        with self._lock:
            matrix = self._matrices.get(user_id)
            if matrix is None or matrix.generation != generation:
                matrix = _Matrix(generation=generation)
            _read_new(db, owner, matrix)
            self._matrices[user_id] = matrix
            self._matrices.move_to_end(user_id)
            while (
                len(self._matrices) > 1 and sum(m.nbytes for m in self._matrices.values()) > self._cache_bytes
            ):
                self._matrices.popitem(last=False)
            return matrix.view()


def _read_new(db: apsw.Connection, owner: int, matrix: _Matrix) -> None:
    rows: list[Any] = db.execute(_SQL["read_vectors"], {"owner": owner, "after": matrix.last_part}).fetchall()
    if rows:
        docs = np.asarray([row[1] for row in rows], dtype=np.int64)
        vectors = np.frombuffer(b"".join(row[2] for row in rows), dtype=np.float16)
        matrix.append(docs, vectors.astype(np.float32).reshape(len(rows), -1))
        matrix.last_part = rows[-1][0]


def _text(db: apsw.Connection, user_id: str, kind: Kind, id_: str) -> str:
    query = Query(scope=Scope(user_id=user_id), kinds=(kind,), ids=(id_,))
    return cast("Message | Episode | Knowledge", find_records(db, kind, query)[0]).search_text


def _best_parts(
    docs: NDArray[np.int64], scores: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Reduce the scores of parts to the best of each record."""
    starts = np.flatnonzero(np.r_[True, docs[1:] != docs[:-1]])
    return docs[starts], np.maximum.reduceat(scores, starts)


def _top(scores: NDArray[np.float32], docs: NDArray[np.int64], limit: int) -> NDArray[np.intp]:
    """Return the places of the best scores, best first; newer records win ties."""
    if len(scores) > limit:
        places = np.argpartition(scores, len(scores) - limit)[-limit:]
    else:
        places = np.arange(len(scores))
    return places[np.lexsort((-docs[places], -scores[places]))]


def _identity(db: apsw.Connection) -> tuple[str, int] | None:
    values = [
        db.execute(_SQL["get_meta"], {"name": f"embedder_{part}"}).fetchone() for part in ("name", "dims")
    ]
    return (str(values[0][0]), int(values[1][0])) if values[0] and values[1] else None


def _bind(db: apsw.Connection, name: str, dims: int) -> None:
    for part, value in (("name", name), ("dims", str(dims))):
        db.execute(_SQL["set_meta"], {"name": f"embedder_{part}", "value": value})
