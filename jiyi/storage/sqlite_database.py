"""One SQLite file: opening it safely, transactions, and errors in jiyi's own words."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import apsw

from jiyi.errors import (
    Closed,
    DatabaseDamaged,
    DatabaseLocked,
    DatabaseReadOnly,
    DiskFull,
    ForeignDatabase,
    StorageError,
)
from jiyi.storage.sql import load_queries
from jiyi.storage.sqlite_migrate import check_version, migrate, pragma
from jiyi.storage.user_cache import UserCache

__all__ = ["SqliteDatabase"]

_APPLICATION_ID = 0x6A697969  # "jiyi" in ASCII
_MAGIC = b"SQLite format 3\0"
_READERS = 4
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
        self.cache = UserCache(cache_bytes)
        self._timeout_ms = int(lock_timeout * 1000)
        self._write_lock = threading.RLock()
        self._depth = 0
        self._writing = threading.local()
        self._readers: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._reader_slots = threading.BoundedSemaphore(_READERS)
        self._closed = False
        _refuse_foreign(self.path)
        self._writer: apsw.Connection | None = None
        with self._translated():
            connection = self._connect()
            try:
                _prepare(connection, self.path, time.monotonic() + self._timeout_ms / 1000)
                migrate(connection, self.path)
            except BaseException:
                # Closing must not fold the log of a refused file into it.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
                raise
            self._writer = connection

    @contextlib.contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Give the writing connection inside one transaction; blocks of one thread nest.

        The outermost block commits; an exception in it undoes everything.
        """
        with self._write_lock, self._translated():
            connection = self._open_writer()
            if self._depth:
                with self._savepoint(connection):
                    yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            self._depth, self._writing.here = 1, True
            try:
                yield connection
                self._check_whole(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
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
    def read(self) -> Iterator[apsw.Connection]:
        """Give a connection to read with; inside this thread's `write` block it sees that block's writes."""
        with self._translated():
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

    @contextlib.contextmanager
    def outside(self) -> Iterator[apsw.Connection | None]:
        """Give the writing connection outside any transaction; None where this thread is in one."""
        with self._write_lock, self._translated():
            connection = self._open_writer()
            yield None if self._depth else connection

    def users(self) -> list[str]:
        """Return the names of all users, in alphabetical order."""
        with self.read() as db:
            return [str(row[0]) for row in db.execute(load_queries("sqlite")["users"])]

    def check(self) -> str:
        """Verify the file and that its parts agree; return in a line what it holds.

        The parts are rows, text index, vectors, and summaries with what they cover.

        Raises:
            DatabaseDamaged: they do not.
        """
        with self.read() as db:
            faults = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise DatabaseDamaged(f"{self.path} is damaged: {'; '.join(faults)}; restore a backup")
            for name in _AGREEMENTS:
                count = db.execute(load_queries("sqlite")[name]).fetchone()
                if count is None or count[0]:
                    raise DatabaseDamaged(
                        f"{self.path}: {count and count[0]} {name.replace('_', ' ')}; restore a backup"
                    )
            users, documents, pending, summaries = cast(
                "tuple[int, int, int, int]", db.execute(load_queries("sqlite")["totals"]).fetchone()
            )
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
                self._writer.close()

    def _close_readers(self) -> None:
        while True:
            try:
                self._readers.get_nowait().close()
            except queue.Empty:
                return

    def _open_writer(self) -> apsw.Connection:
        if self._closed or self._writer is None:
            raise Closed(f"{self.path} is closed; open it again with jiyi.open()")
        return self._writer

    def _borrow_reader(self) -> apsw.Connection:
        self._open_writer()
        try:
            return self._readers.get_nowait()
        except queue.Empty:
            return self._connect()

    def _connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(self.path), flags=flags)
        connection.set_busy_timeout(self._timeout_ms)
        connection.execute("PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000")
        return connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise _translate(error, self.path, self._timeout_ms / 1000) from error


def _refuse_foreign(path: Path) -> None:
    try:
        if path.is_dir():
            raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'agent.db'}")
        if not path.parent.exists():
            raise StorageError(f"the folder {path.parent} does not exist; make it first")
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return
    except PermissionError as error:
        raise DatabaseReadOnly(f"{path} may not be read by this user; mend its permissions") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be opened ({error}); name another file") from error
    if not header:
        return
    if not header.startswith(_MAGIC) or len(header) < 100:
        raise ForeignDatabase(f"{path} is not a database of jiyi (no SQLite header); name another file")
    if int.from_bytes(header[68:72], "big") != _APPLICATION_ID:
        raise ForeignDatabase(f"{path} is a SQLite file of another program; name another file")


def _prepare(connection: apsw.Connection, path: Path, deadline: float) -> None:
    if connection.readonly("main"):
        raise DatabaseReadOnly(f"{path} cannot be written; mend its permissions or name another file")
    check_version(connection, path)
    while pragma(connection, "journal_mode") != "wal":
        try:
            connection.execute("PRAGMA page_size=8192")
            # First of all and outside the log: whatever happens, the file says whose it is.
            connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            connection.execute("PRAGMA journal_mode=WAL")
        except apsw.BusyError:  # another process makes the same file; SQLite does not wait here
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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
