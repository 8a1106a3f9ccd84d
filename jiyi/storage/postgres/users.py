"""What a process remembers of the users it wrote to: who they are, and how quickly they grow.

The server gathers statistics by itself, once a tenth of a table is new, and looks once a minute.
Until then it takes a user it has not seen for one of a few rows, and may walk through all of them.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import psycopg
from psycopg import sql

from jiyi.storage.postgres.pool import Raw

__all__ = ["Growth", "Recent", "gather"]

_MANY = 100  # documents of one transaction: who saves fewer grows slowly enough for the server
_LEAST = 1_000  # documents that may be walked through
_USERS = 1_000  # users remembered

_V = TypeVar("_V")


class Recent(Generic[_V]):
    """What is known of the users met last, at most so many; safe for many threads."""

    def __init__(self, most: int = _USERS) -> None:
        self._most = most
        self._users: OrderedDict[str | None, _V] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, user_id: str | None, known: _V) -> None:
        """Put a user in front; the one at the end goes where there are too many."""
        with self._lock:
            self._users[user_id] = known
            self._users.move_to_end(user_id)
            if len(self._users) > self._most:
                self._users.popitem(last=False)

    def get(self, user_id: str | None) -> _V | None:
        """Return what is known of a user, None for an unknown one."""
        return self._users.get(user_id)

    def newest_first(self) -> list[str]:
        """Return the users as they are now."""
        with self._lock:
            return [user for user in reversed(self._users) if user is not None]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._users.clear()


class Growth:
    """Notes how many documents users had when statistics were gathered. Safe for many threads."""

    def __init__(self) -> None:
        self._known = Recent[int]()

    def outgrown(self, numbers: Mapping[str, tuple[int, int]]) -> bool:
        """Say whether statistics are out of date for a user of a transaction, and take them for gathered.

        They are once a user has twice as many documents as at that time, and at least two thousand.
        ``numbers`` are the first one that the transaction gave to each user and the one after the last.
        """
        outgrown = False
        for user_id, (first, behind) in numbers.items():
            if behind - first >= _MANY:
                known = self._known.get(user_id) or max(first, _LEAST)
                grown = behind >= 2 * known
                self._known.put(user_id, behind if grown else known)
                outgrown = outgrown or grown
        return outgrown


def gather(raw: Raw, tables: Sequence[str]) -> None:
    """Let the server gather statistics of tables, as far as it can now and this role may."""
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    with contextlib.suppress(psycopg.Error):
        raw.execute(sql.SQL("ANALYZE (SKIP_LOCKED) {}").format(names))
