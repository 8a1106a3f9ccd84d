"""Vectors in PostgreSQL, compared on the server by pgvector."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
from psycopg import errors as pg

from jiyi.errors import StorageError
from jiyi.records import SEARCHABLE, Kind, Query, Scope
from jiyi.storage.database import Call, Connection, Database, retried
from jiyi.storage.postgres.ann import AnnIndex, AnnPlan
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.database import PostgresDatabase
from jiyi.storage.postgres.errors import MachineLost
from jiyi.storage.postgres.statements import POSTGRES, SQL
from jiyi.storage.relational.conditions import document_conditions
from jiyi.storage.relational.snapshot import Snapshot, cached_part, read_allowed_docs
from jiyi.storage.search import user_vectors
from jiyi.storage.search.candidates import Rows
from jiyi.storage.search.user_vectors import CachedVectors, Floats, Ints, Parts, UserVectors, Vectors
from jiyi.storage.vectors import PendingText, Vector, VectorIndex, VectorRow, rows_by_user

_Near = tuple[Kind, int, float]  # kind and number of a record, cosine

# What of a query is no condition here; ``without`` are few, and left out of what is found.
_NO_CONDITIONS: Any = {"text": "", "limit": 10, "newest_first": False, "asked_at": None, "without": ()}
_SPARE_PARTS = 8  # asked for besides two for each record


MAX_IN_MEMORY = 4_000
"""With more records or vectors a user's are compared on the server: reading them would take too long."""

_HEAD = 2  # 16-bit values before the numbers in a vector's binary form


@dataclass(slots=True)
class InMemoryVectors(UserVectors):
    """All vectors of a user with few, compared in this process, which is faster than the server."""

    after: int = 0  # newest document that was read
    waiting: list[int] = field(default_factory=list)  # documents up to there without vectors
    too_many: bool = False  # nothing is cached

    def calls(self, user_id: str) -> list[Call]:
        """Return the statements for the missing vectors; ``generation`` is for `_can_extend`."""
        if self.too_many:
            return []
        whose = {"user_id": user_id, "space": self.space, "generation": self.generation}
        calls = [Call("vectors_after", {**whose, "after": self.after, "limit": MAX_IN_MEMORY + 1})]
        return [*calls, *([Call("vectors_of_docs", {**whose, "docs": self.waiting})] if self.waiting else [])]


class PostgresVectors(VectorIndex):
    """A `VectorIndex` on the same `PostgresDatabase` as the store."""

    _db: PostgresDatabase

    def __init__(self, database: PostgresDatabase, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(database, now=now)
        self._ann = AnnIndex(database)
        database.read_ahead = InMemoryVectors

    def pending(self, limit: int, *, leased: bool = True, name: str | None = None) -> list[PendingText]:
        """See `VectorIndex.pending`.

        While a machine of a cluster is away: texts of the users this process wrote to recently.
        """

        def pending() -> list[PendingText] | None:
            try:
                return self._pending_once(limit, leased=leased, name=name)
            except MachineLost:
                if name is not None:  # a second set is complete for everybody or not at all
                    raise
                return None

        found = self._db.attempt(pending)
        return self._pending_of_recent(limit, leased) if found is None else found

    def _pending_of_recent(self, limit: int, leased: bool) -> list[PendingText]:
        found: list[PendingText] = []
        for user_id in self._db.recent.newest_first():
            if len(found) < limit:
                values = self._lease_values(limit - len(found), leased)
                with suppress(MachineLost):
                    rows = self._db.fetch("pending_of", {**values, "user_id": user_id})
                    docs = [int(row[0]) for row in rows]
                    found += self._lease(user_id, docs, values) if docs else []
        return found

    def count_pending(self) -> int:
        """See `VectorIndex.count_pending`; `sys.maxsize` while a machine is away."""
        with suppress(MachineLost):
            return super().count_pending()
        return sys.maxsize

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:

        def add(user_id: str, own: dict[int, VectorRow]) -> int | MachineLost:
            try:
                return self._add(user_id, own, name)
            except MachineLost as error:  # not retried: the vectors of other users are added first
                return error

        tries = [partial(add, user_id, own) for user_id, own in rows_by_user(rows).items()]
        results = [self._db.attempt(try_, repeatable=False) for try_ in tries]
        for result in results:
            if isinstance(result, MachineLost):
                raise result
        return sum(count for count in results if isinstance(count, int))

    def _add(self, user_id: str, rows: dict[int, VectorRow], name: str | None) -> int:
        with self._db.write(user_id) as db:
            taking, complete = self._mark_complete(db, user_id, rows, self._sets_for(db, name))
            for doc, space, kind in taking:
                of_record = {"user_id": user_id, "doc": doc, "space": space, "kind": kind}
                halves = enumerate(rows[doc].vectors.astype(np.float16))
                vectors = [of_record | {"part": part, "vector": half} for part, half in halves]
                db.run_many("add_vector", vectors)
        return complete

    def _find_nearest(self, query: Query, vector: Vector, snapshot: Snapshot) -> tuple[Ints, Floats]:
        nearest = self._find_in_memory(query, vector, snapshot)
        if nearest is not None:
            return nearest
        kinds = [kind for kind in snapshot.terms.kinds() if kind in query.kinds]
        if not kinds:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        where, values = _on_vectors(query)
        half = vector.astype(np.float16)
        rest = (vector - half.astype(np.float32)).astype(np.float16)
        values |= {"vector": half, "rest": rest}
        limit = query.limit + len(query.without)
        parts = 2 * limit + _SPARE_PARTS
        plan = None if where else self._ann.plan(query.scope.user_id, parts)
        while True:
            of_kinds = [
                SQL["nearest_by_index"].format(kind=kind, space=plan.space, dims=plan.dims)
                if plan and kind in plan.kinds
                else SQL["nearest_exactly"].format(kind=kind, and_where=where)
                for kind in kinds
            ]
            asked = values | {"parts": parts, "nearby": 2 * parts}
            rows = self._nearest(query.scope.user_id, asked, of_kinds, plan)
            best, part_counts, short_kinds = _best_of_records(rows, limit)
            if plan and any(part_counts[kind] < parts for kind in plan.kinds & set(kinds)):
                self._ann.forget()  # the index is gone, or another set is searched
                plan = None
            elif plan or all(part_counts[kind] < parts for kind in short_kinds):
                docs, scores = np.array([*best], np.int64), np.array([*best.values()], np.float32)
                unwanted = snapshot.terms.rows_of([(k, id_) for id_ in query.without for k in SEARCHABLE])
                wanted = ~np.isin(snapshot.terms.rows_of_docs(docs), unwanted[unwanted >= 0])
                return docs[wanted], scores[wanted]
            else:  # of records with many parts each, not enough records are among the nearest parts
                parts *= 8

    @retried()
    def _find_in_memory(self, query: Query, vector: Vector, snapshot: Snapshot) -> tuple[Ints, Floats] | None:
        """Compare a user's vectors in this process; None where they are compared on the server."""
        with self._db.read(query.scope.user_id) as db:
            vectors = _in_memory_vectors(self._db, db, snapshot)
            if vectors is None:
                return None
            if vectors.size and vectors.dims != len(vector):
                raise self._dims_mismatch(vectors.dims, vector)
            docs = read_allowed_docs(db, query)
        return user_vectors.find_nearest(snapshot.terms, vectors, query, vector, docs, fetch=vectors.take)

    def _nearest(
        self, user_id: str, values: dict[str, Any], of_kinds: Sequence[str], plan: AnnPlan | None
    ) -> list[_Near]:
        settings, words = plan.settings if plan else (), " UNION ALL ".join(of_kinds)

        def nearest() -> list[_Near]:
            with self._db.read(user_id) as db:
                return cast("list[_Near]", db.rows_with(settings, "nearest", values, of_kinds=words))

        try:
            return self._db.attempt(nearest)
        except StorageError as error:
            if isinstance(error.__cause__, pg.DataException):
                held = self._db.fetch("dims_held", {"user_id": user_id})
                raise self._dims_mismatch(held[0][0] if held else None, values["vector"]) from error
            raise

    def _read_docs(self, db: Connection, user_id: str, space: int, docs: Sequence[int]) -> Vectors:
        values = {"user_id": user_id, "space": space, "docs": db.dialect.array(docs)}
        rows = db.rows("vectors_of_docs", values) if docs else []
        if not rows:
            return {}
        counts = Counter(cast("int", row[0]) for row in rows)
        return dict(zip(counts, np.split(_as_floats(rows), np.cumsum([*counts.values()])[:-1]), strict=True))

    @retried()
    def read_rows(self, snapshot: Snapshot, rows: Rows) -> Parts:
        with self._db.read(snapshot.user_id) as db:
            if db.in_transaction:
                return self._read_stored(db, snapshot.user_id, snapshot.terms.keys(rows))
            if vectors := _in_memory_vectors(self._db, db, snapshot):
                return user_vectors.row_vectors(snapshot.terms, vectors, rows)
            return self._read_cached(db, snapshot, rows)

    def _read_cached(self, db: PostgresConnection, snapshot: Snapshot, rows: Rows) -> Parts:
        """Return vectors of a user who has many, and keep those read from the server."""
        assert snapshot.owner is not None
        docs = np.where(rows >= 0, snapshot.terms.columns["doc"][rows], -1).tolist()

        def extend(known: CachedVectors) -> None:
            known.use_space(snapshot.spaces.number)
            missing = [doc for doc in docs if doc >= 0 and doc not in known.of_docs]
            known.add(self._read_docs(db, snapshot.user_id, known.space, missing))

        return self._db.cache.use(snapshot.user_id, CachedVectors, snapshot.owner[1], extend).parts(docs)

    def make_ann_index(self) -> str:
        """Make an approximate index for users with very many vectors; see `AnnIndex.make`."""
        return self._ann.make()


def _best_of_records(rows: Sequence[_Near], limit: int) -> tuple[dict[int, float], Counter[Kind], list[Kind]]:
    """Return scores by record, ``limit`` of each kind; counts of parts by kind; kinds with fewer records."""
    best: dict[int, float] = {}
    part_counts = Counter[Kind](row[0] for row in rows)
    left = dict.fromkeys(part_counts, limit)
    for kind, doc, score in rows:
        if doc not in best and left[kind]:
            best[doc] = score
            left[kind] -= 1
    return best, part_counts, [kind for kind in part_counts if left[kind]]


def _on_vectors(query: Query) -> tuple[str, dict[str, object]]:
    """Return the conditions on ``vectors AS v`` besides user and kind."""
    user = Scope(user_id=query.scope.user_id)
    if replace(query, kinds=SEARCHABLE, **_NO_CONDITIONS) == Query(scope=user):
        return "", {"user_id": user.user_id}
    where, values = document_conditions(query, POSTGRES)
    return f"AND v.doc IN (SELECT d.doc FROM documents AS d WHERE {where})", values


def _in_memory_vectors(database: Database, db: Connection, snapshot: Snapshot) -> InMemoryVectors | None:
    """Return a user's vectors as of a snapshot; None if there are too many, or inside a transaction."""
    if db.in_transaction:
        return None
    vectors = cached_part(database, db, snapshot, InMemoryVectors, partial(_extend, db, snapshot))
    return None if vectors.too_many else vectors


def _as_floats(rows: Sequence[tuple[Any, ...]]) -> Floats:
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
        vectors.append(np.arange(vectors.size, vectors.size + len(rows)), docs, _as_floats(rows))
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
