"""Chroma in a folder of this machine, for processes that take turns."""

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import apsw
import chromadb
from chromadb.api import ClientAPI

from jiyi.errors import Closed, DatabaseLocked, DatabaseReadOnly, StorageError
from jiyi.storage.chroma.connection import CollectionMissing, quiet, translated

__all__ = ["ChromaFolder"]

_LOCK = "jiyi.lock"
_DATABASE = "chroma.sqlite3"
_PAUSE = 0.005  # seconds between two looks at a lock
_NUMBER = 8  # bytes of the count of changes


class _Shared:
    """One folder in this process: Chroma keeps one index of it in memory, whoever opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.turn = threading.RLock()
        self.client: ClientAPI | None = None
        self.seen = -1  # changes of the folder that the client knows
        self.depth = 0

    def release(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            cast("Any", client).close()


class ChromaFolder:
    """A folder with Chroma's files, used by one process at a time.

    Chroma reads its index into memory and does not notice what another process writes; two that
    write side by side damage it. So every piece of work holds a lock on a file in the folder, and
    whoever finds that others wrote since opens the folder anew. All who open the folder must do so
    through jiyi.
    """

    _known: ClassVar[dict[Path, _Shared]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path, *, lock_timeout: float = 5.0) -> None:
        """Make the folder if there is none.

        Args:
            path: the folder.
            lock_timeout: seconds to wait for another process's work to end.
        """
        self.place = str(path)
        self._timeout = lock_timeout
        self._closed = False
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise DatabaseReadOnly(f"{path} cannot be written ({error}); name another folder") from error
        with self._guard:
            self._shared = self._known.setdefault(path.resolve(), _Shared(path.resolve()))
            self._shared.users += 1

    @contextlib.contextmanager
    def use(self, *, changing: bool) -> Iterator[ClientAPI]:
        """See `ChromaConnection.use`; pieces of work of one thread nest."""
        shared = self._shared
        if not shared.turn.acquire(timeout=self._timeout):
            raise self._busy()
        try:
            if self._closed:
                raise Closed(f"{self.place} is closed; open it again with jiyi.open()")
            with self._alone() if not shared.depth else contextlib.nullcontext():
                shared.depth += 1
                try:
                    with translated(self.place):
                        yield self._fresh(changing=changing)
                except StorageError as error:
                    if shared.depth == 1 and not isinstance(
                        error, CollectionMissing
                    ):  # what the index in memory is worth now nobody knows
                        shared.release()
                    raise
                finally:
                    shared.depth -= 1
        finally:
            shared.turn.release()

    def ping(self) -> None:
        """See `ChromaConnection.ping`."""
        with self.use(changing=False):
            pass

    def compact(self) -> bool:
        """See `ChromaConnection.compact`."""
        with self.use(changing=True):
            self._shared.release()
            try:
                database = apsw.Connection(str(self._shared.path / _DATABASE))
                database.set_busy_timeout(int(self._timeout * 1000))
                database.execute("VACUUM")
                database.close()
            except apsw.Error as error:
                raise StorageError(
                    f"{self.place}: Chroma's database could not be compacted ({error}); purge again"
                ) from error
        return True

    def close(self) -> None:
        """See `ChromaConnection.close`."""
        shared = self._shared
        with shared.turn, self._guard:
            if self._closed:
                return
            self._closed = True
            shared.users -= 1
            if not shared.users:
                shared.release()
                self._known.pop(shared.path, None)
            os.close(self._lock)

    def _fresh(self, *, changing: bool) -> ClientAPI:
        """Return a client that knows all changes; say to others that there will be one."""
        shared = self._shared
        os.lseek(self._lock, 0, os.SEEK_SET)
        changes = int.from_bytes(os.read(self._lock, _NUMBER), "big")
        if shared.client is None or changes != shared.seen:
            shared.release()
            shared.client = chromadb.PersistentClient(str(shared.path), settings=quiet())
        if changing:  # before it begins: a process killed in the middle has changed something too
            changes += 1
            os.lseek(self._lock, 0, os.SEEK_SET)
            os.write(self._lock, changes.to_bytes(_NUMBER, "big"))
        shared.seen = changes
        return shared.client

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        until = time.monotonic() + self._timeout
        while not _take(self._lock):
            if time.monotonic() > until:
                raise self._busy()
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            _give_back(self._lock)

    def _busy(self) -> DatabaseLocked:
        return DatabaseLocked(
            f"{self.place} was in use for more than {self._timeout:g} s; try again, raise lock_timeout, "
            "or run a server for many: chroma run, and set chroma_url"
        )


def _take(file: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, _NUMBER, os.SEEK_SET)  # behind the number, which must stay readable
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


def _give_back(file: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _NUMBER, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
