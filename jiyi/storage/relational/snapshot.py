"""Snapshots of users: the cached rows of a user, brought up to date, and the sets of vectors there are."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Query
from jiyi.storage.database import Answer, Call, Connection, Database
from jiyi.storage.relational.conditions import NOT_OF_ALL, document_conditions
from jiyi.storage.search.user_cache import CachedPart, Extend
from jiyi.storage.search.user_terms import HeldMessages, TermRow, UserTerms, are_valid_rows

__all__ = [
    "Sets", "Snapshot", "Spaces", "cached_part", "ensure_snapshot", "read_allowed_docs", "read_spaces",
    "take_snapshot",
]  # fmt: skip

_BATCH_SIZE = 20_000  # rows read at once: a million must not be in memory at once
# Fields of a query whose conditions need the database.
_NOT_IN_MEMORY = ("ids", "pinned", *(name for name in NOT_OF_ALL if name != "roles"))

_H = TypeVar("_H", bound=CachedPart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """The numbers of the sets that an embedder's vectors are added to."""

    searched: int | None
    second: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spaces:
    """The searched set of vectors and the second one that may be in the making, which has the next number.

    While a switch is being completed both have the same number, and the old set is dropped user by user.
    """

    name: str | None = None  # embedder of the searched set; None before the first one
    dims: int | None = None  # numbers in a vector of it
    number: int = 0  # of the searched set
    next_name: str | None = None  # embedder of the second set; "" while an unwanted set is dropped
    next_dims: int | None = None
    next_number: int | None = None

    @classmethod
    def of_meta(cls, rows: Iterable[tuple[Any, ...]]) -> "Spaces":
        """Return the sets that rows of ``meta`` describe, names and values."""
        meta = {str(name): str(value) for name, value in rows}

        def number(name: str) -> int | None:
            return int(meta[name]) if name in meta else None

        return cls(
            name=meta.get("embedder_name"),
            dims=number("embedder_dims"),
            number=number("embedder_space") or 0,
            next_name=meta.get("next_embedder_name"),
            next_dims=number("next_embedder_dims"),
            next_number=number("next_embedder_space"),
        )

    @property
    def switching(self) -> bool:
        """Whether the second set is searched already and the first is not dropped yet."""
        return self.next_number == self.number

    def of(self, name: str | None) -> Sets:
        """Return the sets of an embedder; without a name the searched one."""
        second = bool(name) and self.next_name == name and not self.switching
        searched = name is None or self.name == name
        return Sets(searched=self.number if searched else None, second=self.next_number if second else None)


def read_spaces(db: Connection) -> Spaces:
    """Read the sets of vectors of a database."""
    return Spaces.of_meta(db.rows("all_meta", {}))


@dataclass(slots=True)
class Snapshot:
    """A user's memory at one moment, for all steps of a search."""

    user_id: str
    spaces: Spaces  # the sets of vectors
    owner: tuple[int, int] | None = None  # number of the user in this file, and generation; None if unknown
    changes: int = 0  # see `Store.changes`
    terms: UserTerms = field(default_factory=UserTerms)  # the rows and their words
    parts: dict[type[Any], Any] = field(default_factory=dict)  # other cached parts of the user
    extra_answers: list[tuple[Call, Answer]] = field(default_factory=list)  # see `Database.read_ahead`


def take_snapshot(database: Database, db: Connection, user_id: str) -> Snapshot:
    """Read a user's number, the sets of vectors and the newest rows in one round trip."""
    last_doc = None if db.in_transaction else database.cache.peek(user_id, UserTerms, attrgetter("last_doc"))
    after, more = last_doc or 0, list[Call]()
    if last_doc is not None and database.read_ahead is not None:
        more = database.cache.peek(user_id, database.read_ahead, lambda part: part.calls(user_id)) or []
    calls = [Call("get_owner", {"user_id": user_id}), Call("all_meta", {}), _terms_after(user_id, after)]
    owners, meta, rows, *answers = db.fetch_all([*calls, *more])
    extra = list(zip(more, answers, strict=True))
    snapshot = Snapshot(user_id, Spaces.of_meta(meta.rows), extra_answers=extra)
    for owner, generation, changes in owners.rows:
        snapshot.owner, snapshot.changes = (owner, generation), changes
        extend = partial(_add_terms, db, snapshot, after, cast("list[TermRow]", rows.rows))
        keep = not db.in_transaction
        snapshot.terms = database.cache.use(user_id, UserTerms, generation, extend, keep=keep)
    return snapshot


def ensure_snapshot(database: Database, db: Connection, user_id: str, snapshot: Snapshot | None) -> Snapshot:
    """Return a snapshot if it is of this user, otherwise a new one."""
    return snapshot if snapshot and snapshot.user_id == user_id else take_snapshot(database, db, user_id)


def cached_part(
    database: Database, db: Connection, snapshot: Snapshot, part: type[_H], extend: Extend[_H]
) -> _H:
    """Return a view of another cached part of the user; ``extend`` brings it up to date."""
    if snapshot.owner is None:
        return part(0)
    if part not in snapshot.parts:
        user_id, generation, keep = snapshot.user_id, snapshot.owner[1], not db.in_transaction
        snapshot.parts[part] = database.cache.use(user_id, part, generation, extend, keep=keep)
    return cast("_H", snapshot.parts[part])


def _add_terms(db: Connection, snapshot: Snapshot, after: int, new: list[TermRow], held: UserTerms) -> None:
    """Add rows that were read after a number, if the cached ones end there, and all rows after them."""
    if held.messages.changes != snapshot.changes:
        # Who changes messages often would have all of them read each time.
        held.messages = HeldMessages(snapshot.changes, rows={} if held.size else None)
    while True:
        if held.last_doc != after:
            call = _terms_after(snapshot.user_id, held.last_doc)
            new = cast("list[TermRow]", db.rows(call.name, call.values))
        _append_rows(db, snapshot.user_id, held, new)
        if len(new) < _BATCH_SIZE:
            return


def _append_rows(db: Connection, user_id: str, held: UserTerms, new: list[TermRow]) -> None:
    """Add rows; damaged ones, whose words cannot be searched, are noted and left out."""
    valid = new
    if not are_valid_rows(new):
        valid = [row for row in new if are_valid_rows([row])]
        for damaged in new:
            if damaged not in valid:
                row = {"user_id": user_id, "id": damaged[2], "session_id": damaged[4], "agent_id": damaged[5]}
                db.damage.add(damaged[1], row, "its words cannot be read")
    held.append(valid)
    if new:
        held.last_doc = new[-1][0]


def _terms_after(user_id: str, after: int) -> Call:
    return Call("read_terms", {"user_id": user_id, "after": after, "limit": _BATCH_SIZE})


def read_allowed_docs(db: Connection, query: Query) -> NDArray[np.int64] | None:
    """Return the documents allowed by conditions that need the database; None without such conditions."""
    if all(getattr(query, name) is None for name in _NOT_IN_MEMORY):
        return None
    where, values = document_conditions(query, db.dialect)
    return np.fromiter((row[0] for row in db.rows("document_ids", values, where=where)), dtype=np.int64)
