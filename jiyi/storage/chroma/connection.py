"""Connections to Chroma, on a server or in a folder of this machine, and its errors in jiyi's own words."""

import contextlib
import errno
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import apsw
import chromadb
import httpx
from chromadb.api import ClientAPI
from chromadb.config import Settings
from chromadb.errors import ChromaError, InvalidDimensionException, NotFoundError

from jiyi import errors

_PORT = 8000
_LOCK = "jiyi.lock"
_DATABASE = "chroma.sqlite3"
_SECONDS = 30.0  # most that a call to a server may take
_PAUSE = 0.005  # seconds between two looks at a lock
_NUMBER = 8  # bytes of the count of changes
_DIMS = re.compile(r"dimension of (\d+), got (\d+)")


class CollectionMissing(errors.StorageError):
    """A collection that does not exist."""


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Translate errors of Chroma, the network and the disk in the block; ``place`` is for the message."""
    try:
        yield
    except errors.JiyiError:
        raise
    except NotFoundError as error:
        advice = "vectors that are gone are made again after: jiyi doctor --repair"
        raise CollectionMissing(f"{place}: {error}; {advice}") from error
    except (ChromaError, httpx.HTTPError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise _translate(error, place) from error


def _quiet() -> Settings:
    """Return settings of a client without telemetry, whatever the environment says."""
    return Settings(anonymized_telemetry=False, chroma_otel_collection_endpoint="")


class ChromaServer:
    """A Chroma server by URL, for any number of processes and machines.

    No call takes longer than 30 seconds. It connects when it is first used.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.SettingsError(f"chroma_url {url!r} is no address such as http://localhost:{_PORT}")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else _PORT)
        self.place = f"{parts.scheme}://{self._host}:{self._port}"
        self._lock = threading.Lock()
        self._client: ClientAPI | None = None
        self._closed = False

    @contextlib.contextmanager
    def use(self, *, changing: bool) -> Iterator[ClientAPI]:
        """Return a context with a client; ``changing``: the block writes.

        Raises `IndexUnreachable` if the server does not answer, `StorageError` if it fails.
        """
        with translated(self.place):
            yield self._connected()

    def ping(self) -> None:
        """Check that it can be used now; raises as `use` does."""
        with self.use(changing=False) as client:
            client.heartbeat()

    def compact(self) -> bool:
        """Overwrite what dropped rows left in Chroma's database; return whether that was possible."""
        return False

    def close(self) -> None:
        """Close it. Closing twice is fine."""
        with self._lock:
            client, self._client, self._closed = self._client, None, True
        if client is not None:
            sessions = list(_sessions(client))
            cast("Any", client).close()
            for session in sessions:
                session.close()

    def _connected(self) -> ClientAPI:
        with self._lock:
            if self._closed:
                raise errors.Closed(f"{self.place} is closed; open it again with jiyi.open()")
            if self._client is None:
                self._greet()
                self._client = chromadb.HttpClient(self._host, self._port, ssl=self._tls, settings=_quiet())
                for session in _sessions(self._client):  # the default is no time limit
                    session.timeout = _SECONDS
            return self._client

    def _greet(self) -> None:
        """Check that a server answers: creating a client has no time limit."""
        handlers = [ProxyHandler({})] if self._host in ("localhost", "127.0.0.1") else []
        try:
            build_opener(*handlers).open(f"{self.place}/api/v2/heartbeat", timeout=_SECONDS).close()
        except OSError as error:
            raise _unreachable(self.place, error) from error


def _sessions(client: ClientAPI) -> Iterator[Any]:
    """Yield the HTTP sessions of a client, which are not public."""
    for part in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(part, "_server", None), "_session", None)
        if session is not None:
            yield session


def _translate(error: Exception, place: str) -> Exception:
    dims = _DIMS.search(str(error))
    if dims or isinstance(error, InvalidDimensionException):
        held, got = dims.groups() if dims else ("other", "some")
        advice = "open it with the embedder that made them"
        return errors.EmbedderMismatch(f"{place} holds vectors of {held} numbers, these have {got}; {advice}")
    words = str(error) or type(error).__name__
    if isinstance(error, httpx.TransportError) or "Could not connect" in words:
        return _unreachable(place, words)
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code >= 500:
        return errors.IndexUnreachable(f"the Chroma server at {place} fails ({words}); look at its log")
    if "database or disk is full" in words or "No space left" in words:
        return errors.DiskFull(f"no space left for {place}; free some space, the vectors follow then")
    return errors.StorageError(f"Chroma at {place} failed ({words}); look for drift with: jiyi doctor")


def _unreachable(place: str, why: object) -> errors.IndexUnreachable:
    return errors.IndexUnreachable(
        f"no Chroma server answers at {place} ({why}); start it with: chroma run - "
        "what is saved meanwhile gets its vectors later, and words are searched without them"
    )


class _SharedFolder:
    """One folder in this process, of which Chroma keeps one index in memory for all connections."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.turn = threading.RLock()
        self.client: ClientAPI | None = None
        self.seen = -1  # count of changes when the client was created or last changed something
        self.depth = 0

    def release(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            cast("Any", client).close()


class ChromaFolder:
    """A folder with Chroma's files, used by one process at a time.

    Chroma reads its index into memory and does not notice what another process writes; two writing
    processes damage it. So every `use` holds a lock on a file in the folder, and opens the folder
    again if other processes wrote since. All processes must open the folder through jiyi.
    """

    _folders: ClassVar[dict[Path, _SharedFolder]] = {}
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path, *, lock_timeout: float = 5.0) -> None:
        """Create the folder if there is none; ``lock_timeout``: seconds to wait for another process."""
        self.place = str(path)
        self._timeout = lock_timeout
        self._closed = False
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            problem = f"{path} cannot be written ({error})"
            raise errors.DatabaseReadOnly(f"{problem}; name another folder") from error
        with self._guard:
            self._shared = self._folders.setdefault(path.resolve(), _SharedFolder(path.resolve()))
            self._shared.users += 1

    @contextlib.contextmanager
    def use(self, *, changing: bool) -> Iterator[ClientAPI]:
        """See `ChromaServer.use`; blocks of one thread nest."""
        shared = self._shared
        if not shared.turn.acquire(timeout=self._timeout):
            raise self._busy()
        try:
            if self._closed:
                raise errors.Closed(f"{self.place} is closed; open it again with jiyi.open()")
            with self._file_lock() if not shared.depth else contextlib.nullcontext():
                shared.depth += 1
                try:
                    with translated(self.place):
                        yield self._current_client(changing=changing)
                except errors.StorageError as error:
                    # The index in memory may be wrong now.
                    if shared.depth == 1 and not isinstance(error, CollectionMissing):
                        shared.release()
                    raise
                finally:
                    shared.depth -= 1
        finally:
            shared.turn.release()

    def ping(self) -> None:
        with self.use(changing=False):
            pass

    def compact(self) -> bool:
        with self.use(changing=True):
            self._shared.release()
            try:
                database = apsw.Connection(str(self._shared.path / _DATABASE))
                database.set_busy_timeout(int(self._timeout * 1000))
                database.execute("VACUUM")
                database.close()
            except apsw.Error as error:
                problem = f"{self.place}: Chroma's database could not be compacted ({error})"
                raise errors.StorageError(f"{problem}; purge again") from error
        return True

    def close(self) -> None:
        shared = self._shared
        with shared.turn, self._guard:
            if self._closed:
                return
            self._closed = True
            shared.users -= 1
            if not shared.users:
                shared.release()
                self._folders.pop(shared.path, None)
            os.close(self._lock)

    def _current_client(self, *, changing: bool) -> ClientAPI:
        """Return a client that has seen all changes; announce a change to other processes."""
        shared = self._shared
        os.lseek(self._lock, 0, os.SEEK_SET)
        changes = int.from_bytes(os.read(self._lock, _NUMBER), "big")
        if shared.client is None or changes != shared.seen:
            shared.release()
            shared.client = chromadb.PersistentClient(str(shared.path), settings=_quiet())
        if changing:  # before the change: a process killed in the middle has changed something too
            changes += 1
            os.lseek(self._lock, 0, os.SEEK_SET)
            os.write(self._lock, changes.to_bytes(_NUMBER, "big"))
        shared.seen = changes
        return shared.client

    @contextlib.contextmanager
    def _file_lock(self) -> Iterator[None]:
        until = time.monotonic() + self._timeout
        while True:
            try:
                _set_lock(self._lock, True)
                break
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                    raise
                if time.monotonic() > until:
                    raise self._busy() from error
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            _set_lock(self._lock, False)

    def _busy(self) -> errors.DatabaseLocked:
        advice = "try again, raise lock_timeout, or run a server for many: chroma run, and set chroma_url"
        return errors.DatabaseLocked(f"{self.place} was in use for more than {self._timeout:g} s; {advice}")


def _set_lock(file: int, held: bool) -> None:
    """Lock a file for this process, or unlock it; raises `OSError` if another process has locked it."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(file, _NUMBER, os.SEEK_SET)  # after the number, which must stay readable
        msvcrt.locking(file, msvcrt.LK_NBLCK if held else msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if held else fcntl.LOCK_UN)


ChromaConnection = ChromaServer | ChromaFolder
"""A source of Chroma clients."""
