"""One SQLite file: opening it safely, transactions, and translation of errors."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path

import apsw

from jiyi import errors
from jiyi.forks import leave_at_fork, quiet
from jiyi.storage.damage import DamageLog
from jiyi.storage.database import Database, Translations
from jiyi.storage.search.user_cache import UserCache
from jiyi.storage.sqlite.connection import SqliteConnection, damaged_records
from jiyi.storage.sqlite.file import APPLICATION_ID, OpenFile, make_file, refuse_foreign
from jiyi.storage.sqlite.migrate import check_version, migrate, wait_for_file

_READERS = 4
_ADVICE = "restore a backup, or save what is whole into a new file: jiyi repair"
_translations = cache(partial(Translations, __package__, "any", vars(apsw), vars(errors)))
_MAX_NAMED = 20  # damaged records in a message

_log = logging.getLogger("jiyi")


class SqliteDatabase(Database):
    """A file in WAL mode with one writing connection and a few reading ones.

    Guarantees: what a `write` block committed survives a crash of the process and of the
    machine (``synchronous=FULL``); readers never wait for writers; a file that is not
    jiyi's or was written by a newer jiyi is refused before anything in it changes. Damage
    raises `DatabaseDamaged` where it is found; `check` looks for it everywhere. If the file is
    moved, deleted or replaced, no write is acknowledged any more. A forked process has it closed.
    """

    overwrites = True
    consistency_checks = (
        *("rows_without_terms", "terms_without_rows", "wrong_vector_states"),
        *("covered_messages_without_summary", "summaries_without_user"),
    )
    _writer: SqliteConnection | None

    def __init__(
        self, path: str | Path, *, lock_timeout: float = 5.0, cache_bytes: int = 512 * 1024 * 1024
    ) -> None:
        """Open or create the file, whose folder must exist.

        ``lock_timeout`` is how many seconds to wait for another process's write lock; ``cache_bytes``
        limits the cache of users' rows and vectors.
        """
        self.path = Path(path)
        self.place = str(self.path)
        self.cache = UserCache(cache_bytes)
        self.damage = DamageLog()
        self._timeout_ms = int(lock_timeout * 1000)
        self._translations = _translations()  # now, because later no file may be left to open
        self._name = os.path.abspath(self.path)  # the process may change its folder
        self._marked = False  # whether the file was changed, which distinguishes it from older copies
        self._closed = False
        self._reset()
        refuse_foreign(self.path)
        make_file(self.path)
        with self._translated():
            connection = self._connect()
            try:
                _prepare(connection, self.path, lock_timeout)
                migrate(connection, self.path)
            except BaseException:
                # Closing must not write the log of a refused file into it.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
                raise
            self._use_writer(connection)
            self._file = OpenFile(self.path)
        leave_at_fork(self)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Return a context that translates errors of SQLite and delays forks."""
        with quiet:
            try:
                yield
            except apsw.Error as error:
                if isinstance(error, apsw.BusyError) and "in progress" in str(error):
                    said = f"{error}, left by this process; nothing was written, try again"
                    raise errors.StorageError(f"{self.path}: {said}") from error
                values = {"place": self.path, "said": error, "waited": self._timeout_ms / 1000}
                found = self._translations.find(error, **values)
                raise found or errors.StorageError(f"{self.path}: {error}") from error

    def _reset(self) -> None:
        self._write_lock = threading.RLock()
        self._depth = 0
        self._writing = threading.local()
        self._readers: list[SqliteConnection] = []  # the idle ones; appending and popping are atomic
        self._reader_slots = threading.BoundedSemaphore(_READERS)
        self._writer = None
        self._connections: list[SqliteConnection] = []  # all that were opened

    def _left_behind(self, quiet: bool) -> None:
        """See `jiyi.forks.Left`.

        SQLite remembers locks of its process that a forked one does not have: unless all connections
        are closed here, the file cannot be opened again. Nothing is being written to it then.
        """
        for connection in self._connections:
            if quiet:
                connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.raw.close()
            connection.detach()
        if not quiet and not self._closed:
            self._file.refuse_in_process()
        self._reset()
        self._closed = True

    @contextlib.contextmanager
    def write(self, user_id: str | None = None) -> Iterator[SqliteConnection]:
        """See `Database.write`; the file has one writing connection for all users."""
        with self._translated(), self._write_lock:
            connection = self._require_writer()
            if self._depth:
                with self._savepoint(connection):
                    yield connection
                return
            connection.raw.execute("BEGIN IMMEDIATE")
            self._depth, self._writing.here = 1, True
            try:
                yield connection
                self._check_transaction(connection)
                self._file.check()  # do not commit into a file that was moved or deleted
                if not self._marked:  # make SQLite count a change in the file
                    connection.raw.pragma("user_version", connection.raw.pragma("user_version"))
                connection.raw.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.raw.execute("ROLLBACK")
                if isinstance(error, apsw.BusyError):  # a statement of this process was not finished
                    self._use_writer(self._connect())
                    self._close_connection(connection.raw)  # after that: closing the last one removes the log
                raise
            finally:
                self._depth, self._writing.here = 0, False
            if not self._marked:  # the first commit must reach the file itself
                self._marked = True
                connection.raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._file.check(written=True)

    @contextlib.contextmanager
    def _savepoint(self, connection: SqliteConnection) -> Iterator[None]:
        """Return a context whose exception, caught outside, undoes only this block."""
        self._check_transaction(connection)
        connection.raw.execute("SAVEPOINT inner_block")
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.raw.execute("ROLLBACK TO inner_block; RELEASE inner_block")
            raise
        self._check_transaction(connection)
        connection.raw.execute("RELEASE inner_block")

    def _check_transaction(self, connection: SqliteConnection) -> None:
        """Raise an error if SQLite rolled back the transaction, for example because the disk is full."""
        if not connection.in_transaction:
            raise errors.StorageError(f"{self.path}: an earlier error undid this transaction; begin it again")

    @contextlib.contextmanager
    def read(self, user_id: str | None = None) -> Iterator[SqliteConnection]:
        with self._translated():
            if getattr(self._writing, "here", False):
                yield self._require_writer()
                return
            with self._reader_slots:
                connection = self._borrow_reader()
                try:
                    yield connection
                finally:
                    self._readers.append(connection)
                    if self._closed:
                        self._close_readers()

    def check_alone(self) -> None:
        """See `jiyi.storage.trash.Trash.check_alone`."""
        with self._exclusive() as connection:
            if not _checkpoint(connection):
                problem = f"{self.path} is being read or written by another process"
                raise errors.DatabaseLocked(f"{problem}; nothing was changed, purge again when it is done")
            # From now on statement journals must not be written to temporary files.
            connection.execute("PRAGMA temp_store=MEMORY")

    def scrub(self) -> None:
        """See `jiyi.storage.trash.Trash.scrub`; half-written exports beside the file go too."""
        from jiyi.storage.transfer.files import remove_leftovers

        remove_leftovers(Path(self._name).parent)
        with self._exclusive() as connection:
            # VACUUM copies the content to a temporary file, which may be as large, and from there through
            # the log over the file; then the log is emptied.
            connection.execute("PRAGMA temp_store=DEFAULT; VACUUM")
            if not _checkpoint(connection):
                problem = f"{self.path} is being read by another process, old bytes may remain"
                raise errors.DatabaseLocked(f"{problem}; purge again when it is done")

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[apsw.Connection]:
        with self._translated(), self._write_lock:
            connection = self._require_writer()
            if self._depth:
                raise errors.WrongState("overwriting needs the file alone; call it after the transaction")
            self._file.check()
            yield connection.raw

    def check_reachable(self) -> None:
        super().check_reachable()
        self._file.check()

    def check(self) -> str:
        """See `Database.check`: checks pages, checksums, text index, vectors and summaries."""
        with self.read() as db:
            faults = [str(row[0]) for row in db.raw.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise errors.DatabaseDamaged(f"{self.path} is damaged: {'; '.join(faults)}; {_ADVICE}")
        sound = super().check()
        with self.read() as db:
            damaged = list(islice(damaged_records(db.raw), _MAX_NAMED + 1))
        if damaged:
            more = " and others" if len(damaged) > _MAX_NAMED else ""
            problem = f"{self.path}: damaged are {'; '.join(map(str, damaged[:_MAX_NAMED]))}{more}"
            raise errors.DatabaseDamaged(f"{problem}; all else is whole; {_ADVICE}")
        return sound

    def close(self) -> None:
        """Close every connection; a checkpoint writes the write-ahead log into the file."""
        with self._translated(), self._write_lock:
            if self._closed:
                return
            self._closed = True
            self.cache.clear()
            self._close_readers()
            if self._writer is not None:
                self._close_connection(self._writer.raw)

    def _close_readers(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._close_connection(self._readers.pop().raw)

    def _close_connection(self, connection: apsw.Connection) -> None:
        """Close a connection; if the file was replaced, the log must not be written into the new one."""
        try:
            self._file.check()
        except errors.DatabaseMoved as error:
            _log.warning("closing: %s", error)
            if self._file.overwritten:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            else:
                with contextlib.suppress(apsw.Error):
                    _checkpoint(connection)
        self._connections = [other for other in self._connections if other.raw is not connection]
        connection.close()

    def _require_writer(self) -> SqliteConnection:
        if self._closed or self._writer is None:
            raise errors.Closed(f"{self.path} is closed in this process; open it again with jiyi.open()")
        return self._writer

    def _use_writer(self, connection: apsw.Connection) -> None:
        self._writer = SqliteConnection(connection, self.damage)
        self._connections.append(self._writer)

    def _borrow_reader(self) -> SqliteConnection:
        self._require_writer()
        try:
            return self._readers.pop()
        except IndexError:
            connection = SqliteConnection(self._connect(), self.damage)
            try:
                self._file.check()
            except errors.DatabaseMoved:  # it may be of the other file
                connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.raw.close()
                raise
            self._connections.append(connection)
            return connection

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self._name, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(self._timeout_ms)
        # Otherwise SQLite plans a statement again whenever the value of a range condition changes.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000")
        return connection


def _prepare(connection: apsw.Connection, path: Path, seconds: float) -> None:
    if connection.readonly("main"):
        raise errors.DatabaseReadOnly(f"{path} cannot be written; mend its permissions or name another file")
    check_version(connection, path)
    # SQLite does not wait for another process that creates the same file.
    wait_for_file(partial(_use_log, connection), seconds)


def _use_log(connection: apsw.Connection) -> None:
    while connection.pragma("journal_mode") != "wal":
        connection.execute("PRAGMA page_size=8192")
        # First and outside the log, so that the file is marked as jiyi's whatever happens.
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("PRAGMA journal_mode=WAL")


def _checkpoint(connection: apsw.Connection) -> bool:
    """Write the log into the file and empty it; return False if another process still reads it."""
    row = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return row is not None and not row[0]
