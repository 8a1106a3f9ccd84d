"""What is sent to a server and what comes back, apart from how: used by the sync and the async client.

A call is a generator. It yields what to send, as an `Ask`, or how long to wait, in seconds; it is
given the `Answer`, or the `Lost` that says why there is none; it returns what the caller gets.
"""

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, Literal, Protocol, TypeVar, cast

from typing_extensions import TypedDict

from jiyi.endpoint import Endpoint
from jiyi.errors import JiyiError, NotFound, ServerError, ServerUnreachable
from jiyi.wire import adapter, error_of

__all__ = ["Answer", "Ask", "Lost", "Sink", "Steps", "answered", "job_done", "read_as"]

_T = TypeVar("_T")

_AGAIN = frozenset({429, 502, 503, 504})  # answers after which another try may go better
_TOO_SLOW = 504  # where what was asked for may still be done, only what is done once is asked again
_KEY = "idempotency-key"
_LONGEST_WAIT = 60.0  # seconds; a server that asks to wait longer is not asked again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 8.0  # seconds between tries, doubled each time
_RANDOM = SystemRandom()  # leaves the random numbers of a program that seeds them alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request."""

    method: str
    path: str  # below the server's address, quoted
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  # bytes, or what yields them
    headers: Mapping[str, str] = field(default_factory=dict)
    into: "Sink | None" = None  # is given the body piece by piece where all is well


class Sink(Protocol):
    """What a long answer is given to; each try begins it again."""

    def begin(self) -> None:
        """Forget what was taken."""

    def take(self, piece: bytes) -> None:
        """Take the next piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes  # empty where a sink took it


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A request without an answer."""

    reason: str
    passing: bool  # whether another try may go better
    cause: Exception


Steps = Generator[Ask | float, Answer | Lost | None, _T]


def answered(ask: Ask, there: Endpoint) -> Steps[Answer]:
    """Ask until there is an answer, at most ``retries`` times more, with pauses; then ServerUnreachable.

    What writes carries an ``Idempotency-Key``: however often it is asked, it is done once. An error of
    the server's is raised as the `JiyiError` it names.
    """
    number = 0
    while True:
        reply = yield ask
        error = _error(reply, there)
        if error is None:
            return cast("Answer", reply)
        pause = _pause(ask, reply, number)
        if pause is None or number >= there.retries:
            raise error from (there.shareable(reply.cause) if isinstance(reply, Lost) else None)
        yield pause
        number += 1


def read_as(of: Any, data: Any, there: Endpoint) -> Any:
    """Return what an answer holds, given as JSON or as its values; ServerError: it is something else."""
    try:
        known = adapter(of)
        return known.validate_json(data) if isinstance(data, bytes) else known.validate_python(data)
    except (ValueError, JiyiError) as error:
        said = there.short(str(error))
        raise ServerError(
            f"{there.shown} did not answer as this jiyi knows ({said}): check the address and both versions"
        ) from there.shareable(error)


def _error(reply: Answer | Lost | None, there: Endpoint) -> JiyiError | None:
    if not isinstance(reply, Answer):
        why = there.short(reply.reason if reply else "")
        return ServerUnreachable(f"{there.shown} could not be asked ({why}): check that it runs")
    if 200 <= reply.status < 300:
        return None
    if "problem+json" in reply.headers.get("content-type", ""):
        try:
            return error_of(json.loads(reply.body))
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
    if 300 <= reply.status < 400:
        where = there.short(reply.headers.get("location", ""))
        return ServerError(f"{there.shown} sends on to {where}, which is not followed: give that address")
    said = there.short(reply.body.decode("utf-8", "replace"))
    return ServerError(f"{there.shown} answered {reply.status} ({said}), not as jiyi does: check the address")


def _pause(ask: Ask, reply: Answer | Lost | None, number: int) -> float | None:
    """Return the seconds to wait before another try, None where it would not help."""
    if isinstance(reply, Answer):
        if reply.status not in _AGAIN or (reply.status == _TOO_SLOW and _KEY not in ask.headers):
            return None
        try:
            asked = float(reply.headers["retry-after"])
        except (KeyError, ValueError):
            pass
        else:
            return asked if 0 <= asked <= _LONGEST_WAIT else None
    elif reply is None or not reply.passing:
        return None
    return min(_FIRST_PAUSE * 2.0**number, _LONGEST_PAUSE) * _RANDOM.uniform(0.75, 1)


class _Job(TypedDict):
    id: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: list[Any]
    result: Any
    problem: dict[str, Any] | None


_TRIES = 3  # a server that stops in the middle forgets its jobs; each may be done again


def job_done(ask: Ask, there: Endpoint, progress: Callable[..., object] | None) -> Steps[Any]:
    """Begin a job, call ``progress`` with what it tells, and return its result as JSON values.

    Raises:
        JiyiError: what the job failed with.
    """
    for _ in range(_TRIES):
        answer = yield from answered(ask, there)
        events = _Events(read_as(_Job, answer.body, there), progress, there)
        try:
            while events.job["state"] not in ("done", "failed"):
                yield from _watched(f"/v1/jobs/{events.job['id']}", events, there)
        except NotFound as error:
            lost = error
            continue
        if events.job["problem"] is not None:
            raise error_of(events.job["problem"])
        return events.job["result"]
    raise lost


def _watched(path: str, events: "_Events", there: Endpoint) -> Steps[None]:
    """Follow a job's events; where they were silent for too long, see whether it is still there."""
    try:
        yield from answered(Ask(method="GET", path=f"{path}/events", into=events), there)
    except ServerUnreachable:
        answer = yield from answered(Ask(method="GET", path=path), there)
        events.now(read_as(_Job, answer.body, there))


class _Events:
    """The job as it was told last."""

    def __init__(self, job: _Job, progress: Callable[..., object] | None, there: Endpoint) -> None:
        self._progress = progress
        self._there = there
        self._told: list[Any] = []
        self._rest = b""
        self.now(job)

    def now(self, job: _Job) -> None:
        self.job = job
        if job["progress"] != self._told:
            self._told = job["progress"]
            if self._progress is not None:
                self._progress(*self._told)

    def begin(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self.now(read_as(_Job, line[5:], self._there))
