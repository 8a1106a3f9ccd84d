"""What every request goes through: the host it names, the size of its body, the log and the metrics."""

import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jiyi.clock import utc_now
from jiyi.errors import Forbidden, InputError, JiyiError, RequestTooLarge
from jiyi.server.metrics import Metrics
from jiyi.wire import problem_of

__all__ = ["LOCAL_HOSTS", "Gate", "problem_body"]

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What a server without keys may be called: a page that a browser shows cannot get round it by DNS."""

_log = logging.getLogger("jiyi.server")
_IMPORT = "/v1/import"
_UNROUTED = "(none)"


class Gate:
    """ASGI middleware around the whole app.

    ``most_bytes`` limits a body, but for a file to be imported; ``hosts`` are the names the server may have,
    None for any; ``refusal`` makes the answer to a request that does not come through.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        most_bytes: float,
        hosts: Collection[str] | None,
        refusal: Callable[[Scope, JiyiError], ASGIApp],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._most = most_bytes
        self._hosts = hosts
        self._refusal = refusal
        self._paths: dict[Any, str] = {}  # of routes, by what answers there

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        scope.setdefault("state", {})
        if scope["path"].startswith("/v1/"):  # ids may hold slashes; they are decoded after the routing
            scope["path"] = scope["raw_path"].decode("latin-1")

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.begin()
        try:
            refused = self._refused(scope)
            if refused is not None:
                await self._refusal(scope, refused)(scope, receive, note)
                return
            await self._app(scope, self._limited(scope, receive), note)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _refused(self, scope: Scope) -> JiyiError | None:
        headers = dict(scope["headers"])
        if self._hosts is not None and _name(headers.get(b"host", b"")) not in self._hosts:
            return InputError(
                "a server without keys is asked as localhost only; make a key: jiyi keys create"
            )
        origin = headers.get(b"origin")
        if self._hosts is not None and origin and _name(origin.rpartition(b"/")[2]) not in self._hosts:
            return Forbidden("a page of another site may not ask a server without keys")
        length = headers.get(b"content-length", b"0")
        if scope["path"] != _IMPORT and length.isdigit() and int(length) > self._most:
            return self._too_large()
        return None

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        if scope["path"] == _IMPORT:
            return receive
        size = 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._most:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> RequestTooLarge:
        return RequestTooLarge(f"the body is larger than {self._most / 1e6:g} MB; send less at once")

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        if not self._paths and "app" in scope:
            self._paths = {getattr(r, "endpoint", None): getattr(r, "path", "") for r in scope["app"].routes}
        route = self._paths.get(scope.get("endpoint")) or _UNROUTED
        self._metrics.end(scope["method"], route, status, seconds)
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


def _name(place: bytes) -> str:
    """Return a host without its port."""
    host = place.decode("latin-1").lower()
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def problem_body(
    error: JiyiError, detail: str | None = None, *, status: int | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of the answer that an error is."""
    problem = problem_of(error, detail)
    if status is not None:
        problem = replace(problem, status=status)
    headers = {"content-type": "application/problem+json"}
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (429, 503):
        headers["retry-after"] = str(getattr(error, "retry_after", 1))
    return problem.status, json.dumps(problem.to_dict(), ensure_ascii=False).encode(), headers
