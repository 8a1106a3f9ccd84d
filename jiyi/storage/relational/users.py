"""From a database to a user's part in memory, as it is now."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Query
from jiyi.storage.database import Call, Connection, Database
from jiyi.storage.relational.conditions import OF_DOCUMENTS, OF_TASKS, on_documents
from jiyi.storage.relational.spaces import Spaces, spaces_of
from jiyi.storage.user_cache import Held
from jiyi.storage.user_terms import TermRow, UserTerms

__all__ = ["Snapshot", "hold", "hold_terms", "keep_seen", "look", "read_allowed", "seen_of"]

_PIECE = 20_000  # rows read at once: a million must not be in memory at once
# Conditions of a query that rows in memory do not carry.
_NOT_IN_MEMORY = ("ids", "pinned", *OF_TASKS, *(name for name in OF_DOCUMENTS if name != "roles"))

_H = TypeVar("_H", bound=Held)


@dataclass(slots=True)
class Snapshot:
    """What a thread saw of a user at the beginning of its block, and which parts it was shown there."""

    database: Database
    user_id: str
    owner: tuple[int, int] | None  # number of the user in this file, and generation; None: has nothing
    spaces: Spaces
    parts: dict[type[Any], Any] = field(default_factory=dict)


class _OfThread(threading.local):
    here: Snapshot | None = None


_SNAPSHOT = _OfThread()


@contextmanager
def keep_seen(seen: Snapshot | None) -> Iterator[None]:
    """Let this thread go by what was seen until the block ends; in another such block by that one's."""
    outer = _SNAPSHOT.here
    _SNAPSHOT.here = outer or seen
    try:
        yield
    finally:
        _SNAPSHOT.here = outer


def seen_of(database: Database, user_id: str | None = None) -> Snapshot | None:
    """Return this thread's snapshot where it is of this database, and of this user if one is named."""
    here = _SNAPSHOT.here
    if here is None or here.database is not database or user_id not in (None, here.user_id):
        return None
    return here


def look(database: Database, db: Connection, user_id: str) -> Snapshot:
    """Ask for a user's owner, the sets of vectors and the newest rows, all at once; in no transaction."""
    held = database.cache.peek(user_id, UserTerms)
    after = held.last_doc if held else 0
    owners, meta, rows = db.all_of(
        [Call("get_owner", {"user_id": user_id}), Call("all_meta", {}), _terms_behind(user_id, after)]
    )
    seen = Snapshot(database, user_id, None, spaces_of(meta.rows))
    for owner, generation in owners.rows:
        seen.owner = owner, generation
        extend = partial(_extend, db, user_id, after, cast("list[TermRow]", rows.rows))
        seen.parts[UserTerms] = database.cache.use(user_id, UserTerms, generation, extend)
    return seen


def _extend(db: Connection, user_id: str, after: int, new: list[TermRow], held: UserTerms) -> None:
    """Take in rows that were read behind a number, as far as that is where the held ones end."""
    fits = held.last_doc == after
    if fits:
        held.append(new)
    if not fits or len(new) == _PIECE:
        _read_terms(db, user_id, held)


def hold(
    database: Database,
    db: Connection,
    user_id: str,
    part: type[_H],
    read: Callable[[Connection, int, _H], None],
) -> _H:
    """Return a view of a user's part; what others added, removed or changed is noticed here.

    Args:
        database: whose cache keeps it.
        db: the connection to read with.
        user_id: whose.
        part: what it is.
        read: takes in the rows of an owner behind those that are there.
    """
    seen = None if db.in_transaction else seen_of(database, user_id)
    if seen is not None and part in seen.parts:
        return cast("_H", seen.parts[part])
    row = seen.owner if seen is not None else db.first("get_owner", {"user_id": user_id})
    if row is None:
        return part(0)
    owner, generation = cast("tuple[int, int]", row)
    if db.in_transaction:  # what is not committed may be undone: nothing of it is kept
        fresh = part(generation)
        read(db, owner, fresh)
        return fresh.view()
    view = database.cache.use(user_id, part, generation, lambda held: read(db, owner, held))
    if seen is not None:
        seen.parts[part] = view
    return view


def hold_terms(database: Database, db: Connection, user_id: str) -> UserTerms:
    """Return a view of a user's rows and their terms."""
    if db.in_transaction:
        return hold(database, db, user_id, UserTerms, lambda db, _, held: _read_terms(db, user_id, held))
    seen = seen_of(database, user_id) or look(database, db, user_id)
    return cast("UserTerms", seen.parts.get(UserTerms, UserTerms()))


def _read_terms(db: Connection, user_id: str, held: UserTerms) -> None:
    while True:
        call = _terms_behind(user_id, held.last_doc)
        rows = db.rows(call.name, call.values)
        held.append(cast("list[TermRow]", rows))
        if len(rows) < _PIECE:
            return


def _terms_behind(user_id: str, after: int) -> Call:
    return Call("read_terms", {"user_id": user_id, "after": after, "limit": _PIECE})


def read_allowed(db: Connection, query: Query) -> NDArray[np.int64] | None:
    """Return the documents allowed by conditions that rows in memory do not carry; None without such."""
    if all(getattr(query, name) is None for name in _NOT_IN_MEMORY):
        return None
    where, values = on_documents(query, db.dialect)
    return np.fromiter((row[0] for row in db.rows("document_ids", values, where=where)), dtype=np.int64)
