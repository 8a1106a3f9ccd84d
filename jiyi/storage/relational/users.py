"""From a database to a user's part in memory, as it is now."""

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.records import Query
from jiyi.storage.database import Connection
from jiyi.storage.relational.conditions import OF_DOCUMENTS, OF_TASKS, on_documents
from jiyi.storage.user_cache import Held, UserCache
from jiyi.storage.user_terms import TermRow, UserTerms

__all__ = ["hold", "hold_terms", "read_allowed"]

_PIECE = 20_000  # rows read at once: a million must not be in memory at once
# Conditions of a query that rows in memory do not carry.
_NOT_IN_MEMORY = ("ids", "pinned", *OF_TASKS, *(name for name in OF_DOCUMENTS if name != "roles"))

_H = TypeVar("_H", bound=Held)


def hold(
    cache: UserCache,
    db: Connection,
    user_id: str,
    part: type[_H],
    read: Callable[[Connection, int, _H], None],
) -> _H:
    """Return a view of a user's part; what others added, removed or changed is noticed here.

    Args:
        cache: that of the database.
        db: the connection to read with.
        user_id: whose.
        part: what it is.
        read: takes in the rows of an owner behind those that are there.
    """
    row = db.first("get_owner", {"user_id": user_id})
    if row is None:
        return part(0)
    owner, generation = cast("tuple[int, int]", row)
    if db.in_transaction:  # what is not committed may be undone: nothing of it is kept
        fresh = part(generation)
        read(db, owner, fresh)
        return fresh.view()
    return cache.use(user_id, part, generation, lambda held: read(db, owner, held))


def hold_terms(cache: UserCache, db: Connection, user_id: str) -> UserTerms:
    """Return a view of a user's rows and their terms."""

    def read(db: Connection, owner: int, held: UserTerms) -> None:
        while True:
            values = {"owner": owner, "user_id": user_id, "after": held.last_doc, "limit": _PIECE}
            rows = db.rows("read_terms", values)
            held.append(cast("list[TermRow]", rows))
            if len(rows) < _PIECE:
                return

    return hold(cache, db, user_id, UserTerms, read)


def read_allowed(db: Connection, query: Query) -> NDArray[np.int64] | None:
    """Return the documents allowed by conditions that rows in memory do not carry; None without such."""
    if all(getattr(query, name) is None for name in _NOT_IN_MEMORY):
        return None
    where, values = on_documents(query, db.dialect)
    return np.fromiter((row[0] for row in db.rows("document_ids", values, where=where)), dtype=np.int64)
