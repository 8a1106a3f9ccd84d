"""Calls to a server: connections of httpx for threads and for asyncio, attempts, and jobs.

A call is a coroutine over `Connections` or `AsyncConnections`; over the former it never suspends.
"""

import asyncio
import importlib.util
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast
from weakref import WeakKeyDictionary

from typing_extensions import TypedDict

from jiyi.endpoint import Endpoint
from jiyi.errors import Closed, InputError, JiyiError, MissingExtra, NotFound, ServerError, ServerUnreachable
from jiyi.forks import free_after_fork
from jiyi.wire import MARK, adapter, error_of

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")

_CONNECT_SECONDS = 5.0  # to connect
_CHUNK_BYTES = 1 << 16  # of a file
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})  # another attempt may succeed
_GATEWAY_TIMEOUT = 504  # the server may still be at it: retried only with an idempotency key
_MAX_RETRY_AFTER = 60.0  # seconds; a server that asks for more is not retried
_MIN_PAUSE, _MAX_PAUSE = 0.2, 8.0  # seconds between attempts, doubled each time
_RANDOM = SystemRandom()  # independent of a seed that the program sets


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the server."""

    method: str
    path: str  # below the address of the server, quoted
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  # bytes, or the path of a file
    headers: Mapping[str, str] = field(default_factory=dict)
    sink: Callable[[], Callable[[bytes], object]] | None = None
    """Called at each attempt; what it returns gets the body of a successful response in chunks."""

    def to_httpx(self, endpoint: Endpoint, read_chunks: Callable[[Path], Any]) -> dict[str, Any]:
        """Return the arguments of httpx that send it once."""
        headers, body = dict(self.headers), self.body
        if isinstance(body, Path):
            headers["content-length"] = str(body.stat().st_size)
            body = read_chunks(body)
        url = endpoint.url.rstrip("/").removesuffix("/v1") + self.path  # the REST API's address will do
        return {"method": self.method, "url": url, "params": self.query, "content": body, "headers": headers}


class Connections:
    """Open connections of this process; a forked process opens its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise MissingExtra('a memory on a server needs an optional package: pip install "jiyi[client]"')
        self.endpoint = endpoint
        self._lock = free_after_fork(threading.Lock())
        self._clients: dict[int, httpx.Client] = {}
        self._closed = False

    def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Run a call and return its result."""
        try:
            call.send(None)
        except StopIteration as end:
            return cast("_T", end.value)
        raise AssertionError("a call suspends over connections of asyncio only")

    def close(self) -> None:
        """Close the connections; later requests raise `Closed`."""
        self._closed = True
        for client in self._clients.values():
            client.close()

    async def sleep(self, seconds: float) -> None:
        """Wait before another attempt."""
        time.sleep(seconds)

    async def fetch(self, request: Request) -> "httpx.Response":
        """Send a request once; `httpx.HTTPError`: there is no complete response."""
        with self._client().stream(**request.to_httpx(self.endpoint, _read_chunks)) as response:
            if request.sink is None or not _is_of_jiyi(response):
                response.read()
            else:
                write = request.sink()
                for chunk in response.iter_bytes():
                    write(chunk)
            return response

    def _client(self) -> "httpx.Client":
        import httpx

        with self._lock:
            if self._closed:
                raise Closed("this memory was closed; connect again")
            if os.getpid() not in self._clients:
                self._clients = {os.getpid(): httpx.Client(**_client_options(self.endpoint))}
            return self._clients[os.getpid()]


class AsyncConnections:
    """The same for asyncio; each event loop has its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.sleep = asyncio.sleep
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._closed = False

    async def close(self) -> None:
        """Close the connections of this loop; later requests raise `Closed`."""
        self._closed = True
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    async def fetch(self, request: Request) -> "httpx.Response":
        """Send a request once; `httpx.HTTPError`: there is no complete response."""
        async with self._client().stream(**request.to_httpx(self.endpoint, _read_chunks_async)) as response:
            if request.sink is None or not _is_of_jiyi(response):
                await response.aread()
            else:
                write = request.sink()
                async for chunk in response.aiter_bytes():
                    write(chunk)
            return response

    def _client(self) -> "httpx.AsyncClient":
        import httpx

        if self._closed:
            raise Closed("this memory was closed; connect again")
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(**_client_options(self.endpoint))
        return self._clients[loop]


def _client_options(endpoint: Endpoint) -> dict[str, Any]:
    import httpx

    authorization = {"authorization": f"Bearer {endpoint.key}"} if endpoint.has_key else {}
    timeout = httpx.Timeout(endpoint.timeout, connect=min(endpoint.timeout, _CONNECT_SECONDS))
    return {"headers": {"user-agent": "jiyi", **authorization}, "timeout": timeout, "follow_redirects": False}


def _read_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")


async def _read_chunks_async(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:  # opening is fast; reading may not be
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk


async def send(request: Request, connections: Connections | AsyncConnections) -> "httpx.Response":
    """Send a request until it succeeds, with at most ``retries`` further attempts after pauses.

    Writes carry an ``Idempotency-Key``, so that they are done once however often they are sent. Errors of
    the server are raised as the `JiyiError` they name; without any response, `ServerUnreachable` is.
    """
    import httpx

    endpoint, retry = connections.endpoint, 0
    while True:
        cause: httpx.HTTPError | None = None
        try:
            response = await connections.fetch(request)
            if _is_of_jiyi(response):
                return response
            error, pause = _read_error(response, endpoint), _pause_after(response, request, retry)
        except httpx.InvalidURL as invalid:
            raise InputError(f"an argument cannot be part of a URL: {invalid}") from invalid
        except httpx.HTTPError as failure:
            cause, reason = failure, endpoint.short(f"{type(failure).__name__} {failure}")
            error = ServerUnreachable(f"{endpoint.shown} could not be asked ({reason}): check that it runs")
            timed_out = isinstance(failure, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
            pause = _backoff(retry) if isinstance(failure, httpx.TransportError) and not timed_out else None
        if pause is None or retry >= endpoint.retries:
            raise error from (cause and endpoint.shareable(cause))
        await connections.sleep(pause)
        retry += 1


def decode(result_type: Any, data: Any, endpoint: Endpoint) -> Any:
    """Validate a result, as JSON bytes or parsed values; raise `ServerError` if it has another form."""
    try:
        converter = adapter(result_type)
        return converter.validate_json(data) if isinstance(data, bytes) else converter.validate_python(data)
    except (ValueError, JiyiError) as error:
        text = endpoint.short(str(error))
        message = f"did not answer as this jiyi knows ({text}): check the address and both versions"
        raise ServerError(f"{endpoint.shown} {message}") from endpoint.shareable(error)


def _is_of_jiyi(response: "httpx.Response") -> bool:
    return response.is_success and MARK in response.headers


def _read_error(response: "httpx.Response", endpoint: Endpoint) -> JiyiError:
    if "problem+json" in response.headers.get("content-type", ""):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return error_of(json.loads(response.content))
    if response.is_redirect:
        location = endpoint.short(response.headers.get("location", ""))
        what = f"sends on to {location}, which is not followed: give that address"
    else:
        answer = f"{response.status_code} ({endpoint.short(response.text)})"
        what = f"answered {answer}, not as jiyi does: check the address"
    return ServerError(f"{endpoint.shown} {what}")


def _pause_after(response: "httpx.Response", request: Request, retry: int) -> float | None:
    """Return the seconds to wait before another attempt, None if none may succeed."""
    unsafe = response.status_code == _GATEWAY_TIMEOUT and "idempotency-key" not in request.headers
    if unsafe or response.status_code not in _RETRIED_STATUSES:
        return None
    try:
        seconds = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return _backoff(retry)
    return seconds if 0 <= seconds <= _MAX_RETRY_AFTER else None


def _backoff(retry: int) -> float:
    return min(_MIN_PAUSE * 2.0**retry, _MAX_PAUSE) * _RANDOM.uniform(0.75, 1)


class _Job(TypedDict):
    id: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: list[Any]
    result: Any
    problem: dict[str, Any] | None


_MAX_JOB_STARTS = 3  # a restarted server has lost its jobs; they can be started again


async def run_job(
    request: Request, connections: Connections | AsyncConnections, progress: Callable[..., object] | None
) -> Any:
    """Start a job, call ``progress`` with its progress, and return its result as JSON values."""
    for _ in range(_MAX_JOB_STARTS):
        response = await send(request, connections)
        events = _JobEvents(response.content, progress, connections.endpoint)
        path = f"/v1/jobs/{events.job['id']}"
        try:
            while events.job["state"] not in ("done", "failed"):
                try:
                    await send(Request(method="GET", path=f"{path}/events", sink=events.begin), connections)
                except ServerUnreachable:  # the connection broke: look how far it is
                    events.update((await send(Request(method="GET", path=path), connections)).content)
        except NotFound as error:
            lost = error
            continue
        if events.job["problem"] is not None:
            raise error_of(events.job["problem"])
        return events.job["result"]
    raise lost


class _JobEvents:
    """The state of a job, updated by its events."""

    def __init__(self, job: bytes, progress: Callable[..., object] | None, endpoint: Endpoint) -> None:
        self._progress = progress
        self._endpoint = endpoint
        self._shown: list[Any] = []
        self.update(job)

    def update(self, data: bytes) -> None:
        self.job: _Job = decode(_Job, data, self._endpoint)
        former, self._shown = self._shown, self.job["progress"]
        if self._progress is not None and self._shown != former:
            self._progress(*self._shown)

    def begin(self) -> Callable[[bytes], None]:
        self._partial_line = b""
        return self._write

    def _write(self, chunk: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self.update(line[5:])
