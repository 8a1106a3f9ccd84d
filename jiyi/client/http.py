"""Send requests over open connections of httpx, for threads and for asyncio."""

import asyncio
import importlib.util
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from jiyi.client.calls import NoResponse, Request, Response, Steps
from jiyi.endpoint import Endpoint
from jiyi.errors import Closed, InputError, MissingExtra
from jiyi.forks import free_after_fork

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncConnections", "Connections"]

_T = TypeVar("_T")

_CONNECT_SECONDS = 5.0  # to connect
_CHUNK_BYTES = 1 << 16  # of a file


class Connections:
    """Runs calls over connections of this process; a forked process opens its own."""

    def __init__(self, endpoint: Endpoint) -> None:
        _check_package()
        self._endpoint = endpoint
        self._lock = free_after_fork(threading.Lock())
        self._clients: dict[int, httpx.Client] = {}
        self._closed = False

    def run(self, steps: Steps[_T]) -> _T:
        """Run a call and return its result."""
        outcome: Response | NoResponse | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast("_T", end.value)
            outcome = None
            if isinstance(step, Request):
                try:
                    outcome = self._send(step)
                except BaseException as error:  # a file that cannot be written, Ctrl-C
                    steps.throw(error)
                    raise
            else:
                time.sleep(step)

    def close(self) -> None:
        """Close the connections; later requests raise `Closed`."""
        self._closed = True
        for client in self._clients.values():
            client.close()

    def _client(self) -> "httpx.Client":
        import httpx

        with self._lock:
            if self._closed:
                raise Closed("this memory was closed; connect again")
            if os.getpid() not in self._clients:
                self._clients = {os.getpid(): httpx.Client(**_client_options(self._endpoint))}
            return self._clients[os.getpid()]

    def _send(self, request: Request) -> Response | NoResponse:
        import httpx

        client = self._client()
        try:
            with client.stream(**_httpx_request(request, self._endpoint, _chunks)) as response:
                if request.sink is None or not response.is_success:
                    return _to_response(response, response.read())
                request.sink.restart()
                for chunk in response.iter_bytes():
                    request.sink.write(chunk)
                return _to_response(response, b"")
        except httpx.InvalidURL as error:
            raise InputError(f"an argument cannot be part of a URL: {error}") from error
        except httpx.HTTPError as error:
            return _no_response(error)


class AsyncConnections:
    """Runs calls in asyncio; each event loop has its own connections."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._closed = False

    async def run(self, steps: Steps[_T]) -> _T:
        """Run a call and return its result."""
        outcome: Response | NoResponse | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast("_T", end.value)
            outcome = None
            if isinstance(step, Request):
                try:
                    outcome = await self._send(step)
                except BaseException as error:  # a file that cannot be written, Ctrl-C
                    steps.throw(error)
                    raise
            else:
                await asyncio.sleep(step)

    async def close(self) -> None:
        """Close the connections of this loop; later requests raise `Closed`."""
        self._closed = True
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> "httpx.AsyncClient":
        import httpx

        if self._closed:
            raise Closed("this memory was closed; connect again")
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx.AsyncClient(**_client_options(self._endpoint))
        return self._clients[loop]

    async def _send(self, request: Request) -> Response | NoResponse:
        import httpx

        client = self._client()
        try:
            async with client.stream(**_httpx_request(request, self._endpoint, _async_chunks)) as response:
                if request.sink is None or not response.is_success:
                    return _to_response(response, await response.aread())
                request.sink.restart()
                async for chunk in response.aiter_bytes():
                    request.sink.write(chunk)
                return _to_response(response, b"")
        except httpx.InvalidURL as error:
            raise InputError(f"an argument cannot be part of a URL: {error}") from error
        except httpx.HTTPError as error:
            return _no_response(error)


def _check_package() -> None:
    if importlib.util.find_spec("httpx") is None:
        raise MissingExtra('a memory on a server needs an optional package: pip install "jiyi[client]"')


def _client_options(endpoint: Endpoint) -> dict[str, Any]:
    import httpx

    authorization = {"authorization": f"Bearer {endpoint.key}"} if endpoint.has_key else {}
    timeout = httpx.Timeout(endpoint.timeout, connect=min(endpoint.timeout, _CONNECT_SECONDS))
    return {"headers": {"user-agent": "jiyi", **authorization}, "timeout": timeout, "follow_redirects": False}


def _httpx_request(request: Request, endpoint: Endpoint, read_chunks: Any) -> dict[str, Any]:
    headers, body = dict(request.headers), request.body
    if isinstance(body, Path):
        headers["content-length"] = str(body.stat().st_size)
        body = read_chunks(body)
    url = endpoint.url.rstrip("/") + request.path
    parts = {"method": request.method, "url": url, "params": request.query}
    return parts | {"content": body, "headers": headers}


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")


async def _async_chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:  # opening is fast; reading may not be
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk


def _to_response(response: "httpx.Response", body: bytes) -> Response:
    return Response(status=response.status_code, headers=dict(response.headers), body=body)


def _no_response(error: Exception) -> NoResponse:
    import httpx

    timed_out = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
    retryable = isinstance(error, httpx.TransportError) and not timed_out
    return NoResponse(reason=f"{type(error).__name__} {error}".strip(), retryable=retryable, cause=error)
