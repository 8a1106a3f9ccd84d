"""One SQLite file: opening it safely, transactions, and errors in jiyi's own words."""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import apsw

from jiyi.errors import (
    Closed,
    DatabaseDamaged,
    DatabaseLocked,
    DatabaseMoved,
    DatabaseReadOnly,
    DiskFull,
    StorageError,
    WrongState,
)
from jiyi.forks import leave_at_fork, quiet
from jiyi.storage.damage import DamageLog
from jiyi.storage.database import Database
from jiyi.storage.sqlite.checksums import damaged_records
from jiyi.storage.sqlite.connection import SqliteConnection
from jiyi.storage.sqlite.file import APPLICATION_ID, OpenFile, make_file, refuse_foreign
from jiyi.storage.sqlite.migrate import check_version, migrate, pragma
from jiyi.storage.user_cache import UserCache

__all__ = ["SqliteDatabase"]

_READERS = 4
_INSTEAD = "restore a backup, or save what is whole into a new file: jiyi repair"
_NAMED = 20  # damaged records in a message
_log = logging.getLogger("jiyi")


class SqliteDatabase(Database):
    """A file in WAL mode with one writing connection and a few reading ones.

    Guarantees: what a `write` block committed survives a crash of the process and of the
    machine (``synchronous=FULL``); readers never wait for writers; a file that is not
    jiyi's or was written by a newer jiyi is refused before anything in it changes. DamageLog
    is told as `DatabaseDamaged` where it is met; `check` looks for it everywhere. Where the file
    is moved, deleted or replaced no write is acknowledged any more. A forked process has it closed.

    ``cache`` holds what was read of users for searching.
    """

    overwrites = True
    retries = False  # nothing that fails here passes by itself
    consistency_checks = (
        *("rows_without_terms", "terms_without_rows", "wrong_vector_states"),
        *("covered_messages_without_summary", "summaries_without_user"),
    )
    _writer: SqliteConnection | None

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
        self.damage = DamageLog()
        self._timeout_ms = int(lock_timeout * 1000)
        self._translated = _Translated(self.path, self._timeout_ms / 1000)
        self._name = os.path.abspath(self.path)  # also where the process goes to another folder
        self._marked = False  # whether the file tells itself from copies made before
        self._closed = False
        self._begin()
        refuse_foreign(self.path)
        make_file(self.path)
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
            self._use_writer(connection)
            self._file = OpenFile(self.path)
        leave_at_fork(self)

    def _begin(self) -> None:
        self._write_lock = threading.RLock()
        self._depth = 0
        self._writing = threading.local()
        self._readers: queue.LifoQueue[SqliteConnection] = queue.LifoQueue()
        self._reader_slots = threading.BoundedSemaphore(_READERS)
        self._writer = None
        self._connections: list[SqliteConnection] = []  # all that were opened

    def _left_behind(self, quiet: bool) -> None:
        """See `jiyi.forks.Left`.

        SQLite knows the files of its process, with locks that a forked one does not have: unless all
        is closed here, the file can be opened again no more. Nothing is being written to it then.
        """
        for connection in self._connections:
            if quiet:
                connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.raw.close()
            connection.leave()
        if not quiet and not self._closed:
            self._file.give_up()
        self._begin()
        self._closed = True

    @contextlib.contextmanager
    def write(self, user_id: str | None = None) -> Iterator[SqliteConnection]:
        """See `Database.write`; the file has one writing connection for all users."""
        del user_id
        with self._translated, self._write_lock:
            connection = self._open_writer()
            if self._depth:
                with self._savepoint(connection):
                    yield connection
                return
            connection.raw.execute("BEGIN IMMEDIATE")
            self._depth, self._writing.here = 1, True
            try:
                yield connection
                self._check_whole(connection)
                self._file.check()  # a file that nobody finds is not committed into
                if not self._marked:  # whatever it is: the file counts a change
                    version = pragma(connection.raw, "user_version")
                    connection.raw.execute(f"PRAGMA user_version={version}")
                connection.raw.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.raw.execute("ROLLBACK")
                if isinstance(error, apsw.BusyError):  # no other process: a statement of ours never ended
                    self._use_writer(self._connect())
                    self._leave(connection.raw)  # after: who closes the last one takes the log away
                raise
            finally:
                self._depth, self._writing.here = 0, False
            if not self._marked:  # the first time the file itself is to show that it was written to
                self._marked = True
                connection.raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._file.check(written=True)

    @contextlib.contextmanager
    def _savepoint(self, connection: SqliteConnection) -> Iterator[None]:
        """Let an exception that is caught outside undo the inner block only."""
        self._check_whole(connection)
        connection.raw.execute("SAVEPOINT inner_block")
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.raw.execute("ROLLBACK TO inner_block; RELEASE inner_block")
            raise
        self._check_whole(connection)
        connection.raw.execute("RELEASE inner_block")

    def _check_whole(self, connection: SqliteConnection) -> None:
        """Refuse to go on where an error, such as a full disk, made SQLite undo the transaction."""
        if not connection.in_transaction:
            raise StorageError(f"{self.path}: an earlier error undid this transaction; begin it again")

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
        """See `jiyi.storage.trash.Trash.scrub`; half-written exports beside the file go too."""
        from jiyi.storage.transfer.files import remove_left

        remove_left(Path(self._name).parent)
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
        with self._translated, self._write_lock:
            connection = self._open_writer()
            if self._depth:
                raise WrongState("overwriting needs the file alone; call it after the transaction")
            self._file.check()
            yield connection.raw

    def check(self) -> str:
        """See `Database.check`: pages, rows, text index, vectors, and summaries with what they cover."""
        with self.read() as db:
            faults = [str(row[0]) for row in db.raw.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise DatabaseDamaged(f"{self.path} is damaged: {'; '.join(faults)}; {_INSTEAD}")
        sound = super().check()
        with self.read() as db:
            damaged = list(islice(damaged_records(db.raw), _NAMED + 1))
        if damaged:
            more = " and others" if len(damaged) > _NAMED else ""
            raise DatabaseDamaged(
                f"{self.path}: damaged are {'; '.join(map(str, damaged[:_NAMED]))}{more}; "
                f"all else is whole; {_INSTEAD}"
            )
        return sound

    def close(self) -> None:
        """Close every connection; a checkpoint folds the write-ahead log into the file."""
        with self._translated, self._write_lock:
            if self._closed:
                return
            self._closed = True
            self.cache.clear()
            self._close_readers()
            if self._writer is not None:
                self._leave(self._writer.raw)

    def _close_readers(self) -> None:
        while True:
            try:
                self._leave(self._readers.get_nowait().raw)
            except queue.Empty:
                return

    def _leave(self, connection: apsw.Connection) -> None:
        """Close a connection; where another file has the name by now, the log must not become that one's."""
        try:
            self._file.check()
        except DatabaseMoved as error:
            _log.warning("closing: %s", error)
            if self._file.spoilt:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            else:
                with contextlib.suppress(apsw.Error):
                    _fold_log(connection)
        self._connections = [one for one in self._connections if one.raw is not connection]
        connection.close()

    def _open_writer(self) -> SqliteConnection:
        if self._closed or self._writer is None:
            raise Closed(f"{self.path} is closed in this process; open it again with jiyi.open()")
        return self._writer

    def _use_writer(self, connection: apsw.Connection) -> None:
        self._writer = SqliteConnection(connection, self.damage)
        self._connections.append(self._writer)

    def _borrow_reader(self) -> SqliteConnection:
        self._open_writer()
        try:
            return self._readers.get_nowait()
        except queue.Empty:
            connection = SqliteConnection(self._connect(), self.damage)
            try:
                self._file.check()
            except DatabaseMoved:  # it may be of the other file
                connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.raw.close()
                raise
            self._connections.append(connection)
            return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._name, flags=apsw.SQLITE_OPEN_READWRITE)
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
    """A block in which errors of SQLite become those of jiyi, and that no fork comes between."""

    path: Path
    waited: float  # seconds, for another process's lock

    def __enter__(self) -> None:
        quiet.__enter__()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        quiet.__exit__()
        if isinstance(error, apsw.Error):
            raise _translate(error, self.path, self.waited) from error


def _translate(error: apsw.Error, path: Path, waited: float) -> StorageError:
    match error:
        case apsw.BusyError() if "in progress" in str(error):
            return StorageError(f"{path}: {error}, left by this process; nothing was written, try again")
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
            return DatabaseDamaged(f"{path} is damaged ({error}); {_INSTEAD}")
        case apsw.IOError():
            return StorageError(
                f"the disk failed under {path} ({error}); nothing was written, check the disk"
            )
        case _:
            return StorageError(f"{path}: {error}")
