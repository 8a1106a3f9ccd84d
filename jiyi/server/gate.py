"""Middleware for every request: checks host and body size, and writes log and metrics."""

import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jiyi.clock import utc_now
from jiyi.errors import Forbidden, InputError, JiyiError, RequestTooLarge
from jiyi.server.metrics import Metrics
from jiyi.wire import MARK, problem_of

__all__ = ["LOCAL_HOSTS", "Gate", "problem_response"]

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""The host names of a server without keys, which protect it against DNS rebinding by web pages."""

_log = logging.getLogger("jiyi.server")
_IMPORT_PATH = "/v1/import"
_NO_ROUTE = "(none)"


@dataclass(eq=False)
class Gate:
    """ASGI middleware around the whole app."""

    app: ASGIApp
    metrics: Metrics
    max_bytes: float  # of a body, except for imports
    hosts: Collection[str] | None  # allowed host names, None for any
    refusal: Callable[[Scope, JiyiError], ASGIApp]  # makes the answer to a refused request
    paths: dict[Any, str] = field(default_factory=dict)  # of routes, by endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, and log its status."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        scope.setdefault("state", {})
        if scope["path"].startswith("/v1/"):  # ids may hold slashes; they are decoded after the routing
            scope["path"] = scope["raw_path"].decode("latin-1")

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if scope["path"].startswith("/v1/"):
                    message = {**message, "headers": [*message["headers"], (MARK.encode(), b"1")]}
            await send(message)

        self.metrics.begin()
        try:
            error = self._check_request(scope)
            if error is not None:
                await self.refusal(scope, error)(scope, receive, send_noted)
                return
            await self.app(scope, self._limit_body(scope, receive), send_noted)
        finally:
            self._log_request(scope, status, time.perf_counter() - started)

    def _check_request(self, scope: Scope) -> JiyiError | None:
        headers = dict(scope["headers"])
        if self.hosts is not None and _host_name(headers.get(b"host", b"")) not in self.hosts:
            return InputError(
                "a server without keys is asked as localhost only; make a key: jiyi keys create"
            )
        origin = headers.get(b"origin")
        if self.hosts is not None and origin and _host_name(origin.rpartition(b"/")[2]) not in self.hosts:
            return Forbidden("a page of another site may not ask a server without keys")
        length = headers.get(b"content-length", b"0")
        if scope["path"] != _IMPORT_PATH and length.isdigit() and int(length) > self.max_bytes:
            return self._too_large_error()
        return None

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        if scope["path"] == _IMPORT_PATH:
            return receive
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.max_bytes:
                raise self._too_large_error()
            return message

        return limited

    def _too_large_error(self) -> RequestTooLarge:
        return RequestTooLarge(f"the body is larger than {self.max_bytes / 1e6:g} MB; send less at once")

    def _log_request(self, scope: Scope, status: int, seconds: float) -> None:
        if not self.paths and "app" in scope:
            self.paths = {getattr(r, "endpoint", None): getattr(r, "path", "") for r in scope["app"].routes}
        route = self.paths.get(scope.get("endpoint")) or _NO_ROUTE
        self.metrics.end(scope["method"], route, status, seconds)
        caller = scope["state"].get("caller")
        line = {
            "time": utc_now().isoformat(),
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "tenant": caller.tenant if caller else "",
            "key": caller.key if caller else "",
        }
        _log.info(json.dumps(line))


def _host_name(address: bytes) -> str:
    """Return a host without its port."""
    host = address.decode("latin-1").lower()
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def problem_response(
    error: JiyiError, detail: str | None = None, **fields: Any
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of the answer for an error; ``fields`` of its problem are these."""
    problem = replace(problem_of(error, detail), **fields)
    headers = {"content-type": "application/problem+json"}
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (429, 503):
        headers["retry-after"] = str(getattr(error, "retry_after", 1))
    return problem.status, json.dumps(problem.to_dict(), ensure_ascii=False).encode(), headers
