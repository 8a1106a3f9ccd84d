"""From a database to a user's part in memory, as it is now."""

from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Query
from jiyi.storage.database import Answer, Call, Connection, Database
from jiyi.storage.relational.conditions import OF_DOCUMENTS, OF_TASKS, on_documents
from jiyi.storage.relational.spaces import Spaces, spaces_of
from jiyi.storage.user_cache import CachedPart, Extend
from jiyi.storage.user_terms import TermRow, UserTerms, are_valid_rows

__all__ = ["Snapshot", "hold", "look", "read_allowed", "seen_or_look"]

_PIECE = 20_000  # rows read at once: a million must not be in memory at once
# Conditions of a query that rows in memory do not carry.
_NOT_IN_MEMORY = ("ids", "pinned", *OF_TASKS, *(name for name in OF_DOCUMENTS if name != "roles"))
_parts_of = attrgetter(*_NOT_IN_MEMORY)

_H = TypeVar("_H", bound=CachedPart)


@dataclass(slots=True)
class Snapshot:
    """A user's memory as of one moment: what every part of a search goes by."""

    user_id: str
    spaces: Spaces  # the sets of vectors
    owner: tuple[int, int] | None = None  # number of the user in this file, and generation; None: has nothing
    changes: int = 0  # see `Store.changes`
    terms: UserTerms = field(default_factory=UserTerms)  # the rows and their words
    parts: dict[type[Any], Any] = field(default_factory=dict)  # what else was read since
    beside: list[tuple[Call, Answer]] = field(default_factory=list)  # see `Database.beside`


def look(database: Database, db: Connection, user_id: str) -> Snapshot:
    """Ask for a user's owner, the sets of vectors and the newest rows, all at once."""
    held = None if db.in_transaction else database.cache.peek(user_id, UserTerms)
    after = held.last_doc if held else 0
    more = database.beside(user_id) if held else []
    calls = [Call("get_owner", {"user_id": user_id}), Call("all_meta", {}), _terms_after(user_id, after)]
    owners, meta, rows, *beside = db.all_of([*calls, *more])
    seen = Snapshot(user_id, spaces_of(meta.rows), beside=list(zip(more, beside, strict=True)))
    for owner, generation, changes in owners.rows:
        seen.owner, seen.changes = (owner, generation), changes
        extend = partial(_extend, db, seen, after, cast("list[TermRow]", rows.rows))
        seen.terms = database.cache.use(user_id, UserTerms, generation, extend, keep=not db.in_transaction)
    return seen


def seen_or_look(database: Database, db: Connection, user_id: str, seen: Snapshot | None) -> Snapshot:
    """Return a snapshot where it is of this user, else a new one."""
    return seen if seen is not None and seen.user_id == user_id else look(database, db, user_id)


def hold(database: Database, db: Connection, seen: Snapshot, part: type[_H], extend: Extend[_H]) -> _H:
    """Return a view of another part of the user; ``extend`` reads what it lacks."""
    if seen.owner is None:
        return part(0)
    if part not in seen.parts:
        keep = not db.in_transaction
        seen.parts[part] = database.cache.use(seen.user_id, part, seen.owner[1], extend, keep=keep)
    return cast("_H", seen.parts[part])


def _extend(db: Connection, seen: Snapshot, after: int, new: list[TermRow], held: UserTerms) -> None:
    """Take in the rows read after a number, if the held ones end there, and whatever follows them."""
    if held.changes != seen.changes:
        held.messages, held.changes = {}, seen.changes
    fits = held.last_doc == after
    if fits:
        _append(db, seen.user_id, held, new)
    while not fits or len(new) == _PIECE:
        call = _terms_after(seen.user_id, held.last_doc)
        new = cast("list[TermRow]", db.rows(call.name, call.values))
        _append(db, seen.user_id, held, new)
        fits = True


def _append(db: Connection, user_id: str, held: UserTerms, new: list[TermRow]) -> None:
    """Take in rows; damaged ones, whose words cannot be searched, are noted and left out."""
    sound = new
    if not are_valid_rows(new):
        sound = [row for row in new if are_valid_rows([row])]
        for odd in new:
            if odd not in sound:
                row = {"user_id": user_id, "id": odd[2], "session_id": odd[4], "agent_id": odd[5]}
                db.damage.add(odd[1], row, "its words cannot be read")
    held.append(sound)
    if new:
        held.last_doc = new[-1][0]


def _terms_after(user_id: str, after: int) -> Call:
    return Call("read_terms", {"user_id": user_id, "after": after, "limit": _PIECE})


def read_allowed(db: Connection, query: Query) -> NDArray[np.int64] | None:
    """Return the documents allowed by conditions that rows in memory do not carry; None without such."""
    if _parts_of(query).count(None) == len(_NOT_IN_MEMORY):
        return None
    where, values = on_documents(query, db.dialect)
    return np.fromiter((row[0] for row in db.rows("document_ids", values, where=where)), dtype=np.int64)
