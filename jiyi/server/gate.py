"""Middleware for every request: checks host and body size, writes log and metrics, answers failures.

Metrics are those of one process, as Prometheus reads them (text format 0.0.4).
"""

import asyncio
import json
import logging
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jiyi.clock import utc_now
from jiyi.endpoint import skipped_endpoints
from jiyi.errors import Forbidden, InputError, JiyiError, RequestTooLarge, ServerError, ServerUnreachable
from jiyi.monitor.export import Sample, metric_text
from jiyi.server.keys import Keys
from jiyi.wire import MARK, problem_of

CLIENT_LEFT = 499  # the status of a request whose client left, in log and metrics

OPENAI = "/openai/v1"
"""What the proxy's paths begin with."""

_log = logging.getLogger("jiyi.server")
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")  # of a server without keys: against DNS rebinding
_IMPORT_PATH = "/v1/import"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counts requests; labels are methods and routes, never ids. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open_requests = 0
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._buckets: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)

    def begin(self) -> None:
        """Count a request that has begun."""
        with self._lock:
            self._open_requests += 1

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count the answer to a request."""
        labels = (method if method in _METHODS else "(other)", route)
        with self._lock:
            self._open_requests -= 1
            self._answers[*labels, status] += 1
            self._buckets[labels][bisect_left(_BOUNDS, seconds)] += 1
            self._sums[labels] += seconds

    def text(self) -> str:
        """Return all metrics as text."""
        with self._lock:
            answers = [
                ("", {"method": method, "route": route, "status": str(status)}, count)
                for (method, route, status), count in self._answers.items()
            ]
            open_requests: Sequence[Sample] = [("", {}, self._open_requests)]
            seconds = list(self._histogram_samples())
        skipped: Sequence[Sample] = [("", {}, len(skipped_endpoints()))]
        skipped_help = "Endpoints of models that are skipped, having failed."
        duration_help = "Time from a request's head to its answer's last byte."
        text = metric_text("http_requests_in_hand", "gauge", "Requests being answered.", open_requests)
        text += metric_text("http_answers", "counter", "Answers.", answers)
        text += metric_text("endpoints_skipped", "gauge", skipped_help, skipped)
        return text + metric_text("http_request_seconds", "histogram", duration_help, seconds)

    def _histogram_samples(self) -> Iterator[Sample]:
        for (method, route), counts in self._buckets.items():
            labels, total = {"method": method, "route": route}, 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), counts, strict=True):
                total += count
                yield "_bucket", {**labels, "le": bound}, total
            yield "_sum", labels, self._sums[method, route]
            yield "_count", labels, total


@dataclass(eq=False)
class Gate:
    """ASGI middleware around the whole app."""

    app: ASGIApp
    metrics: Metrics
    max_bytes: float  # of a body, except for imports
    keys: Keys | None  # while there are none, other hosts and pages are refused; None: they never are
    refusal: Callable[[Scope, JiyiError], ASGIApp]  # makes the answer to a refused request
    paths: dict[Any, str] = field(default_factory=dict)  # of routes, by endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on, answer it if that fails, and log its status."""
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
            await self._check_request(scope)
            await self.app(scope, self._limit_body(scope, receive), send_noted)
        except ClientDisconnect:
            status = status or CLIENT_LEFT
        except (Exception, asyncio.CancelledError) as error:
            if status:  # the answer has begun: the connection is cut
                raise
            if isinstance(error, asyncio.CancelledError):  # `server_stop_seconds` are over
                error = ServerUnreachable("the server stops; ask again with the same Idempotency-Key")
            elif not isinstance(error, JiyiError):
                _log.exception("a request failed")
                error = ServerError("the server failed; its log says why")
            await self.refusal(scope, error)(scope, receive, send_noted)
        finally:
            self._log_request(scope, status, time.perf_counter() - started)

    async def _check_request(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        stranger = self.keys and _find_stranger(headers)
        if self.keys and stranger and not await anyio.to_thread.run_sync(self.keys.needed):
            raise stranger
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.max_bytes and scope["path"] != _IMPORT_PATH:
            raise self._too_large_error()

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
        route = self.paths.get(scope.get("endpoint")) or "(none)"
        self.metrics.end(scope["method"], route, status, seconds)
        caller = scope["state"].get("caller")
        line = {"time": utc_now().isoformat(), "method": scope["method"], "route": route, "status": status}
        whose = {"tenant": caller.tenant if caller else "", "key": caller.key if caller else ""}
        _log.info(json.dumps({**line, "ms": round(seconds * 1000, 1), **whose}))


def _find_stranger(headers: Mapping[bytes, bytes]) -> JiyiError | None:
    """Return why a server without keys refuses a request: for another host, or by another site's page."""
    if _host_name(headers.get(b"host", b"")) not in _LOCAL_HOSTS:
        return InputError("a server without keys is asked as localhost only; make a key: jiyi keys create")
    origin = headers.get(b"origin")
    if origin and _host_name(origin.rpartition(b"/")[2]) not in _LOCAL_HOSTS:
        return Forbidden("a page of another site may not ask a server without keys")
    return None


def _host_name(address: bytes) -> str:
    host = address.decode("latin-1").lower()
    return host if host.endswith("]") else host.rpartition(":")[0] or host


def problem_response(error: JiyiError, detail: str | None = None, **fields: Any) -> Response:
    """Return the answer for an error; ``fields`` of its problem are these."""
    problem = problem_of(error, detail) | fields
    status, headers = problem["status"], dict[str, str]()
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (429, 503):
        headers["retry-after"] = str(getattr(error, "retry_after", 1))
    return Response(json.dumps(problem, ensure_ascii=False), status, headers, "application/problem+json")


def openai_failure(
    status: int, message: str, kind: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error in the form of OpenAI's API."""
    error = {"message": message, "type": kind, "param": None, "code": kind}
    return JSONResponse({"error": error}, status, headers)
