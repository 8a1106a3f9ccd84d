"""Connections to a PostgreSQL server, kept in a pool, and what happens while it is away."""

import contextlib
import logging
import time
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from jiyi.errors import Closed, StorageError
from jiyi.forks import leave_at_fork
from jiyi.storage.postgres.errors import ConnectionLost, MachineLost, translate
from jiyi.storage.postgres.statements import Adapters
from jiyi.telling import masked

__all__ = ["Pool", "Raw", "connect"]

Raw = psycopg.Connection[Any]

# What a URL may say otherwise. A server that does not answer at all is given up after about 15 s.
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "jiyi",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "15000",
}
_ALWAYS = {"client_encoding": "utf8"}
_ADAPTERS = Adapters()
_LOOK_AGAIN = 1.0  # seconds: who waits for a free connection looks so often whether the server is there
_GRACE = 5.0  # seconds beyond what a statement may take until a silent server is given up

_T = TypeVar("_T")

# What happens to connections is raised; without this a program that logs nothing has it on its screen.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class _Impatient(psycopg.Connection[Any]):
    """A connection that does not wait for ever for a server that says nothing.

    The limits of the server and of TCP do not help where something between acknowledges every
    byte and forwards none.
    """

    patience: float | None = None  # seconds without a sign; None: for ever
    _is_left = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        leave_at_fork(self)

    def _left_behind(self, quiet: bool) -> None:  # noqa: ARG002
        """See `jiyi.forks.Left`: nothing more is sent from here."""
        self._is_left = True

    @property
    def closed(self) -> bool:
        """See `psycopg.Connection.closed`."""
        return self._is_left or super().closed

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **options: Any) -> _T:
        """See `psycopg.Connection.wait`."""
        if self._is_left:
            raise psycopg.OperationalError("this was begun before a fork")
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
        try:
            wanted, heard = next(gen), time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self.patience is not None and time.monotonic() - heard > self.patience:
                    self.close()
                    raise psycopg.OperationalError(f"no answer for {self.patience:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def _conninfo(url: str) -> str:
    try:
        told = conninfo_to_dict(url)
    except psycopg.Error:  # what it says quotes pieces of the address, the password maybe
        raise StorageError(
            f"{masked(url)} is no address of a PostgreSQL database: a part is unknown or not "
            "percent-encoded; see docs/postgres.md"
        ) from None
    return make_conninfo("", **{**_DEFAULTS, **told, **_ALWAYS})


@contextlib.contextmanager
def connect(url: str) -> Iterator[Raw]:
    """Give a connection of its own to a server, for what needs no pool.

    Raises:
        DatabaseUnreachable: the server or the database cannot be reached; says why.
    """
    place = masked(url)
    try:
        raw = psycopg.connect(_conninfo(url), autocommit=True, context=_ADAPTERS)
    except psycopg.Error as error:
        raise translate(error, place, None) from error
    try:
        with raw:
            yield raw
    except psycopg.Error as error:
        raise translate(error, place, raw) from error


class Pool:
    """A bounded number of connections for all threads.

    While the server is away no thread waits for the pool's own tries: each asks the server
    itself, and the first that gets an answer has the pool mend its connections.
    """

    def __init__(self, url: str, *, least: int, most: int, seconds: float, statement_seconds: float) -> None:
        """Begin to connect: ``least`` connections are kept open, ``seconds`` is waited for a free one.

        A little after ``statement_seconds``, the most the server takes, a silent server counts as lost.
        """
        self.place = masked(url)
        self.prepares = True  # whether statements may stay prepared on the server
        self._away = self._is_left = False
        self._conninfo = _conninfo(url)
        self._seconds = seconds
        self._patience = statement_seconds + _GRACE
        self._pool: ConnectionPool[Raw] = ConnectionPool(
            self._conninfo,
            connection_class=_Impatient,
            kwargs={"autocommit": True, "context": _ADAPTERS},
            configure=self._hurry,
            # A failed try is not repeated later: whoever asks next begins a new one at once.
            reconnect_timeout=0.0,
            name="jiyi",
            min_size=min(least, most),
            max_size=most,
            timeout=seconds,
            open=True,
        )
        leave_at_fork(self)

    def _left_behind(self, quiet: bool) -> None:  # noqa: ARG002
        """See `jiyi.forks.Left`: the connections are the parent process's."""
        self._is_left = True

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Raw]:
        """Give a connection; whoever uses it translates its errors."""
        raw = self._get()
        if not self.prepares:
            raw.prepare_threshold = None
        try:
            yield raw
        except MachineLost:  # this connection, to the coordinator, is as good as before
            raise
        except ConnectionLost:
            self._away = True
            raw.close()
            raise
        finally:
            if not self._is_left:
                self._pool.putconn(raw)

    def close(self) -> None:
        """Close all connections, those in use when they come back; those of a parent process stay open."""
        if not self._is_left:
            self._pool.close()

    def _get(self) -> Raw:
        until, looked = time.monotonic() + self._seconds, False
        while True:
            if self._is_left or self._pool.closed:
                raise Closed(f"{self.place} is closed in this process; open it again with jiyi.open()")
            if self._away:
                self._look()
                until, looked = max(until, time.monotonic() + _LOOK_AGAIN), True
            left = until - time.monotonic()
            try:
                return self._pool.getconn(timeout=max(min(left, _LOOK_AGAIN), 0.001))
            except PoolClosed:
                continue
            except PoolTimeout as error:
                held = self._pool.get_stats()
                if held["pool_size"] < held["pool_max"] and not looked:  # it could have had another one
                    self._away = True
                elif left <= _LOOK_AGAIN:
                    raise translate(error, self.place, None) from error

    def _look(self) -> None:
        """Ask the server itself whether it is there; where it is, the pool mends its connections."""
        try:
            psycopg.connect(self._conninfo).close()
        except psycopg.OperationalError as error:
            raise ConnectionLost(str(translate(error, self.place, None))) from error
        self._away = False
        self._pool.drain()

    def _hurry(self, raw: Raw) -> None:
        assert isinstance(raw, _Impatient)
        raw.patience = self._patience
