"""Vectors as float16 rows in the same SQLite file as the store's tables, searched with numpy."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from jiyi.records import Query
from jiyi.storage.database import Connection
from jiyi.storage.relational.snapshot import Snapshot, cached_part, read_allowed_docs
from jiyi.storage.search import user_vectors
from jiyi.storage.search.candidates import Rows
from jiyi.storage.search.user_vectors import Floats, Ints, Parts, Preselect, UserVectors, Vectors
from jiyi.storage.sqlite.database import SqliteDatabase
from jiyi.storage.vectors import Vector, VectorIndex, VectorRow, rows_by_user

_MAX_NUMBER = 1.01  # of a vector of length 1, with rounding
_BATCH_SIZE = 10_000  # rows read at once


class SqliteVectors(VectorIndex):
    """A `VectorIndex` on the same `SqliteDatabase` as the store.

    A user's vectors are read once into the database's cache (see `UserVectors`) and then extended.
    """

    _db: SqliteDatabase

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:
        added = 0
        with self._db.write() as db:
            sets = self._sets_for(db, name)
            for user_id, own in rows_by_user(rows).items():
                taking, complete = self._mark_complete(db, user_id, own, sets)
                added += complete
                for doc, space, _ in taking:
                    of_record = {"user_id": user_id, "doc": doc, "space": space}
                    halves = own[doc].vectors.astype(np.float16)
                    db.run_many("add_vector", [of_record | {"vector": half.tobytes()} for half in halves])
        return added

    def _find_nearest(self, query: Query, vector: Vector, snapshot: Snapshot) -> tuple[Ints, Floats]:
        with self._db.read() as db:
            vectors = self._vectors_of(db, snapshot)
            if not vectors.size:
                return np.empty(0, np.int64), np.empty(0, np.float32)
            if vectors.dims != len(vector):
                raise self._dims_mismatch(vectors.dims, vector)
            docs, preselect = read_allowed_docs(db, query), self._preselect(db, query.scope.user_id, vectors)
            fetch = partial(_read_parts, db, dims=vectors.dims)
            return user_vectors.find_nearest(
                snapshot.terms, vectors, query, vector, docs, fetch=fetch, preselect=preselect
            )

    def _read_docs(self, db: Connection, user_id: str, space: int, docs: Sequence[int]) -> Vectors:
        rows = db.rows("vectors_of_docs", {"docs": db.dialect.array(docs), "space": space})
        vectors = _floats([vector for _, vector in rows])
        starts = np.flatnonzero(np.diff([doc for doc, _ in rows], prepend=-1))
        of_docs = zip(starts, np.split(vectors, starts[1:]), strict=False)
        return {rows[start][0]: own for start, own in of_docs}

    def read_rows(self, snapshot: Snapshot, rows: Rows) -> Parts:
        with self._db.read() as db:
            return user_vectors.row_vectors(snapshot.terms, self._vectors_of(db, snapshot), rows)

    def _vectors_of(self, db: Connection, snapshot: Snapshot) -> UserVectors:
        owner, space = snapshot.owner[0] if snapshot.owner else 0, snapshot.spaces.number
        return cached_part(self._db, db, snapshot, UserVectors, partial(_read_new, db, owner, space))

    def _preselect(self, db: Connection, user_id: str, vectors: UserVectors) -> Preselect | None:
        """Return what selects the vectors to compare; None compares all of them."""
        return None


def _read_new(db: Connection, owner: int, space: int, vectors: UserVectors) -> None:
    """Read the rows after the newest cached one in batches: a million must not be in memory at once.

    All are of the set that is searched, ``space`` at first; another process may switch meanwhile.
    """
    space = max(space, vectors.space)
    while True:
        if vectors.space != space:
            vectors.reset(space)
        whose = {"owner": owner, "space": space}
        if not vectors.size:
            vectors.expected = min(db.number("count_vectors", whose), user_vectors.MAX_EXACT)
        rows = db.rows("vectors_after", whose | {"after": vectors.last_part, "limit": _BATCH_SIZE})
        if rows:
            parts, docs = np.asarray([row[:2] for row in rows], dtype=np.int64).T
            vectors.append(parts, docs, _floats([row[2] for row in rows]))
        now = db.number("get_meta", {"name": "embedder_space"}) if rows else space
        if len(rows) < _BATCH_SIZE and now == space:
            return
        space = now


def _read_parts(db: Connection, parts: Ints, dims: int) -> Floats:
    found = dict(db.rows("vectors_of_parts", {"parts": db.dialect.array(parts.tolist())}))
    # Missing ones were deleted meanwhile; their records are not returned either.
    return _floats([found.get(part, b"") for part in parts.tolist()], dims)


def _floats(blobs: Sequence[bytes], dims: int = -1) -> Floats:
    """Return vectors as rows; damaged ones (of another size, or with impossible numbers) are zeros."""
    lengths = Counter(len(blob) for blob in blobs if isinstance(blob, bytes))
    size = 2 * dims if dims >= 0 else max(lengths, key=lambda length: lengths[length], default=0) // 2 * 2
    sound = [blob if isinstance(blob, bytes) and len(blob) == size else bytes(size) for blob in blobs]
    matrix = np.frombuffer(b"".join(sound), dtype=np.float16).astype(np.float32)
    matrix[~(np.abs(matrix) <= _MAX_NUMBER)] = 0.0
    return matrix.reshape(len(blobs), size // 2)
