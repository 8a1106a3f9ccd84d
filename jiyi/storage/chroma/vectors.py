"""The vector index on Chroma, for a store in SQLite or PostgreSQL."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from jiyi.errors import EmbedderMismatch, IndexUnreachable, SettingsError, StorageError, WrongState
from jiyi.one_thread import one_blas_thread
from jiyi.records import SEARCHABLE, Kind, Query, Scope
from jiyi.settings import Settings
from jiyi.storage.chroma.collections import Collections, Item
from jiyi.storage.chroma.connection import ChromaConnection, ChromaFolder, ChromaServer
from jiyi.storage.chroma.outbox import Drift, Outbox, drift, repair, spaces_in_use
from jiyi.storage.database import Connection, Database, grouped, retried
from jiyi.storage.place import Place
from jiyi.storage.relational.conditions import document_conditions
from jiyi.storage.relational.snapshot import Sets, Snapshot
from jiyi.storage.search.candidates import Key, Rows
from jiyi.storage.search.matching import best_of_groups
from jiyi.storage.search.user_vectors import CachedVectors, Floats, Ints, Parts
from jiyi.storage.vectors import PendingText, Vector, VectorIndex, VectorRow, rows_by_user

_COMPARED_EXACTLY = 300  # records up to which all are compared instead of using Chroma's index
_FIRST_COUNT = 200  # fewest vectors asked for: the index is more exact the more it is asked for
_GROWTH = 4  # factor for the next try if the rows allow too few of them
_MAX_COUNT = 5_000  # beyond that all allowed records are compared
_NO_LIMIT = 2**31 - 1
_EPSILON = 1e-6  # largest difference between scores of equal vectors

_Allowed = tuple[str, int, Kind, str, int]  # token, number of vectors, kind, id and number of a record

_log = logging.getLogger("jiyi")


class ChromaVectors(VectorIndex):
    """A `VectorIndex` on Chroma; the store's tables know which record has vectors.

    Guarantees: a record is complete only when Chroma has its vectors; removed records are never
    returned, and their vectors are removed from Chroma before anything else is done there; after a
    crash at any moment it repairs itself. Vectors are rounded to float16, as in the other indexes.
    Only `add`, `nearest` and `read` need Chroma to answer.
    """

    def __init__(
        self, database: Database, collections: Collections, *, now: Callable[[], float] = time.time
    ) -> None:
        """Use a database that `jiyi.storage.backend.bind_to_chroma` was called for."""
        super().__init__(database, now=now)
        self._collections = collections
        self._outbox = Outbox(database, collections, now=now)
        self._adding = threading.Lock()  # a purge waits for vectors that are being sent

    def pending(self, limit: int, *, leased: bool = True, name: str | None = None) -> list[PendingText]:
        self._drain()
        return super().pending(limit, leased=leased, name=name)

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:
        """See `VectorIndex.add`: vectors are noted, sent to Chroma, and their records completed."""
        if not rows:
            return 0
        self._collections.connection.ping()
        self._drain()
        with self._adding:
            added = sum(self._add(user_id, own, name) for user_id, own in rows_by_user(rows).items())
        self._drain()
        return added

    def _add(self, user_id: str, rows: Mapping[int, VectorRow], name: str | None) -> int:
        def begin() -> tuple[Sets, dict[int, list[Item]]]:
            with self._db.write(user_id) as db:
                sets = self._sets_for(db, name)
                items = _items(db, user_id, rows, sets)
                self._outbox.note_sent(db, items)
                return sets, items

        sets, items = self._db.attempt(begin)
        if self._db.in_transaction:
            self._outbox.note_uncommitted(items)
        for space, own in items.items():
            try:
                self._collections.add(space, own)
            except EmbedderMismatch:
                # The collection may be left from an abandoned set with the same number.
                if self._outbox.in_use(space, besides=[item.token for item in own]):
                    raise
                self._collections.drop(space)
                self._collections.add(space, own)
        return self._db.attempt(lambda: self._mark_arrived(user_id, rows, items, sets, name))

    def _mark_arrived(
        self,
        user_id: str,
        rows: Mapping[int, VectorRow],
        items: Mapping[int, Sequence[Item]],
        sets: Sets,
        name: str | None,
    ) -> int:
        """Complete the records whose vectors Chroma has by now, if they still lack them."""
        sent = {(item.doc, space): item.token for space, own in items.items() for item in own}
        with self._db.write(user_id) as db:
            if self._sets_for(db, name) != sets:  # switched meanwhile: the records stay pending
                return 0
            values = {"user_id": user_id, "tokens": db.dialect.array(list(sent.values()))}
            held = {row[0] for row in db.rows("chroma_mark_held", values)}
            # Those that took too long are being removed again.
            arrived = {place for place, token in sent.items() if token in held}
            taking, complete = self._mark_complete(db, user_id, rows, sets, arrived)
            for doc, space, _ in taking:
                db.run("chroma_mark", {"user_id": user_id, "doc": doc, "space": space})
                arrived.remove((doc, space))
            # The records of the others were deleted, or completed by another process.
            tokens = db.dialect.array([sent[place] for place in arrived])
            db.run("chroma_mark_going", {"user_id": user_id, "tokens": tokens})
        return complete

    @retried()
    def _find_nearest(self, query: Query, vector: Vector, snapshot: Snapshot) -> tuple[Ints, Floats]:
        """Ask Chroma for the nearest of each kind, and drop what is removed or not allowed.

        More is asked for until ``limit`` of a kind are found, with ties at the end; few are compared exactly.
        """
        self._outbox.drain()
        vector, space = vector.astype(np.float32), self._spaces().number
        allowed = self._allowed(space, query, _COMPARED_EXACTLY + 1)
        if len(allowed) <= _COMPARED_EXACTLY:
            return self._compare(space, query, allowed, vector)
        kinds = [kind for kind in SEARCHABLE if kind in query.kinds]
        of_kinds = [self._nearest_of_kind(space, query, kind, vector) for kind in kinds]
        docs, scores = map(np.concatenate, zip(*of_kinds, strict=True))
        best = np.lexsort((-docs, -scores))
        return docs[best], scores[best]

    def _nearest_of_kind(self, space: int, query: Query, kind: Kind, vector: Vector) -> tuple[Ints, Floats]:
        count = max(_FIRST_COUNT, 2 * query.limit)
        while count <= max(_MAX_COUNT, 2 * query.limit):
            near = self._collections.nearest(space, query.scope.user_id, kind, vector, count)
            of_tokens = dict(reversed(near))  # the best comes first: a record counts with its best vector
            rows = self._join(space, query, list(of_tokens))
            docs = np.array([doc for _, doc in rows], np.int64)
            scores = np.array([of_tokens[token] for token, _ in rows], np.float32)
            best = np.lexsort((-docs, -scores))[: query.limit]
            complete = len(best) == query.limit  # with ties at the end
            if complete and (len(near) < count or scores[best[-1]] > near[-1][1] + _EPSILON):
                return docs[best], scores[best]
            if len(near) < count:
                break
            count *= _GROWTH
        # Chroma returned all it has, or very many that are not allowed: compare all allowed rows.
        everything = self._allowed(space, query, _NO_LIMIT, kind=kind)
        return self._compare(space, query, everything, vector)

    def _join(self, space: int, query: Query, tokens: Sequence[str]) -> list[tuple[str, int]]:
        """Return those of the tokens that a query allows, with the numbers of their records."""
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect)
            values |= {"tokens": db.dialect.array(tokens), "space": space}
            return [(row[0], row[-1]) for row in db.rows("chroma_of_tokens", values, where=where)]

    def _allowed(self, space: int, query: Query, limit: int, *, kind: Kind | None = None) -> list[_Allowed]:
        """Return token, vectors, kind, id and number of the records that a query allows."""
        with self._db.read(query.scope.user_id) as db:
            where, values = document_conditions(query, db.dialect)
            if kind is not None:
                where += f" AND d.kind = '{kind}'"
            rows = db.rows("chroma_allowed", values | {"space": space, "limit": limit}, where=where)
        return cast("list[_Allowed]", rows)

    def _compare(
        self, space: int, query: Query, allowed: Sequence[_Allowed], vector: Vector
    ) -> tuple[Ints, Floats]:
        """Return the nearest of the allowed records, ``query.limit`` of each kind."""
        docs = np.array([record[-1] for record in allowed], np.int64)
        tokens = {doc: (token, count) for token, count, _, _, doc in allowed}
        parts = self._read_cached(query.scope.user_id, space, tokens).parts(docs.tolist())
        if len(parts.vectors) and parts.vectors.shape[1] != len(vector):
            raise self._dims_mismatch(parts.vectors.shape[1], vector)
        scores = np.full(len(allowed), -np.inf, np.float32)
        if len(parts.vectors):
            with one_blas_thread():
                np.maximum.at(scores, parts.rows, parts.vectors @ vector)
        kinds = np.array([SEARCHABLE.index(record[2]) for record in allowed], np.int8)
        there = np.flatnonzero(np.isfinite(scores))  # others have no vectors
        best = there[best_of_groups(docs[there], scores[there], kinds[there], query.limit)]
        return docs[best], scores[best]

    @retried()
    def read(
        self, scope: Scope, keys: Sequence[Key], *, exact: bool = False, snapshot: Snapshot | None = None
    ) -> Parts:
        """See `VectorIndex.read`; they are as they are stored in either case."""
        space = self._spaces().number
        tokens: dict[int, tuple[str, int]] = {}
        numbers: dict[Key, int] = {}
        with self._db.read(scope.user_id) as db:
            for kind, ids in grouped(keys).items():
                values = {"user_id": scope.user_id, "kind": kind, "ids": db.dialect.array(ids)}
                for token, parts, _, id_, doc in db.rows("chroma_of_ids", values | {"space": space}):
                    tokens[doc], numbers[kind, id_] = (token, parts), doc
        return self._read_cached(scope.user_id, space, tokens).parts([numbers.get(key, -1) for key in keys])

    def read_rows(self, snapshot: Snapshot, rows: Rows) -> Parts:
        return self.read(Scope(user_id=snapshot.user_id), snapshot.terms.keys(rows))

    def _read_cached(self, user_id: str, space: int, tokens: Mapping[int, tuple[str, int]]) -> CachedVectors:
        """Return vectors, read from Chroma once, given token and number of parts by record number."""

        def extend(known: CachedVectors) -> None:
            known.use_space(space)
            lacking = {tokens[doc][0]: doc for doc in tokens if doc not in known.of_docs}
            asked = {token: tokens[doc][1] for token, doc in lacking.items()}
            found = self._collections.read(space, asked) if asked else {}
            known.add({lacking[token]: vectors for token, vectors in found.items()})

        keep = not self._db.in_transaction  # if it is undone, its numbers are used again
        return self._db.cache.use(user_id, CachedVectors, 0, extend, keep=keep)

    def renew(self, name: str, dims: int) -> int:
        before = self._spaces()
        lacking = super().renew(name, dims)
        if before.next_name is not None and (before.next_name, before.next_dims) != (name, dims):
            self._drop_unused()
        return lacking

    def switch(self, name: str) -> int:
        """See `VectorIndex.switch`; the old collection is dropped as a whole."""
        left = super().switch(name)
        self._drop_unused()
        return left

    def records_removed(self) -> None:
        """See `VectorIndex.records_removed`; if Chroma does not answer it is done later."""
        try:
            self._outbox.drain()
        except StorageError as error:
            _log.info("vectors of removed records stay in Chroma for now: %s", error)

    def check_alone(self) -> None:
        """See `VectorIndex.check_alone`: Chroma must answer."""
        self._collections.connection.ping()

    def scrub(self) -> bool:
        """See `VectorIndex.scrub`: a server's database keeps ids and users' names, see docs/chroma.md."""
        if self._db.in_transaction:
            raise WrongState("overwriting is no part of a transaction; call it after that")
        with self._adding:
            self._outbox.drain()
            self._db.cache.clear()  # nothing purged may stay in memory either
            return self._collections.scrub()

    def drift(self) -> Drift:
        """Compare Chroma with the rows and change nothing."""
        return drift(self._db, self._collections)

    def repair(self) -> list[str]:
        """Remove vectors without a record, make records without vectors pending; return what was done."""
        with self._adding:
            done = repair(self._db, self._collections, self._outbox)
            self._db.cache.clear()
        return done

    def close(self) -> None:
        self._collections.connection.close()

    def _drop_unused(self) -> None:
        """Drop collections that are not in use; if Chroma does not answer they stay until a repair."""
        with contextlib.suppress(IndexUnreachable):
            there = self._collections.spaces()  # first: a set is noted before its collection is created
            used = spaces_in_use(self._db)
            for space in there:
                if space not in used:
                    self._outbox.forget_space(self._db.users(), space)

    def _drain(self) -> None:
        self._db.attempt(self._outbox.drain)


def _items(db: Connection, user_id: str, rows: Mapping[int, VectorRow], sets: Sets) -> dict[int, list[Item]]:
    """Return the vectors to send to Chroma by set: those of records that exist and lack them."""
    docs = db.dialect.array([doc for doc, row in rows.items() if len(row.vectors)])
    items: dict[int, list[Item]] = {}
    for space in (sets.searched, sets.second):
        if space is None:
            continue
        values = {"user_id": user_id, "docs": docs, "space": space}
        items[space] = [
            Item(
                token=uuid.uuid4().hex,
                user_id=user_id,
                doc=doc,
                kind=kind,
                vectors=rows[doc].vectors.astype(np.float16).astype(np.float32),
            )
            for doc, kind in cast("list[tuple[int, Kind]]", db.rows("lacking_vectors", values))
        ]
    return items


def open_vectors(place: Place, owner: str, database: Database, settings: Settings) -> ChromaVectors:
    """Return the vector index of a database in Chroma, without connecting to a server yet.

    Raises as `jiyi.storage.backend.open_backend` does.
    """
    if settings.chroma_url and settings.chroma_path:
        raise SettingsError("chroma_url and chroma_path are both set; Chroma is at one of them")
    connection: ChromaConnection
    path = settings.chroma_path or (place.path and place.path.with_name(f"{place.path.name}.chroma"))
    if settings.chroma_url:
        connection = ChromaServer(settings.chroma_url)
    elif path is not None:
        connection = ChromaFolder(path, lock_timeout=settings.lock_timeout)
    else:
        raise SettingsError(
            "vectors in Chroma beside a server's database need chroma_url, such as http://localhost:8000"
        )
    return ChromaVectors(database, Collections(connection, settings.chroma_collection, owner))
