"""Long work on a server: begun once, watched by its events until it has ended."""

from collections.abc import Callable
from typing import Any, Literal

from typing_extensions import TypedDict

from jiyi.client.asking import Ask, Steps, answered, read_as
from jiyi.endpoint import Endpoint
from jiyi.errors import NotFound, ServerUnreachable
from jiyi.wire import error_of

__all__ = ["job_done"]


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
