"""Which records have vectors and whose: kept in the store's tables, wherever the vectors are."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from jiyi.errors import EmbedderMismatch, WrongState
from jiyi.records import Kind, Query, Role, Scope, Searchable
from jiyi.storage.database import Connection, Database, retried
from jiyi.storage.relational.find import find_records
from jiyi.storage.relational.spaces import Sets, Spaces, read_spaces
from jiyi.storage.relational.users import Snapshot
from jiyi.storage.vectors import Binding, PendingText

__all__ = ["VectorStates"]

_LEASE_SECONDS = 120
_EVER = 2**62  # later than any lease ends, even where a clock went back
_USERS = 100  # users looked up at once
_PIECE = 10_000  # vectors dropped at once

_Waiting = tuple[int, Kind, str, Role | None]  # number, kind, id, role of a message


class VectorStates:
    """The verbs of `jiyi.storage.vectors.VectorIndex` that are the same for all backends."""

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        self._db = database
        self._now = now
        self._at = ("", 0)  # user and number behind which the second set is looked through

    @retried()
    def claim(
        self, name: str | None = None, dims: int | None = None, *, seen: Snapshot | None = None
    ) -> Binding:
        """See `VectorIndex.claim`."""
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
        """See `VectorIndex.pending`."""
        return self.pending_once(limit, leased=leased, name=name)

    def pending_once(self, limit: int, *, leased: bool, name: str | None) -> list[PendingText]:
        """Do as `pending`, without trying again."""
        spaces = self._spaces()
        if name is not None:
            second = spaces.of(name).second
            return [] if second is None else self._lacking(second, limit)
        if spaces.switching:  # whoever began it was broken off
            self._complete(spaces)
        values = self._leases(limit, leased)
        with self._db.read() as db:
            waiting: dict[str, list[int]] = {}
            for user_id, doc in db.rows("first_pending", values):
                waiting.setdefault(user_id, []).append(doc)
        return [text for user_id, docs in waiting.items() for text in self._lease(user_id, docs, values)]

    def pending_of(self, user_id: str, limit: int, *, leased: bool = True) -> list[PendingText]:
        """Return up to so many texts of one user as `pending` does of all: where not all can be asked."""
        values = self._leases(limit, leased)
        with self._db.read(user_id) as db:
            docs = [int(row[0]) for row in db.rows("pending_of", values | {"user_id": user_id})]
        return self._lease(user_id, docs, values) if docs else []

    @retried()
    def set_apart(self, key: tuple[str, int], why: int) -> None:
        """See `VectorIndex.set_apart`: a lease below zero ends never, and tells why."""
        with self._db.write(key[0]) as db:
            db.run("set_apart", {"user_id": key[0], "doc": key[1], "lease": -why})

    @retried()
    def apart(self, user_id: str | None = None) -> Mapping[int, int]:
        """See `VectorIndex.apart`."""
        with self._db.read(user_id) as db:
            name, values = ("count_apart", {}) if user_id is None else ("apart_of", {"user_id": user_id})
            return {int(why): int(count) for why, count in db.rows(name, values)}

    @retried()
    def take_up(self) -> int:
        """See `VectorIndex.take_up`."""
        if not self.apart():
            return 0
        taken = 0
        for user_id in self._users():
            with self._db.write(user_id) as db:
                taken += len(db.rows("take_up", {"user_id": user_id}))
        return taken

    def _leases(self, limit: int, leased: bool) -> dict[str, int]:
        now = int(self._now())
        return {"now": now if leased else _EVER, "until": now + _LEASE_SECONDS, "limit": limit}

    def _lease(self, user_id: str, docs: Sequence[int], values: Mapping[str, int]) -> list[PendingText]:
        """Take a user's records, in a transaction of its own, and return their texts."""
        with self._db.write(user_id) as db:
            leases = {**values, "user_id": user_id, "docs": db.dialect.listed(docs)}
            rows = cast("list[_Waiting]", db.rows("lease_pending", leases))
            return _texts(db, user_id, sorted(rows))

    def sets_for(self, db: Connection, name: str | None) -> Sets:
        """Return the sets that vectors of an embedder go into, as of this transaction."""
        spaces = read_spaces(db)
        sets = spaces.of(name)
        if sets.searched is None and sets.second is None:
            raise self._mismatch(spaces, name)
        return sets

    def settle(
        self, db: Connection, key: tuple[str, int], sets: Sets, *, ready: bool
    ) -> tuple[int, ...] | None:
        """Mark a record as complete and return the numbers of the sets that take its vectors.

        None: it is gone, or has its vectors in all of them already. ``ready`` says whether it has
        vectors; a record without any text has none and goes into no set.
        """
        values = {"user_id": key[0], "doc": key[1], "state": "ready" if ready else "none"}
        settled = sets.searched is not None and db.first("settle", values) is not None
        numbers = [sets.searched] if settled and sets.searched is not None and ready else []
        beside = {**values, "space": sets.second}
        if ready and sets.second is not None and db.first("lacks_vectors", beside):
            numbers.append(sets.second)
        return tuple(numbers) if settled or numbers else None

    @retried()
    def renew(self, name: str, dims: int) -> int:
        """See `VectorIndex.renew`."""
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
        for user_id in self._users():
            with self._db.read(user_id) as db:
                row = db.first("count_without", {"user_id": user_id, "space": spaces.next_number})
            lacking += int(row[0]) if row else 0
        return lacking

    @retried()
    def switch(self, name: str) -> int:
        """See `VectorIndex.switch`."""
        with self._db.write() as db:
            spaces = read_spaces(db)
            if not name or name not in (spaces.next_name, spaces.name):
                raise WrongState(
                    f"{self._db.place}: no vectors of {name} are being made; begin with: jiyi reembed"
                )
            if spaces.next_name == name and not spaces.switching:
                _write(
                    db,
                    embedder_name=name,
                    embedder_dims=spaces.next_dims,
                    embedder_space=spaces.next_number,
                )
                spaces = read_spaces(db)
        if spaces.switching:
            self._complete(spaces)
        with self._db.read() as db:
            row = db.first("count_pending", {})
        return int(row[0]) if row else 0

    def _spaces(self) -> Spaces:
        with self._db.read() as db:
            return read_spaces(db)

    def _complete(self, spaces: Spaces) -> Spaces:
        """Bring the records' states in line with the set that is searched now, and drop the old one."""
        for user_id in self._users():
            with self._db.write(user_id) as db:
                values = {"user_id": user_id, "space": spaces.number}
                db.run("mark_ready", values)
                db.run("mark_pending", values)
        self._drop(spaces.number - 1)
        with self._db.write() as db:
            for part in ("name", "dims", "space"):
                db.run("drop_meta", {"name": f"next_embedder_{part}"})
        return self._spaces()

    def _drop(self, number: int) -> None:
        for user_id in self._users():
            values, dropped = {"user_id": user_id, "space": number, "limit": _PIECE}, _PIECE
            while dropped == _PIECE:  # others may write in between
                with self._db.write(user_id) as db:
                    dropped = len(db.rows("drop_space", values))

    def _users(self) -> Iterator[str]:
        after = ""
        while True:
            with self._db.read() as db:
                found = [str(row[0]) for row in db.rows("users_after", {"after": after, "limit": _USERS})]
            yield from found
            if len(found) < _USERS:
                return
            after = found[-1]

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
            with self._db.read() as db:
                row = db.first("users_after", {"after": user_id, "limit": 1})
            if row is None:
                self._at = ("", 0)
                return []
            user_id, after = str(row[0]), 0

    def _mismatch(self, spaces: Spaces, name: str | None) -> EmbedderMismatch:
        place = self._db.place
        return EmbedderMismatch(
            f"{place} holds vectors of {spaces.name} ({spaces.dims} numbers), not of {name}; "
            f"open it with that embedder, or embed all anew with: jiyi reembed --db {place}"
        )


def _texts(db: Connection, user_id: str, rows: Sequence[_Waiting]) -> list[PendingText]:
    texts: dict[tuple[Kind, str], str] = {}
    for kind in {row[1] for row in rows}:
        ids = tuple(row[2] for row in rows if row[1] == kind)
        query = Query(scope=Scope(user_id=user_id), kinds=(kind,), ids=ids, limit=len(ids))
        found = cast("list[Searchable]", find_records(db, query))
        texts |= {(kind, record.id): record.search_text for record in found}
    return [
        PendingText(key=(user_id, doc), text=texts[kind, id_], role=role)
        for doc, kind, id_, role in rows
        if (kind, id_) in texts  # else it was deleted this moment
    ]


def _write(db: Connection, **values: str | int | None) -> None:
    for name, value in values.items():
        db.run("set_meta", {"name": name, "value": str(value)})
