"""One SQLite file: opening it safely, transactions, and errors in jiyi's own words."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import apsw

from jiyi.errors import (
    Closed,
    DatabaseDamaged,
    DatabaseLocked,
    DatabaseReadOnly,
    DiskFull,
    StorageError,
    WrongState,
)
from jiyi.storage.sqlite.connection import SqliteConnection
from jiyi.storage.sqlite.migrate import APPLICATION_ID, check_version, migrate, pragma, refuse_foreign
from jiyi.storage.user_cache import UserCache

__all__ = ["SqliteDatabase"]

_READERS = 4
_T = TypeVar("_T")
_AGREEMENTS = (
    "rows_without_terms",
    "terms_without_rows",
    "wrong_vector_states",
    "covered_messages_without_summary",
    "summaries_without_user",
)  # statements that count what disagrees


class SqliteDatabase:
    """A file in WAL mode with one writing connection and a few reading ones.

    Guarantees: what a `write` block committed survives a crash of the process and of the
    machine (``synchronous=FULL``); readers never wait for writers; a file that is not
    jiyi's or was written by a newer jiyi is refused before anything in it changes. Damage
    is told as `DatabaseDamaged` where it is met; `check` looks for it everywhere.

    ``cache`` holds what was read of users for searching.
    """

    retries = False  # nothing that fails here passes by itself

    def __init__(
        self, path: str | Path, *, lock_timeout: float = 5.0, cache_bytes: int = 512 * 1024 * 1024
    ) -> None:
        """Open or make the file.

        Args:
            path: the file; its folder must exist.
            lock_timeout: seconds to wait for another process's write lock.
            cache_bytes: what ``cache`` may take.
        """
        self.path = Path(path)
        self.place = str(self.path)
        self.cache = UserCache(cache_bytes)
        self._timeout_ms = int(lock_timeout * 1000)
        self._translated = _Translated(self.path, self._timeout_ms / 1000)
        self._write_lock = threading.RLock()
        self._depth = 0
        self._writing = threading.local()
        self._readers: queue.LifoQueue[SqliteConnection] = queue.LifoQueue()
        self._reader_slots = threading.BoundedSemaphore(_READERS)
        self._closed = False
        refuse_foreign(self.path)
        self._writer: SqliteConnection | None = None
        with self._translated:
            connection = self._connect()
            try:
                _prepare(connection, self.path, time.monotonic() + self._timeout_ms / 1000)
                migrate(connection, self.path)
            except BaseException:
                # Closing must not fold the log of a refused file into it.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
                raise
            self._writer = SqliteConnection(connection)

    @contextlib.contextmanager
    def write(self, user_id: str | None = None) -> Iterator[SqliteConnection]:
        """See `Database.write`; the file has one writing connection for all users."""
        del user_id
        with self._write_lock, self._translated:
            connection = self._open_writer()
            if self._depth:
                with self._savepoint(connection.raw):
                    yield connection
                return
            connection.raw.execute("BEGIN IMMEDIATE")
            self._depth, self._writing.here = 1, True
            try:
                yield connection
                self._check_whole(connection.raw)
                connection.raw.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.raw.execute("ROLLBACK")
                raise
            finally:
                self._depth, self._writing.here = 0, False

    @contextlib.contextmanager
    def _savepoint(self, connection: apsw.Connection) -> Iterator[None]:
        """Let an exception that is caught outside undo the inner block only."""
        self._check_whole(connection)
        connection.execute("SAVEPOINT inner_block")
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO inner_block; RELEASE inner_block")
            raise
        self._check_whole(connection)
        connection.execute("RELEASE inner_block")

    def _check_whole(self, connection: apsw.Connection) -> None:
        """Refuse to go on where an error, such as a full disk, made SQLite undo the transaction."""
        if not connection.in_transaction:
            raise StorageError(f"{self.path}: an earlier error undid this transaction; begin it anew")

    @contextlib.contextmanager
    def read(self, user_id: str | None = None) -> Iterator[SqliteConnection]:
        """See `Database.read`."""
        del user_id
        with self._translated:
            if getattr(self._writing, "here", False):
                yield self._open_writer()
                return
            with self._reader_slots:
                connection = self._borrow_reader()
                try:
                    yield connection
                finally:
                    self._readers.put(connection)
                    if self._closed:
                        self._close_readers()

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`."""
        with self._alone() as connection:
            if not _fold_log(connection):
                raise DatabaseLocked(
                    f"{self.path} is being read or written by another process; "
                    "nothing was changed, purge again when it is done"
                )
            # What would undo a statement must not be written to a temporary file from now on.
            connection.execute("PRAGMA temp_store=MEMORY")

    def scrub(self) -> None:
        """See `jiyi.storage.trash.Trash.scrub`."""
        with self._alone() as connection:
            # A new copy of what is there takes the place of the file, through the log; then the log goes.
            # It is made in a temporary file first, which may be as large.
            connection.execute("PRAGMA temp_store=DEFAULT; VACUUM")
            if not _fold_log(connection):
                raise DatabaseLocked(
                    f"{self.path} is being read by another process, old bytes may remain; "
                    "purge again when it is done"
                )

    @contextlib.contextmanager
    def _alone(self) -> Iterator[apsw.Connection]:
        with self._write_lock, self._translated:
            connection = self._open_writer()
            if self._depth:
                raise WrongState("overwriting needs the file alone; call it after the transaction")
            yield connection.raw

    def attempt(self, verb: Callable[[], _T], *, repeatable: bool = True) -> _T:  # noqa: ARG002
        """See `Database.attempt`: it is done once."""
        return verb()

    def users(self) -> list[str]:
        """Return the names of all users, in alphabetical order."""
        with self.read() as db:
            return [str(row[0]) for row in db.rows("users", {})]

    def check(self) -> str:
        """Verify the file and that its parts agree; return in a line what it holds.

        The parts are rows, text index, vectors, and summaries with what they cover.

        Raises:
            DatabaseDamaged: they do not.
        """
        with self.read() as db:
            faults = [str(row[0]) for row in db.raw.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise DatabaseDamaged(f"{self.path} is damaged: {'; '.join(faults)}; restore a backup")
            for name in _AGREEMENTS:
                count = db.first(name, {})
                if count is None or count[0]:
                    raise DatabaseDamaged(
                        f"{self.path}: {count and count[0]} {name.replace('_', ' ')}; restore a backup"
                    )
            users, documents, pending, summaries = cast("tuple[int, int, int, int]", db.first("totals", {}))
        held = f"{users} users, {documents} records, {pending} without vectors yet"
        return f"{self.path} is sound: {held}" + (f", {summaries} summaries" if summaries else "")

    def close(self) -> None:
        """Close every connection; a checkpoint folds the write-ahead log into the file."""
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            self.cache.clear()
            self._close_readers()
            if self._writer is not None:
                self._writer.raw.close()

    def _close_readers(self) -> None:
        while True:
            try:
                self._readers.get_nowait().raw.close()
            except queue.Empty:
                return

    def _open_writer(self) -> SqliteConnection:
        if self._closed or self._writer is None:
            raise Closed(f"{self.path} is closed; open it again with jiyi.open()")
        return self._writer

    def _borrow_reader(self) -> SqliteConnection:
        self._open_writer()
        try:
            return self._readers.get_nowait()
        except queue.Empty:
            return SqliteConnection(self._connect())

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(self._timeout_ms)
        connection.execute("PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000")
        return connection


def _prepare(connection: apsw.Connection, path: Path, deadline: float) -> None:
    if connection.readonly("main"):
        raise DatabaseReadOnly(f"{path} cannot be written; mend its permissions or name another file")
    check_version(connection, path)
    while pragma(connection, "journal_mode") != "wal":
        try:
            connection.execute("PRAGMA page_size=8192")
            # First of all and outside the log: whatever happens, the file says whose it is.
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute("PRAGMA journal_mode=WAL")
        except apsw.BusyError:  # another process makes the same file; SQLite does not wait here
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _fold_log(connection: apsw.Connection) -> bool:
    """Move the log into the file and empty it; False where somebody still reads it."""
    row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return row is not None and not row[0]


class _Translated(NamedTuple):
    """A block in which errors of SQLite become those of jiyi; it keeps no state."""

    path: Path
    waited: float  # seconds, for another process's lock

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise _translate(error, self.path, self.waited) from error


def _translate(error: apsw.Error, path: Path, waited: float) -> StorageError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseLocked(
                f"{path} was locked by another process for more than {waited:g} s; nothing was written, "
                "try again or raise lock_timeout"
            )
        case apsw.FullError():
            return DiskFull(f"no space left for {path}; nothing was written, free some space and try again")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return DatabaseReadOnly(f"{path} cannot be opened for writing ({error}); mend its permissions")
        case apsw.CorruptError() | apsw.NotADBError():
            return DatabaseDamaged(
                f"{path} is damaged ({error}); restore a backup, or try .recover of the sqlite3 shell"
            )
        case apsw.IOError():
            return StorageError(
                f"the disk failed under {path} ({error}); nothing was written, check the disk"
            )
        case _:
            return StorageError(f"{path}: {error}")
