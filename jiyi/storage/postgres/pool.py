"""Connections to a PostgreSQL server, kept in a pool, and what happens while it is away."""

import contextlib
import logging
import re
import time
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from secrets import token_hex
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from jiyi.errors import Closed, StorageError
from jiyi.forks import leave_at_fork
from jiyi.storage.database import Answer
from jiyi.storage.postgres.errors import ConnectionLost, MachineLost, translate
from jiyi.storage.postgres.statements import Adapters, Statement
from jiyi.telling import mask

Raw = psycopg.Connection[Any]

# A URL may override these. A server that does not answer at all is given up after about 15 s.
_DEFAULTS = (
    "connect_timeout=10 application_name=jiyi keepalives=1 keepalives_idle=10 keepalives_interval=5 "
    "keepalives_count=2 tcp_user_timeout=15000"
)
_ADAPTERS = Adapters()
_PROBE_SECONDS = 1.0  # between checks of the server while waiting for a free connection
_GRACE = 5.0  # seconds after the statement timeout until a silent server is given up
_MAX_PREPARED = 200  # statements of a connection; further ones are parsed each time
_DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_NAMED = re.compile(r"%\(([a-z0-9_]+)\)s")

_T = TypeVar("_T")
_Key = tuple[bytes, tuple[int, ...]]  # a statement and the types of its values
_Results = Generator[Any, Any, list[pq.abc.PGresult]]

# Failures of connections are raised; without this handler they would also be printed to stderr.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class PooledConnection(psycopg.Connection[Any]):
    """A connection that sends statements together and has a time limit for a silent server.

    Timeouts of the server and of TCP do not help if a proxy acknowledges all bytes and forwards none.
    """

    patience: float | None = None  # seconds without a byte; None for no limit
    prepares = True  # whether statements may stay prepared on the server
    _is_left = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._names: dict[_Key, bytes] = {}  # of the statements that are prepared
        leave_at_fork(self)

    def _left_behind(self, quiet: bool) -> None:
        """See `jiyi.forks.Left`: this process sends nothing more."""
        self._is_left = True

    @property
    def closed(self) -> bool:
        return self._is_left or super().closed

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **options: Any) -> _T:
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

    def send_all(self, statements: Sequence[Statement]) -> list[Answer]:
        """Run statements in one round trip and return their results; none runs after one that failed.

        psycopg's own pipeline sends each by itself and keeps a cursor for it, which takes longer than most
        of jiyi's statements run.
        """
        ready, loading, answers = list[tuple[_Key, Any, Any]](), Transformer(self), list[Answer]()
        for words, given in statements:
            query, names = (words.encode(), []) if given is None else _numbered(words)
            dumping = Transformer(self)  # not shared: the first numbers of a list set the type of all
            values = [given[name] for name in names] if given else []
            written = dumping.dump_sequence(values, [PyFormat.AUTO] * len(values))
            ready.append(((query, dumping.types or ()), written, dumping.formats))
        for result in self.wait(self._round_trip(ready)):
            if result.status not in _DONE:
                raise error_from_result(result)
            loading.set_pgresult(result)
            columns = [(result.fname(number) or b"").decode() for number in range(result.nfields)]
            answers.append(Answer(columns, loading.load_rows(0, result.ntuples, tuple)))
        return answers

    def _round_trip(self, statements: Sequence[tuple[_Key, Any, Any]]) -> _Results:
        pgconn, sent = self.pgconn, list[tuple[_Key, bool]]()
        pgconn.enter_pipeline_mode()
        for key, values, formats in statements:
            name = self._names.get(key) if self.prepares else None
            is_new = name is None and self.prepares and len(self._names) < _MAX_PREPARED
            if is_new and (values or key[0].startswith(b"SELECT")):  # others are too many, or too simple
                name = self._names[key] = b"jiyi_" + token_hex(8).encode()  # a pooler may share them
                pgconn.send_prepare(name, *key)
                sent.append((key, True))
            if name is None:
                pgconn.send_query_params(key[0], values, key[1], formats, pq.Format.BINARY)
            else:
                pgconn.send_query_prepared(name, values, formats, pq.Format.BINARY)
            sent.append((key, False))
        pgconn.pipeline_sync()
        yield from send(pgconn)
        results = list[pq.abc.PGresult]()
        for key, prepares in sent:
            result = (yield from fetch_many(pgconn))[0]
            if result.status not in _DONE:
                self._names.pop(key, None)  # what it was prepared for may have changed
            elif prepares:
                continue
            results.append(result)
        yield from fetch_many(pgconn)
        pgconn.exit_pipeline_mode()
        return results


@lru_cache(maxsize=1_024)
def _numbered(words: str) -> tuple[bytes, list[str]]:
    """Return a statement in psycopg's syntax with numbers for its parameters, and their names."""
    names = list(dict.fromkeys(_NAMED.findall(words)))
    return _NAMED.sub(lambda name: f"${1 + names.index(name[1])}", words).replace("%%", "%").encode(), names


def _conninfo(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:  # its message may quote the password
        advice = "a part is unknown or not percent-encoded; see docs/postgres.md"
        raise StorageError(f"{mask(url)} is no address of a PostgreSQL database: {advice}") from None
    return make_conninfo(_DEFAULTS, **{**given, "client_encoding": "utf8"})


@contextlib.contextmanager
def connect(url: str) -> Iterator[Raw]:
    """Open a connection to a server outside the pool; raise `DatabaseUnreachable` if that fails."""
    place = mask(url)
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

    While the server is away no thread waits for the pool to reconnect: each probes the server
    itself, and the first that gets an answer makes the pool replace its connections.
    """

    def __init__(self, url: str, *, least: int, most: int, seconds: float, statement_seconds: float) -> None:
        """Start connecting; ``least`` connections are kept open, a free one is waited for ``seconds``.

        A server that is silent for a little longer than ``statement_seconds`` counts as lost.
        """
        self.place = mask(url)
        self.prepares = True  # whether statements may stay prepared on the server
        self._away = self._is_left = False
        self._conninfo = _conninfo(url)
        self._seconds = seconds
        self._patience = statement_seconds + _GRACE
        self._pool: ConnectionPool[PooledConnection] = ConnectionPool(
            self._conninfo,
            connection_class=PooledConnection,
            # What psycopg prepares itself it drops together with all that is prepared.
            kwargs={"autocommit": True, "context": _ADAPTERS, "prepare_threshold": None},
            # A failed connection is not retried later: the next caller starts a new one at once.
            reconnect_timeout=0.0,
            name="jiyi",
            min_size=min(least, most),
            max_size=most,
            timeout=seconds,
            open=True,
        )
        leave_at_fork(self)

    def _left_behind(self, quiet: bool) -> None:
        """See `jiyi.forks.Left`: the connections are the parent process's."""
        self._is_left = True

    @contextlib.contextmanager
    def borrow(self) -> Iterator[PooledConnection]:
        """Return a context with a connection; the caller translates its errors."""
        raw = self._get()
        raw.prepares, raw.patience = self.prepares, self._patience
        try:
            yield raw
        except MachineLost:  # this connection, to the coordinator, still works
            raise
        except ConnectionLost:
            self._away = True
            raw.close()
            raise
        finally:
            if not self._is_left:
                self._pool.putconn(raw)

    def close(self) -> None:
        """Close all connections, those in use when they are returned; those of a parent process stay open."""
        if not self._is_left:
            self._pool.close()

    def _get(self) -> PooledConnection:
        until, probed = time.monotonic() + self._seconds, False
        while True:
            if self._is_left or self._pool.closed:
                raise Closed(f"{self.place} is closed in this process; open it again with jiyi.open()")
            if self._away:
                self._probe_server()
                until, probed = max(until, time.monotonic() + _PROBE_SECONDS), True
            left = until - time.monotonic()
            try:
                return self._pool.getconn(timeout=max(min(left, _PROBE_SECONDS), 0.001))
            except PoolClosed:
                continue
            except PoolTimeout as error:
                stats = self._pool.get_stats()
                if stats["pool_size"] < stats["pool_max"] and not probed:  # opening another one failed
                    self._away = True
                elif left <= _PROBE_SECONDS:
                    raise translate(error, self.place, None) from error

    def _probe_server(self) -> None:
        """Connect to the server directly; if it answers, make the pool replace its connections."""
        try:
            psycopg.connect(self._conninfo).close()
        except psycopg.OperationalError as error:
            raise ConnectionLost(str(translate(error, self.place, None))) from error
        self._away = False
        self._pool.drain()
