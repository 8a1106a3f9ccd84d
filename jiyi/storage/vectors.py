"""The vector index. Which records have vectors is stored in the store's tables, wherever the vectors are."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import EmbedderMismatch, WrongState
from jiyi.records import Kind, Match, Query, Role, Scope, Searchable
from jiyi.storage.database import Call, Connection, Database, grouped, retried
from jiyi.storage.relational.find import find_by_keys
from jiyi.storage.relational.snapshot import Sets, Snapshot, Spaces, ensure_snapshot, read_spaces
from jiyi.storage.search.candidates import Key, Rows
from jiyi.storage.search.user_vectors import CachedVectors, Ints, Parts, Vectors

__all__ = ["Parts", "PendingText", "Vector", "VectorIndex", "VectorRow", "rows_by_user"]

Vector = NDArray[np.float32]

_LEASE_SECONDS = 120
_FAR_FUTURE = 2**62  # later than any lease ends, even where a clock went back
_BATCH_SIZE = 10_000  # vectors dropped at once

_Waiting = tuple[int, Kind, str, Role | None]  # number, kind, id, role of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A record that still lacks its vectors."""

    key: tuple[str, int]  # user and number, to be handed back in `VectorRow`
    text: str  # what to embed
    role: str | None = None  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of one record: one for each part of its text."""

    key: tuple[str, int]  # from `PendingText`
    vectors: NDArray[np.float32]  # shape (parts, dims), rows of length 1


class VectorIndex:
    """Stores the vectors of a store's records and finds the nearest.

    A record is written without its vectors and marked as pending; whoever embeds asks for
    pending texts and adds their vectors. Records deleted meanwhile are ignored.

    To embed everything again, maybe by another embedder, a second set of vectors is made while the first is
    searched: `renew`, `pending` and `add` with its name, `switch`.
    """

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        self._db = database
        self._now = now
        self._cursor = ("", 0)  # user and number of the last record that `pending` gave for the second set

    @retried()
    def claim(
        self, name: str | None = None, dims: int | None = None, *, snapshot: Snapshot | None = None
    ) -> Spaces:
        """Bind the index to an embedder, or check that it is bound to this one; return its sets of vectors.

        Without ``dims`` only the name is checked and nothing is bound; without ``name`` nothing is checked.
        With a `Store.snapshot`, nothing is read. Raises `EmbedderMismatch` if another embedder is bound.
        """
        spaces = snapshot.spaces if snapshot is not None else self._spaces()
        if spaces.name is None and name is not None and dims is not None:
            with self._db.write() as db:
                spaces = read_spaces(db)
                if spaces.name is None:
                    _set_meta(db, embedder_name=name, embedder_dims=dims)
                    spaces = read_spaces(db)
        if None not in (name, spaces.name) and (spaces.name != name or dims not in (None, spaces.dims)):
            raise self._embedder_mismatch(spaces, name)
        return spaces

    @retried()
    def pending(self, limit: int, *, leased: bool = True, name: str | None = None) -> list[PendingText]:
        """Return up to ``limit`` texts without vectors, oldest first.

        They are leased to the caller for two minutes, so that two processes do not embed the same text;
        ``leased=False`` ignores the leases of others. With ``name``: the texts that the second set lacks,
        none if no set of this embedder is being made. They are not leased; each call continues after the one
        before, up to an empty answer, and then starts again with what was saved meanwhile.
        """
        return self._pending_once(limit, leased=leased, name=name)

    def _pending_once(self, limit: int, *, leased: bool, name: str | None) -> list[PendingText]:
        spaces = self._spaces()
        if name is not None:
            second = spaces.of(name).second
            return [] if second is None else self._next_without_vectors(second, limit)
        if spaces.switching:  # whoever started it was interrupted
            self._complete_switch(spaces)
        values = self._lease_values(limit, leased)
        before: Sequence[object] = []
        while (listed := self._db.fetch("first_pending", values)) != before:
            waiting = grouped(cast("list[tuple[str, int]]", listed))
            if texts := [text for user, docs in waiting.items() for text in self._lease(user, docs, values)]:
                return texts
            before = listed  # taken by others meanwhile: the next may still be pending
        return []

    @retried()
    def set_aside(self, key: tuple[str, int], why: int) -> None:
        """Exclude a record from `pending`; it still counts. ``why`` is an HTTP status or another code > 0."""
        self._db.execute("set_aside", {"user_id": key[0], "doc": key[1], "lease": -why})

    @retried()
    def count_set_aside(self, user_id: str | None = None) -> Mapping[int, int]:
        """Return how many records are set aside, of a user or of all, by reason."""
        name = "count_set_aside" if user_id is None else "count_set_aside_of_user"
        return {int(why): int(count) for why, count in self._db.fetch(name, {"user_id": user_id})}

    @retried()
    def requeue_set_aside(self) -> int:
        """Make records of all users that were set aside pending again; return how many."""
        if not self.count_set_aside():
            return 0
        requeued = 0
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                requeued += len(db.rows("requeue_set_aside", {"user_id": user_id}))
        return requeued

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:
        """Store vectors and mark their records as complete, one transaction per user; return how many.

        With ``name`` they are added to each of the two sets that is of this embedder and lacks them.
        Raises `EmbedderMismatch` if neither is: another process switched meanwhile.
        """
        raise NotImplementedError

    def nearest(self, query: Query, vector: Vector, *, snapshot: Snapshot | None = None) -> list[Match]:
        """Return the records nearest to ``vector`` by cosine, best first, at most ``limit`` of each kind.

        The score of a record is that of its best part.
        """
        snapshot = self._snapshot(query.scope.user_id, snapshot)
        return snapshot.terms.matches(*self._find_nearest(query, vector, snapshot))

    def nearest_rows(self, query: Query, vector: Vector, snapshot: Snapshot) -> Rows:
        """Return what `nearest` finds as rows of ``snapshot.terms``, in its order; -1 for unknown records."""
        return snapshot.terms.rows_of_docs(self._find_nearest(query, vector, snapshot)[0])

    def _find_nearest(self, query: Query, vector: Vector, snapshot: Snapshot) -> tuple[Ints, Vector]:
        raise NotImplementedError  # numbers of records, and their scores

    @retried()
    def _snapshot(self, user_id: str, given: Snapshot | None) -> Snapshot:
        with self._db.read(user_id) as db:
            return ensure_snapshot(self._db, db, user_id, given)

    @retried()
    def read(
        self, scope: Scope, keys: Sequence[Key], *, exact: bool = False, snapshot: Snapshot | None = None
    ) -> Parts:
        """Return the vectors of a user's records; unknown and pending ones have none.

        With ``exact`` they are as stored, a record's in their order; else very many may be rounded.
        """
        with self._db.read(scope.user_id) as db:
            if exact or db.in_transaction:  # copied once, or undone perhaps: not worth keeping
                return self._read_stored(db, scope.user_id, keys)
            snapshot = ensure_snapshot(self._db, db, scope.user_id, snapshot)
        return self.read_rows(snapshot, snapshot.terms.rows_of(keys))

    def _read_stored(self, db: Connection, user_id: str, keys: Sequence[Key]) -> Parts:
        """Return what `read` does as the database has it now, without caching it."""
        ids = grouped(dict.fromkeys(keys))
        owner, array = {"user_id": user_id}, db.dialect.array
        calls = [Call("docs_of_ids", {**owner, "kind": kind, "ids": array(own)}) for kind, own in ids.items()]
        meta, *answers = db.fetch_all([Call("all_meta", {}), *calls])
        rows = ((kind, row) for kind, answer in zip(ids, answers, strict=True) for row in answer.rows)
        docs: dict[Key, int] = {(kind, id_): doc for kind, (id_, doc) in rows}
        found = CachedVectors()
        found.add(self._read_docs(db, user_id, Spaces.of_meta(meta.rows).number, list(docs.values())))
        return found.parts([docs.get(key, -1) for key in keys])

    def _read_docs(self, db: Connection, user_id: str, space: int, docs: Sequence[int]) -> Vectors:
        raise NotImplementedError  # the vectors of a set, of a user's records

    def read_rows(self, snapshot: Snapshot, rows: Rows) -> Parts:
        """Return what `read` does, for records given as rows of ``snapshot.terms``."""
        raise NotImplementedError

    def records_removed(self) -> None:
        """Remove vectors without a record, if they are kept outside the database."""

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`."""

    def scrub(self) -> bool:
        """Overwrite removed vectors outside the database; return whether nothing is left of them."""
        return True

    def close(self) -> None:
        """Close what does not belong to the database."""

    def _lease_values(self, limit: int, leased: bool) -> dict[str, int]:
        now = int(self._now())
        return {"now": now if leased else _FAR_FUTURE, "until": now + _LEASE_SECONDS, "limit": limit}

    def _lease(self, user_id: str, docs: Sequence[int], values: Mapping[str, int]) -> list[PendingText]:
        """Lease a user's records, in a transaction of its own, and return their texts."""
        with self._db.write(user_id) as db:
            leases = {**values, "user_id": user_id, "docs": db.dialect.array(docs)}
            return _texts(db, user_id, sorted(cast("list[_Waiting]", db.rows("lease_pending", leases))))

    def _sets_for(self, db: Connection, name: str | None) -> Sets:
        """Return the sets that vectors of an embedder are added to, as of this transaction."""
        spaces = read_spaces(db)
        sets = spaces.of(name)
        if sets.searched is None and sets.second is None:
            raise self._embedder_mismatch(spaces, name)
        return sets

    def _mark_complete(
        self,
        db: Connection,
        user_id: str,
        rows: Mapping[int, VectorRow],
        sets: Sets,
        arrived: Collection[tuple[int, int]] | None = None,
    ) -> tuple[list[tuple[int, int, Kind]], int]:
        """Mark records of a user as complete; return those to store vectors of, and how many are complete.

        The former are numbers, sets and kinds: records that lacked vectors in a set. A record without
        vectors has no text and is in no set. ``arrived`` limits them to these numbers and sets.
        """
        textless = [doc for doc, row in rows.items() if not len(row.vectors)]
        others = [doc for doc, row in rows.items() if len(row.vectors)]
        lacking: list[tuple[int, int, Kind]] = []
        complete: set[int] = set()
        for space, name, more in (
            (sets.searched, "complete", textless),
            (sets.second, "lacking_vectors", []),
        ):
            docs = [doc for doc in others if arrived is None or (doc, space) in arrived]
            if space is None or not (docs or more):
                continue
            values = {"user_id": user_id, "docs": db.dialect.array([*docs, *more]), "space": space}
            kinds = dict(db.rows(name, values))
            complete.update(kinds)
            lacking += [(doc, space, kinds[doc]) for doc in docs if doc in kinds]
        if marked := [doc for doc in textless if doc in complete]:
            db.run("mark_textless", {"user_id": user_id, "docs": db.dialect.array(marked)})
        return lacking, len(complete)

    @retried()
    def renew(self, name: str, dims: int) -> int:
        """Start or continue a second set of vectors; return how many records it lacks.

        The searched set stays as it is. A second set of another embedder is dropped.
        """
        spaces = self._spaces()
        if spaces.switching:
            if (spaces.next_name, spaces.next_dims) == (name, dims):
                return 0  # the set is complete; `switch` ends it
            spaces = self._complete_switch(spaces)
        if (spaces.next_name, spaces.next_dims) != (name, dims):
            second = spaces.number + 1
            if spaces.next_name is not None:
                with self._db.write() as db:  # from now on no process adds to it
                    _set_meta(db, next_embedder_name="")
                self._drop_set(second)
            with self._db.write() as db:
                _set_meta(db, next_embedder_name=name, next_embedder_dims=dims, next_embedder_space=second)
            spaces = self._spaces()
        self._cursor = ("", 0)
        of_users = [{"user_id": user_id, "space": spaces.next_number} for user_id in self._db.users()]
        return sum([int(self._db.fetch("count_without_vectors", values)[0][0]) for values in of_users])

    @retried()
    def switch(self, name: str) -> int:
        """Search the second set from now on and drop the first; return how many records it lacks.

        It completes the switch of another process that was interrupted. Raises `WrongState` if no second set
        of this embedder is being made.
        """
        with self._db.write() as db:
            spaces = read_spaces(db)
            if not name or name not in (spaces.next_name, spaces.name):
                raise WrongState(f"{self._db.place}: no vectors of {name} are being made; run: jiyi reembed")
            if spaces.next_name == name and not spaces.switching:
                dims, number = spaces.next_dims, spaces.next_number
                _set_meta(db, embedder_name=name, embedder_dims=dims, embedder_space=number)
                spaces = read_spaces(db)
        if spaces.switching:
            self._complete_switch(spaces)
        return self.count_pending()

    def drop_all(self) -> int:
        """Drop all vectors; return how many records are pending then."""
        spaces = self._spaces()
        for number in {spaces.number, spaces.next_number} - {None}:
            self._drop_set(cast("int", number))
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                db.run("mark_pending", {"user_id": user_id, "space": spaces.number})
                db.run("bump_generation", {"user_id": user_id})
        self._clear_second_set()
        return self.count_pending()

    def count_pending(self) -> int:
        """Return how many records of all users have no vectors yet."""
        return int(self._db.fetch("count_pending")[0][0])

    def _spaces(self) -> Spaces:
        with self._db.read() as db:
            return read_spaces(db)

    def _complete_switch(self, spaces: Spaces) -> Spaces:
        """Update the records' states for the set that is searched now, and drop the old set."""
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                values = {"user_id": user_id, "space": spaces.number}
                db.run("mark_ready", values)
                db.run("mark_pending", values)
        self._drop_set(spaces.number - 1)
        self._clear_second_set()
        return self._spaces()

    def _clear_second_set(self) -> None:
        with self._db.write() as db:
            for part in ("name", "dims", "space"):
                db.run("drop_meta", {"name": f"next_embedder_{part}"})

    def _drop_set(self, number: int) -> None:
        for user_id in self._db.users():
            values, dropped = {"user_id": user_id, "space": number, "limit": _BATCH_SIZE}, _BATCH_SIZE
            while dropped >= _BATCH_SIZE:  # others may write in between
                with self._db.write(user_id) as db:
                    dropped = len(db.rows("drop_space", values))

    def _next_without_vectors(self, number: int, limit: int) -> list[PendingText]:
        while True:
            user_id, after = self._cursor
            values = {"user_id": user_id, "space": number, "after": after, "limit": limit}
            with self._db.read(user_id) as db:
                rows = cast("list[_Waiting]", db.rows("records_without_vectors", values)) if user_id else []
                texts = _texts(db, user_id, rows)
            if rows:
                self._cursor = user_id, rows[-1][0]
                if texts:  # otherwise all of them were deleted meanwhile
                    return texts
                continue
            users = self._db.fetch("users_after", {"after": user_id, "limit": 1})
            self._cursor = str(users[0][0]) if users else "", 0
            if not users:
                return []

    def _dims_mismatch(self, held: int | None, asked: Vector) -> EmbedderMismatch:
        problem = f"{self._db.place} holds vectors of {held} numbers, the question's has {len(asked)}"
        return EmbedderMismatch(f"{problem}; open it with the embedder that made them")

    def _embedder_mismatch(self, spaces: Spaces, name: str | None) -> EmbedderMismatch:
        problem = f"{self._db.place} holds vectors of {spaces.name} ({spaces.dims} numbers), not of {name}"
        advice = f"open it with that embedder, or embed all again with: jiyi reembed --db {self._db.place}"
        return EmbedderMismatch(f"{problem}; {advice}")


def rows_by_user(rows: Sequence[VectorRow]) -> dict[str, dict[int, VectorRow]]:
    """Return vectors by user and record number."""
    of_users = grouped((row.key[0], (row.key[1], row)) for row in rows)
    return {user_id: dict(own) for user_id, own in of_users.items()}


def _texts(db: Connection, user_id: str, rows: Sequence[_Waiting]) -> list[PendingText]:
    records = cast("dict[Key, Searchable]", find_by_keys(db, user_id, [row[1:3] for row in rows]))
    return [
        PendingText(key=(user_id, doc), text=records[kind, id_].search_text, role=role)
        for doc, kind, id_, role in rows
        if (kind, id_) in records  # others were deleted meanwhile
    ]


def _set_meta(db: Connection, **values: str | int | None) -> None:
    db.run_many("set_meta", [{"name": name, "value": str(value)} for name, value in values.items()])
