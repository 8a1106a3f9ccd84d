"""The vector index: which records have vectors is kept in the store's tables, wherever the vectors are."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import EmbedderMismatch, WrongState
from jiyi.records import Kind, Match, Query, Role, Scope, Searchable
from jiyi.storage.candidates import Key, Rows
from jiyi.storage.database import Connection, Database, grouped, retried
from jiyi.storage.relational.find import find_named
from jiyi.storage.relational.spaces import Sets, Spaces, read_spaces
from jiyi.storage.relational.users import Snapshot

__all__ = ["Binding", "Parts", "PendingText", "Seen", "Vector", "VectorIndex", "VectorRow", "by_user"]

Vector = NDArray[np.float32]
Seen = Snapshot | None  # a `Store.snapshot`, where there is one

_LEASE_SECONDS = 120
_EVER = 2**62  # later than any lease ends, even where a clock went back
_PIECE = 10_000  # vectors dropped at once

_Waiting = tuple[int, Kind, str, Role | None]  # number, kind, id, role of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Whose vectors the data holds."""

    name: str | None = None  # the embedder whose vectors are searched; None before the first one
    dims: int | None = None  # numbers in a vector of it
    renewing: str | None = None  # the embedder of the second set that is being made; None: there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingText:
    """A record that still lacks its vectors."""

    key: tuple[str, int]  # user and the index's own number, to be handed back
    text: str  # what to embed
    role: str | None = None  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of one record: one for each part of its text."""

    key: tuple[str, int]  # from `PendingText`
    vectors: NDArray[np.float32]  # shape (parts, dims), rows of length 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """Vectors of some records: one for each part of their texts."""

    rows: NDArray[np.intp]  # place of the record among those that were asked for
    vectors: NDArray[np.float32]  # shape (parts, dims), rows of length 1


class VectorIndex:
    """Keeps vectors of a store's rows and finds the nearest.

    A row is written without its vector and marked as pending; whoever embeds asks for
    pending texts and adds their vectors. A record deleted meanwhile is passed over.

    For another embedder, or the same one again, a second set of vectors is made beside the one
    that is searched: `renew`, `pending` and `add` with its name, `switch`.
    """

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        self._db = database
        self._now = now
        self._at = ("", 0)  # user and number after which the second set is looked through

    @retried()
    def claim(self, name: str | None = None, dims: int | None = None, *, seen: Seen = None) -> Binding:
        """Bind the data to an embedder, or check that it is bound to this one; return whose it is.

        Without ``dims`` only the name is checked and nothing is bound; without ``name`` nothing
        is checked. With ``seen``, a `Store.snapshot`, it is checked against that.

        Raises:
            EmbedderMismatch: the data belongs to another embedder; says how to re-embed.
        """
        spaces = seen.spaces if seen is not None else self._spaces()
        if spaces.name is None and name is not None and dims is not None:
            with self._db.write() as db:
                spaces = read_spaces(db)
                if spaces.name is None:
                    _write(db, embedder_name=name, embedder_dims=dims)
                    spaces = read_spaces(db)
        if None not in (name, spaces.name) and (spaces.name != name or dims not in (None, spaces.dims)):
            raise self._mismatch(spaces, name)
        return Binding(name=spaces.name, dims=spaces.dims, renewing=spaces.next_name or None)

    @retried()
    def pending(self, limit: int, *, leased: bool = True, name: str | None = None) -> list[PendingText]:
        """Return up to ``limit`` texts without vectors, oldest first.

        They are leased to the caller for two minutes, so that two processes do not
        embed the same text; ``leased=False`` looks past the leases of others.

        With ``name``: the texts that the second set lacks, nothing where none of this embedder
        is being made. No lease is taken; each answer goes on after the one before. After the
        last record comes an empty one, then it begins from the start: what was saved meanwhile.
        """
        return self._pending_once(limit, leased=leased, name=name)

    def _pending_once(self, limit: int, *, leased: bool, name: str | None) -> list[PendingText]:
        """Do as `pending`, without trying again."""
        spaces = self._spaces()
        if name is not None:
            second = spaces.of(name).second
            return [] if second is None else self._lacking(second, limit)
        if spaces.switching:  # whoever began it was broken off
            self._complete(spaces)
        values = self._leases(limit, leased)
        waiting = grouped(cast("list[tuple[str, int]]", self._db.ask("first_pending", values)))
        return [text for user_id, docs in waiting.items() for text in self._lease(user_id, docs, values)]

    @retried()
    def set_apart(self, key: tuple[str, int], why: int) -> None:
        """Leave a record out of what is pending: its text is not embedded, for a reason given by number.

        It still counts as pending. A reason is 1 or more: an HTTP status, or what the caller likes.
        """
        self._db.tell("set_apart", {"user_id": key[0], "doc": key[1], "lease": -why})

    @retried()
    def apart(self, user_id: str | None = None) -> Mapping[int, int]:
        """Return how many records are set apart, of a user or of all, by their reasons."""
        name, values = ("count_apart", {}) if user_id is None else ("apart_of", {"user_id": user_id})
        return {int(why): int(count) for why, count in self._db.ask(name, values)}

    @retried()
    def take_up(self) -> int:
        """Let what was set apart be pending again, of all users; return how many records."""
        if not self.apart():
            return 0
        taken = 0
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                taken += len(db.rows("take_up", {"user_id": user_id}))
        return taken

    def add(self, rows: Sequence[VectorRow], *, name: str | None = None) -> int:
        """Store vectors and mark their records as complete, a user's in one transaction; return how many.

        With ``name`` they go into each of the two sets that is of this embedder and lacks them.

        Raises:
            EmbedderMismatch: neither set is of the embedder named; another process switched meanwhile.
        """
        raise NotImplementedError

    def nearest(self, query: Query, vector: Vector, *, seen: Seen = None) -> list[Match]:
        """Return the records nearest to ``vector`` by cosine, best first, at most ``limit`` of each kind.

        A record with several parts counts with its best one. ``seen`` is a `Store.snapshot`.
        """
        raise NotImplementedError

    def near(self, query: Query, vector: Vector, seen: Snapshot) -> Rows:
        """Return what `nearest` finds as rows of ``seen.terms``, in its order; -1 for what is not there."""
        return seen.terms.rows_of([match[:2] for match in self.nearest(query, vector, seen=seen)])

    def read(self, scope: Scope, keys: Sequence[Key], *, exact: bool = False, seen: Seen = None) -> Parts:
        """Return the vectors of these records of a user; an unknown or pending one has none.

        Of very many they may be a little rounded, good for comparing: ``exact`` gives them as
        they are stored, those of a record in their order. ``seen`` is a `Store.snapshot`.
        """
        raise NotImplementedError

    def parts(self, seen: Snapshot, rows: Rows) -> Parts:
        """Return what `read` does of records given as rows of ``seen.terms``."""
        return self.read(Scope(user_id=seen.user_id), seen.terms.keys(rows), seen=seen)

    def records_removed(self) -> None:
        """Take out the vectors of what the rows no longer have, where they are kept elsewhere."""

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`."""

    def scrub(self) -> bool:
        """Overwrite what is left of vectors elsewhere; return whether nothing is left there."""
        return True

    def close(self) -> None:
        """Release what is not the database's."""

    def _leases(self, limit: int, leased: bool) -> dict[str, int]:
        now = int(self._now())
        return {"now": now if leased else _EVER, "until": now + _LEASE_SECONDS, "limit": limit}

    def _lease(self, user_id: str, docs: Sequence[int], values: Mapping[str, int]) -> list[PendingText]:
        """Take a user's records, in a transaction of its own, and return their texts."""
        with self._db.write(user_id) as db:
            leases = {**values, "user_id": user_id, "docs": db.dialect.listed(docs)}
            rows = cast("list[_Waiting]", db.rows("lease_pending", leases))
            return _texts(db, user_id, sorted(rows))

    def _sets_for(self, db: Connection, name: str | None) -> Sets:
        """Return the sets that vectors of an embedder go into, as of this transaction."""
        spaces = read_spaces(db)
        sets = spaces.of(name)
        if sets.searched is None and sets.second is None:
            raise self._mismatch(spaces, name)
        return sets

    def _settle(
        self,
        db: Connection,
        user_id: str,
        rows: Mapping[int, VectorRow],
        sets: Sets,
        arrived: Collection[tuple[int, int]] | None = None,
    ) -> tuple[list[tuple[int, int, Kind]], int]:
        """Mark records of a user as complete; return those that take vectors, and how many are complete.

        The former by number, set and kind: they lacked these. A record without any text has no
        vectors and goes into no set. ``arrived`` narrows to these numbers and sets.
        """
        bare = [doc for doc, row in rows.items() if not len(row.vectors)]
        taking: list[tuple[int, int, Kind]] = []
        complete: set[int] = set()
        for space, name, more in ((sets.searched, "settle", bare), (sets.second, "lacking_vectors", [])):
            full = [doc for doc in rows if doc not in bare and (arrived is None or (doc, space) in arrived)]
            if space is None or not (full or more):
                continue
            values = {"user_id": user_id, "docs": db.dialect.listed([*full, *more]), "space": space}
            kinds = dict(db.rows(name, values))
            complete.update(kinds)
            taking += [(doc, space, kinds[doc]) for doc in full if doc in kinds]
        without = [doc for doc in bare if doc in complete]
        if without:
            db.run("without_text", {"user_id": user_id, "docs": db.dialect.listed(without)})
        return taking, len(complete)

    @retried()
    def renew(self, name: str, dims: int) -> int:
        """Begin a second set of vectors, or go on with it; return how many records it lacks.

        The searched set stays as it is. A second set of yet another embedder is dropped.
        """
        spaces = self._spaces()
        if spaces.switching:
            if (spaces.next_name, spaces.next_dims) == (name, dims):
                return 0  # it is made; `switch` completes it
            spaces = self._complete(spaces)
        if (spaces.next_name, spaces.next_dims) != (name, dims):
            second = spaces.number + 1
            if spaces.next_name is not None:
                with self._db.write() as db:  # from now on nobody adds to it
                    _write(db, next_embedder_name="")
                self._drop(second)
            with self._db.write() as db:
                _write(db, next_embedder_name=name, next_embedder_dims=dims, next_embedder_space=second)
            spaces = self._spaces()
        self._at = ("", 0)
        lacking = 0
        for user_id in self._db.users():
            values = {"user_id": user_id, "space": spaces.next_number}
            lacking += int(self._db.ask("count_without", values)[0][0])
        return lacking

    @retried()
    def switch(self, name: str) -> int:
        """Search the second set from now on, drop the first; return how many records wait for vectors then.

        Those are the ones that the second set lacks: they are pending. Where another process has
        switched, or was broken off in it, this completes it.

        Raises:
            WrongState: no second set of this embedder is being made.
        """
        with self._db.write() as db:
            spaces = read_spaces(db)
            if not name or name not in (spaces.next_name, spaces.name):
                raise WrongState(
                    f"{self._db.place}: no vectors of {name} are being made; begin with: jiyi reembed"
                )
            if spaces.next_name == name and not spaces.switching:
                dims, number = spaces.next_dims, spaces.next_number
                _write(db, embedder_name=name, embedder_dims=dims, embedder_space=number)
                spaces = read_spaces(db)
        if spaces.switching:
            self._complete(spaces)
        return self.waiting()

    def empty(self) -> int:
        """Drop all vectors of the rows; return how many records wait for new ones then."""
        spaces = self._spaces()
        for number in {spaces.number, spaces.next_number} - {None}:
            self._drop(cast("int", number))
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                db.run("mark_pending", {"user_id": user_id, "space": spaces.number})
                db.run("bump_generation", {"user_id": user_id})
        self._forget_second()
        return self.waiting()

    def waiting(self) -> int:
        """Return how many records of all users have no vector yet."""
        return int(self._db.ask("count_pending")[0][0])

    def _spaces(self) -> Spaces:
        with self._db.read() as db:
            return read_spaces(db)

    def _complete(self, spaces: Spaces) -> Spaces:
        """Bring the records' states in line with the set that is searched now, and drop the old one."""
        for user_id in self._db.users():
            with self._db.write(user_id) as db:
                values = {"user_id": user_id, "space": spaces.number}
                db.run("mark_ready", values)
                db.run("mark_pending", values)
        self._drop(spaces.number - 1)
        self._forget_second()
        return self._spaces()

    def _forget_second(self) -> None:
        with self._db.write() as db:
            for part in ("name", "dims", "space"):
                db.run("drop_meta", {"name": f"next_embedder_{part}"})

    def _drop(self, number: int) -> None:
        for user_id in self._db.users():
            values, dropped = {"user_id": user_id, "space": number, "limit": _PIECE}, _PIECE
            while dropped == _PIECE:  # others may write in between
                with self._db.write(user_id) as db:
                    dropped = len(db.rows("drop_space", values))

    def _lacking(self, number: int, limit: int) -> list[PendingText]:
        """Return the next texts that the second set lacks, of one user."""
        user_id, after = self._at
        while True:
            if user_id:
                values = {"user_id": user_id, "space": number, "after": after, "limit": limit}
                with self._db.read(user_id) as db:
                    rows = [(row[0], *row[2:]) for row in db.rows("texts_without", values)]
                    found = _texts(db, user_id, cast("list[_Waiting]", rows))
                if rows:
                    self._at = (user_id, rows[-1][0])
                    if found:
                        return found
                    after = rows[-1][0]  # all of them were deleted this moment
                    continue
            users = self._db.ask("users_after", {"after": user_id, "limit": 1})
            if not users:
                self._at = ("", 0)
                return []
            user_id, after = str(users[0][0]), 0

    def _other_dims(self, held: int | None, asked: Vector) -> EmbedderMismatch:
        return EmbedderMismatch(
            f"{self._db.place} holds vectors of {held} numbers, the question's has {len(asked)}; "
            "open it with the embedder that made them"
        )

    def _mismatch(self, spaces: Spaces, name: str | None) -> EmbedderMismatch:
        place = self._db.place
        return EmbedderMismatch(
            f"{place} holds vectors of {spaces.name} ({spaces.dims} numbers), not of {name}; "
            f"open it with that embedder, or embed all again with: jiyi reembed --db {place}"
        )


def by_user(rows: Sequence[VectorRow]) -> dict[str, dict[int, VectorRow]]:
    """Return vectors by user and number of the record."""
    of_users = grouped((row.key[0], (row.key[1], row)) for row in rows)
    return {user_id: dict(own) for user_id, own in of_users.items()}


def _texts(db: Connection, user_id: str, rows: Sequence[_Waiting]) -> list[PendingText]:
    found = cast("dict[Key, Searchable]", find_named(db, user_id, [row[1:3] for row in rows]))
    return [
        PendingText(key=(user_id, doc), text=found[kind, id_].search_text, role=role)
        for doc, kind, id_, role in rows
        if (kind, id_) in found  # else it was deleted this moment
    ]


def _write(db: Connection, **values: str | int | None) -> None:
    for name, value in values.items():
        db.run("set_meta", {"name": name, "value": str(value)})
