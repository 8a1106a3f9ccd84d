"""Calls to a server without input and output, shared by the sync and the async client.

A call is a generator. It yields a `Request` to send, or the seconds to wait; it receives the `Response`, or
a `NoResponse` with the reason; it returns the result of the call.
"""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, Literal, Protocol, TypeVar, cast

from typing_extensions import TypedDict

from jiyi.endpoint import Endpoint
from jiyi.errors import JiyiError, NotFound, ServerError, ServerUnreachable
from jiyi.wire import MARK, adapter, error_of

__all__ = ["NoResponse", "Request", "Response", "Sink", "Steps", "decode", "run_job", "send"]

_T = TypeVar("_T")

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
    sink: "Sink | None" = None  # receives the body of a successful response in chunks


class Sink(Protocol):
    """Receives a long response in chunks; each attempt restarts it."""

    def restart(self) -> None:
        """Discard what was written."""

    def write(self, chunk: bytes) -> None:
        """Write the next chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete response."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # empty if a sink received it


@dataclass(frozen=True, slots=True, kw_only=True)
class NoResponse:
    """The failure of a request without a response."""

    reason: str
    retryable: bool  # whether another attempt may succeed
    cause: Exception


Steps = Generator[Request | float, Response | NoResponse | None, _T]


def send(request: Request, endpoint: Endpoint) -> Steps[Response]:
    """Send a request until it succeeds, with at most ``retries`` further attempts after pauses.

    Writes carry an ``Idempotency-Key``, so that they are done once however often they are sent. Errors of
    the server are raised as the `JiyiError` they name; without any response, `ServerUnreachable` is.
    """
    retry = 0
    while True:
        outcome = yield request
        error = _error(outcome, endpoint)
        if error is None:
            return cast("Response", outcome)
        pause = _pause(request, outcome, retry)
        if pause is None or retry >= endpoint.retries:
            raise error from (endpoint.shareable(outcome.cause) if isinstance(outcome, NoResponse) else None)
        yield pause
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


def _error(outcome: Response | NoResponse | None, endpoint: Endpoint) -> JiyiError | None:
    shown = endpoint.shown
    if not isinstance(outcome, Response):
        reason = endpoint.short(outcome.reason if outcome else "")
        return ServerUnreachable(f"{shown} could not be asked ({reason}): check that it runs")
    if 200 <= outcome.status < 300 and MARK in outcome.headers:
        return None
    if "problem+json" in outcome.headers.get("content-type", ""):
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            return error_of(json.loads(outcome.body))
    if 300 <= outcome.status < 400:
        location = endpoint.short(outcome.headers.get("location", ""))
        return ServerError(f"{shown} sends on to {location}, which is not followed: give that address")
    text = endpoint.short(outcome.body.decode("utf-8", "replace"))
    return ServerError(f"{shown} answered {outcome.status} ({text}), not as jiyi does: check the address")


def _pause(request: Request, outcome: Response | NoResponse | None, retry: int) -> float | None:
    """Return the seconds to wait before another attempt, None if none may succeed."""
    if isinstance(outcome, Response):
        unsafe = outcome.status == _GATEWAY_TIMEOUT and "idempotency-key" not in request.headers
        if unsafe or outcome.status not in _RETRIED_STATUSES:
            return None
        try:
            seconds = float(outcome.headers["retry-after"])
        except (KeyError, ValueError):
            pass
        else:
            return seconds if 0 <= seconds <= _MAX_RETRY_AFTER else None
    elif outcome is None or not outcome.retryable:
        return None
    return min(_MIN_PAUSE * 2.0**retry, _MAX_PAUSE) * _RANDOM.uniform(0.75, 1)


class _Job(TypedDict):
    id: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: list[Any]
    result: Any
    problem: dict[str, Any] | None


_MAX_JOB_STARTS = 3  # a restarted server has lost its jobs; they can be started again


def run_job(request: Request, endpoint: Endpoint, progress: Callable[..., object] | None) -> Steps[Any]:
    """Start a job, call ``progress`` with its progress, and return its result as JSON values.

    Raises:
        JiyiError: the job failed with it.
    """
    for _ in range(_MAX_JOB_STARTS):
        response = yield from send(request, endpoint)
        events = _JobEvents(decode(_Job, response.body, endpoint), progress, endpoint)
        try:
            while events.job["state"] not in ("done", "failed"):
                yield from _follow_job(f"/v1/jobs/{events.job['id']}", events, endpoint)
        except NotFound as error:
            lost = error
            continue
        if events.job["problem"] is not None:
            raise error_of(events.job["problem"])
        return events.job["result"]
    raise lost


def _follow_job(path: str, events: "_JobEvents", endpoint: Endpoint) -> Steps[None]:
    """Follow the events of a job; if the connection fails, fetch its state once."""
    try:
        yield from send(Request(method="GET", path=f"{path}/events", sink=events), endpoint)
    except ServerUnreachable:
        response = yield from send(Request(method="GET", path=path), endpoint)
        events.update(decode(_Job, response.body, endpoint))


class _JobEvents:
    """The state of a job, updated by its events."""

    def __init__(self, job: _Job, progress: Callable[..., object] | None, endpoint: Endpoint) -> None:
        self._progress = progress
        self._endpoint = endpoint
        self._progress_values: list[Any] = []
        self._partial_line = b""
        self.update(job)

    def update(self, job: _Job) -> None:
        self.job = job
        if job["progress"] != self._progress_values:
            self._progress_values = job["progress"]
            if self._progress is not None:
                self._progress(*self._progress_values)

    def restart(self) -> None:
        self._partial_line = b""

    def write(self, chunk: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + chunk).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self.update(decode(_Job, line[5:], self._endpoint))
