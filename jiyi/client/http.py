"""How requests travel: connections of httpx, kept open, for threads and for asyncio."""

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

from jiyi.client.asking import Answer, Ask, Lost, Steps
from jiyi.endpoint import Endpoint
from jiyi.errors import Closed, InputError, MissingExtra
from jiyi.forks import free_after_fork

if TYPE_CHECKING:
    import httpx

__all__ = ["AsyncConnections", "Connections"]

_T = TypeVar("_T")

_CONNECT = 5.0  # seconds for a connection
_PIECE = 1 << 16  # bytes of a file read at once


class Connections:
    """Takes the steps of calls, over connections of this process; a forked one opens its own."""

    def __init__(self, there: Endpoint) -> None:
        _check_package()
        self._there = there
        self._lock = free_after_fork(threading.Lock())
        self._clients: dict[int, httpx.Client] = {}
        self._closed = False

    def run(self, steps: Steps[_T]) -> _T:
        """Return what a call returns."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return cast("_T", end.value)
            reply = None
            if isinstance(step, Ask):
                try:
                    reply = self._send(step)
                except BaseException as error:  # a file that cannot be written, Ctrl-C
                    steps.throw(error)
                    raise
            else:
                time.sleep(step)

    def close(self) -> None:
        """Close the connections; what is asked after that raises `Closed`."""
        self._closed = True
        for client in self._clients.values():
            client.close()

    def _client(self) -> "httpx.Client":
        import httpx

        with self._lock:
            if self._closed:
                raise Closed("this memory was closed; connect again")
            if os.getpid() not in self._clients:
                self._clients = {os.getpid(): httpx.Client(**_options(self._there))}
            return self._clients[os.getpid()]

    def _send(self, ask: Ask) -> Answer | Lost:
        import httpx

        client = self._client()
        try:
            with client.stream(**_request(ask, self._there, _pieces)) as response:
                if ask.into is None or not response.is_success:
                    return _answer(response, response.read())
                ask.into.begin()
                for piece in response.iter_bytes():
                    ask.into.take(piece)
                return _answer(response, b"")
        except httpx.InvalidURL as error:
            raise InputError(f"an argument cannot be part of a URL: {error}") from error
        except httpx.HTTPError as error:
            return _lost(error)


class AsyncConnections:
    """The same for asyncio; each event loop has connections of its own."""

    def __init__(self, there: Endpoint) -> None:
        _check_package()
        self._there = there
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._closed = False

    async def run(self, steps: Steps[_T]) -> _T:
        """Return what a call returns."""
        reply: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                return cast("_T", end.value)
            reply = None
            if isinstance(step, Ask):
                try:
                    reply = await self._send(step)
                except BaseException as error:  # a file that cannot be written, Ctrl-C
                    steps.throw(error)
                    raise
            else:
                await asyncio.sleep(step)

    async def close(self) -> None:
        """Close the connections of this loop; what is asked after that raises `Closed`."""
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
            self._clients[loop] = httpx.AsyncClient(**_options(self._there))
        return self._clients[loop]

    async def _send(self, ask: Ask) -> Answer | Lost:
        import httpx

        client = self._client()
        try:
            async with client.stream(**_request(ask, self._there, _pieces_awaited)) as response:
                if ask.into is None or not response.is_success:
                    return _answer(response, await response.aread())
                ask.into.begin()
                async for piece in response.aiter_bytes():
                    ask.into.take(piece)
                return _answer(response, b"")
        except httpx.InvalidURL as error:
            raise InputError(f"an argument cannot be part of a URL: {error}") from error
        except httpx.HTTPError as error:
            return _lost(error)


def _check_package() -> None:
    if importlib.util.find_spec("httpx") is None:
        raise MissingExtra('a memory on a server needs an optional package: pip install "jiyi[client]"')


def _options(there: Endpoint) -> dict[str, Any]:
    import httpx

    key = {"authorization": f"Bearer {there.key}"} if there.has_key else {}
    timeout = httpx.Timeout(there.timeout, connect=min(there.timeout, _CONNECT))
    return {"headers": {"user-agent": "jiyi", **key}, "timeout": timeout, "follow_redirects": False}


def _request(ask: Ask, there: Endpoint, pieces: Any) -> dict[str, Any]:
    headers = dict(ask.headers)
    body = ask.body
    if isinstance(body, Path):
        headers["content-length"] = str(body.stat().st_size)
        body = pieces(body)
    url = there.url.rstrip("/") + ask.path
    return {"method": ask.method, "url": url, "params": ask.query, "content": body, "headers": headers}


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _PIECE), b"")


async def _pieces_awaited(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:  # opening is quick; reading may not be
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _answer(response: "httpx.Response", body: bytes) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status=response.status_code, headers=headers, body=body)


def _lost(error: Exception) -> Lost:
    import httpx

    slow = isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout | httpx.PoolTimeout)
    passing = isinstance(error, httpx.TransportError) and not slow
    return Lost(reason=f"{type(error).__name__} {error}".strip(), passing=passing, cause=error)
