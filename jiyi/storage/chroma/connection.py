"""A connection to where the collections are, and Chroma's errors in jiyi's own words."""

import contextlib
import re
import threading
from collections.abc import Iterator
from typing import Any, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import chromadb
import httpx
from chromadb.api import ClientAPI
from chromadb.config import Settings
from chromadb.errors import ChromaError, InvalidDimensionException, NotFoundError

from jiyi.errors import (
    Closed,
    DiskFull,
    EmbedderMismatch,
    IndexUnreachable,
    JiyiError,
    SettingsError,
    StorageError,
)

__all__ = ["ChromaConnection", "ChromaServer", "CollectionMissing", "quiet", "translated"]

_PORT = 8000
_DIMS = re.compile(r"dimension of (\d+), got (\d+)")


class ChromaConnection(Protocol):
    """Gives a client of Chroma."""

    place: str  # names it in messages

    def use(self, *, changing: bool) -> contextlib.AbstractContextManager[ClientAPI]:
        """Give a client for one piece of work.

        Args:
            changing: whether it writes.

        Raises:
            IndexUnreachable: there is none now.
            StorageError: it failed; says what to do.
        """
        ...

    def ping(self) -> None:
        """Make sure that it can be used now; raises as `use` does."""
        ...

    def compact(self) -> bool:
        """Overwrite what dropped rows left in Chroma's database; False where only its own machine can."""
        ...

    def close(self) -> None:
        """Release it. Closing twice is fine."""
        ...


class CollectionMissing(StorageError):
    """A collection that is not there."""


@contextlib.contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise what Chroma, the network and the disk raise inside as errors of `jiyi.errors`.

    Args:
        place: the folder or the server, for the message.
    """
    try:
        yield
    except JiyiError:
        raise
    except NotFoundError as error:
        raise CollectionMissing(
            f"{place}: {error}; vectors that are gone are made anew after: jiyi doctor --repair"
        ) from error
    except (ChromaError, httpx.HTTPError, ValueError, OSError, RuntimeError, TypeError) as error:
        raise _translate(error, place) from error


def quiet() -> Settings:
    """Return settings of a client that tells nobody anything, whatever the environment says."""
    return Settings(anonymized_telemetry=False, chroma_otel_collection_endpoint="")


class ChromaServer:
    """A Chroma server by its URL, for any number of processes and machines.

    No call takes longer than ``seconds``. It is not asked before it is used.
    """

    def __init__(self, url: str, *, seconds: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(f"chroma_url {url!r} is no address such as http://localhost:{_PORT}")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._tls else _PORT)
        self.place = f"{parts.scheme}://{self._host}:{self._port}"
        self._seconds = seconds
        self._lock = threading.Lock()
        self._client: ClientAPI | None = None
        self._closed = False

    @contextlib.contextmanager
    def use(self, *, changing: bool) -> Iterator[ClientAPI]:
        """See `ChromaConnection.use`."""
        del changing
        with translated(self.place):
            yield self._connected()

    def ping(self) -> None:
        """See `ChromaConnection.ping`."""
        with self.use(changing=False) as client:
            client.heartbeat()

    def compact(self) -> bool:
        """See `ChromaConnection.compact`."""
        return False

    def close(self) -> None:
        """See `ChromaConnection.close`."""
        with self._lock:
            client, self._client, self._closed = self._client, None, True
        if client is not None:
            _release(client)

    def _connected(self) -> ClientAPI:
        with self._lock:
            if self._closed:
                raise Closed(f"{self.place} is closed; open it again with jiyi.open()")
            if self._client is None:
                self._greet()
                self._client = chromadb.HttpClient(self._host, self._port, ssl=self._tls, settings=quiet())
                for session in _sessions(self._client):  # it would wait for ever
                    session.timeout = self._seconds
            return self._client

    def _greet(self) -> None:
        """Make sure that a server answers in time: making a client has no time limit."""
        opener = (
            build_opener(ProxyHandler({})) if self._host in ("localhost", "127.0.0.1") else build_opener()
        )
        try:
            opener.open(f"{self.place}/api/v2/heartbeat", timeout=self._seconds).close()
        except OSError as error:
            raise _unreachable(self.place, error) from error


def _sessions(client: ClientAPI) -> Iterator[Any]:
    """Give the HTTP sessions of a client, which has no public way to them."""
    for part in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(part, "_server", None), "_session", None)
        if session is not None:
            yield session


def _release(client: ClientAPI) -> None:
    sessions = list(_sessions(client))
    cast("Any", client).close()
    for session in sessions:
        session.close()


def _translate(error: Exception, place: str) -> Exception:
    dims = _DIMS.search(str(error))
    if dims or isinstance(error, InvalidDimensionException):
        held, got = dims.groups() if dims else ("other", "some")
        return EmbedderMismatch(
            f"{place} holds vectors of {held} numbers, these have {got}; "
            "open it with the embedder that made them"
        )
    words = str(error) or type(error).__name__
    if isinstance(error, httpx.TransportError) or "Could not connect" in words:
        return _unreachable(place, words)
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code >= 500:
        return IndexUnreachable(f"the Chroma server at {place} fails ({words}); look at its log")
    if "database or disk is full" in words or "No space left" in words:
        return DiskFull(f"no space left for {place}; free some space, the vectors follow then")
    return StorageError(f"Chroma at {place} failed ({words}); look for drift with: jiyi doctor")


def _unreachable(place: str, why: object) -> IndexUnreachable:
    return IndexUnreachable(
        f"no Chroma server answers at {place} ({why}); start it with: chroma run - "
        "what is saved meanwhile gets its vectors later, and words are searched without them"
    )
