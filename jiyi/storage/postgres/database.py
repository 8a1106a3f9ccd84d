"""A database on a PostgreSQL server: transactions, row level security and retries."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

import psycopg
from psycopg import errors as pg
from psycopg import sql

from jiyi.errors import DatabaseReadOnly, WrongState
from jiyi.storage.damage import DamageLog
from jiyi.storage.database import Database
from jiyi.storage.postgres.connection import PostgresConnection, ReadChannel, WriteTransaction
from jiyi.storage.postgres.errors import Conflict, retry, translate
from jiyi.storage.postgres.migrate import prepare, tables
from jiyi.storage.postgres.pool import Pool, PooledConnection, Raw, connect
from jiyi.storage.postgres.statements import BECAME_CLUSTER, Statement, get_statement, set_tenant
from jiyi.storage.search.user_cache import UserCache
from jiyi.telling import mask

_MANY = 100  # documents of one transaction; with fewer the server's own ANALYZE is in time
_LEAST = 2_048  # documents of a user; fewer may be scanned
_USERS = 1_000  # users remembered
_CACHE_BYTES = 512 * 1024 * 1024
_POOLED = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)
_T = TypeVar("_T")


class RecentUsers:
    """The users put most recently, up to a number; safe for many threads."""

    def __init__(self, most: int = _USERS) -> None:
        self._most = most
        self._users: dict[str, None] = {}
        self._lock = threading.Lock()

    def put(self, user_id: str) -> None:
        """Make this user the newest; the oldest is dropped if there are too many."""
        with self._lock:
            self._users.pop(user_id, None)
            self._users[user_id] = None
            if len(self._users) > self._most:
                del self._users[next(iter(self._users))]

    def newest_first(self) -> list[str]:
        """Return the users."""
        with self._lock:
            return list(reversed(self._users))


def needs_analyze(numbers: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether a transaction doubled a user's documents to 2,048 or more.

    The server gathers statistics itself once a tenth of a table is new, checking every minute. Until
    then it plans for a new user as for one with few rows, and may scan all of them. ``numbers`` are the
    first that the transaction reserved for each user, and the one after the last.
    """
    many = [(first, end) for first, end in numbers.values() if end - first >= _MANY and end >= _LEAST]
    return any(end.bit_length() > first.bit_length() for first, end in many)


class PostgresDatabase(Database):
    """Tables of many users on a server, reached through a pool of connections.

    Guarantees: what a `write` block committed survives crashes according to the server's settings
    (by default also of the server); each block sees only rows of its user, which the server
    enforces by row level security; no statement takes longer than the limits; errors of the
    server are raised as those of `jiyi.errors`. Safe for many threads and processes.

    ``recent`` has the users last written to; ``citus`` says whether rows may be on several machines.
    """

    overwrites = False
    consistency_checks = (  # foreign keys ensure the rest
        *("records_that_never_get_vectors", "records_with_vectors_that_wait"),
        *("sessions_with_wrong_counts", "numbers_that_would_come_again"),
    )

    def __init__(
        self,
        url: str,
        *,
        lock_timeout: float = 5.0,
        statement_seconds: float = 30.0,
        pool_min: int = 1,
        pool_max: int = 10,
        pool_seconds: float = 10.0,
        reconnect_seconds: float = 30.0,
        migrate: bool = True,
    ) -> None:
        """Connect, and migrate the tables to the newest schema; without ``migrate`` they must be up to date.

        ``url`` is ``postgresql://user:password@host:port/database``, with parameters of libpq after it; the
        other options are the settings of these names.

        Raises `DatabaseUnreachable` if the server, which is tried once, cannot be reached, and `StorageError`
        if the database cannot be used.
        """
        self.url = url
        self.cache = UserCache(_CACHE_BYTES)
        self.damage = DamageLog()
        self.recent = RecentUsers()
        self._timeouts = (max(1, round(statement_seconds * 1000)), max(1, round(lock_timeout * 1000)))
        self._reconnect_seconds = reconnect_seconds
        self._local = threading.local()
        with connect(url) as raw:
            found = prepare(raw, mask(url), allowed=migrate)
        self.citus = found.citus
        self._pool = Pool(
            url, least=pool_min, most=pool_max, seconds=pool_seconds, statement_seconds=statement_seconds
        )
        self.place = self._pool.place

    @contextlib.contextmanager
    def read(self, user_id: str | None = None) -> Iterator[PostgresConnection]:
        current = self._current
        if current is not None:
            with self._translated(current.raw):
                yield PostgresConnection(current, user_id, self.damage)
            return
        channel = ReadChannel(self._borrowed, self._set_tenant, self.citus)
        yield PostgresConnection(channel, user_id, self.damage)

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[PooledConnection]:
        with self._pool.borrow() as raw, self._translated(raw):
            yield raw

    @contextlib.contextmanager
    def write(self, user_id: str | None = None) -> Iterator[PostgresConnection]:
        if user_id is not None:
            self.recent.put(user_id)
        current = self._current
        if current is not None:
            with self._translated(current.raw), current.savepoint():
                yield PostgresConnection(current, user_id, self.damage, user_id is None)
            return
        with self._pool.borrow() as raw:
            transaction = WriteTransaction(raw, self._set_tenant)
            with self._translated(raw, transaction), self._as_current(transaction):
                yield PostgresConnection(transaction, user_id, self.damage, user_id is None)
            if not self.citus and needs_analyze(transaction.numbers):
                names = sql.SQL(", ").join(map(sql.Identifier, tables()))
                with contextlib.suppress(psycopg.Error):  # it is busy, or this role may not
                    raw.execute(sql.SQL("ANALYZE (SKIP_LOCKED) {}").format(names))

    @contextlib.contextmanager
    def _as_current(self, transaction: WriteTransaction) -> Iterator[None]:
        """Make a transaction that of this thread, and commit it or roll it back at the end."""
        self._local.transaction = transaction
        try:
            yield
            transaction.commit()
        except BaseException:
            transaction.rollback()
            raise
        finally:
            self._local.transaction = None

    def attempt(self, verb: Callable[[], _T], *, repeatable: bool = True) -> _T:
        if self._current is not None:
            return verb()
        return retry(verb, seconds=self._reconnect_seconds, repeatable=repeatable)

    def scrub(self) -> None:
        """See `Trash.scrub`: VACUUM marks the space of dropped rows as free, to be overwritten in time.

        The server's log, replicas and backups keep what they hold.
        """
        if self._current is not None:
            raise WrongState("freeing room is no part of a transaction; call it after that")
        with connect(self.url) as raw:
            for name in tables():
                row = raw.execute(get_statement("may_vacuum"), {"name": name}).fetchone()
                allowed, owner = row or (False, "its owner")
                if not allowed:
                    problem = f"{self.place}: this role may not free the room of {name}"
                    raise DatabaseReadOnly(f"{problem}; purge again as {owner}")
                raw.execute(sql.SQL("VACUUM (ANALYZE) {}").format(sql.Identifier(name)))

    def close(self) -> None:
        self.cache.clear()
        self._pool.close()

    @property
    def _current(self) -> WriteTransaction | None:
        """This thread's transaction."""
        return cast("WriteTransaction | None", getattr(self._local, "transaction", None))

    def _set_tenant(self, user_id: str | None, /, *, generic_plan: bool = False) -> list[Statement]:
        return set_tenant(user_id, self._timeouts, single_node=not self.citus, generic_plan=generic_plan)

    @contextlib.contextmanager
    def _translated(self, raw: Raw, transaction: WriteTransaction | None = None) -> Iterator[None]:
        try:
            yield
        except _POOLED as error:  # a pooler gives every transaction another connection
            self._pool.prepares = False
            raise Conflict(f"{self.place} keeps no prepared statements; try again") from error
        except BECAME_CLUSTER as error:
            self.citus = True
            raise Conflict(f"{self.place} has become a cluster's coordinator; try again") from error
        except psycopg.Error as error:
            committing = transaction is not None and transaction.committing
            raise translate(error, self.place, raw, committing=committing) from error
