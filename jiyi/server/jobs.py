"""Background jobs of a server, with their progress and results."""

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from jiyi.clock import utc_now
from jiyi.errors import JiyiError, NotFound, RateLimited
from jiyi.records.checks import new_id
from jiyi.server.callers import Caller
from jiyi.wire import problem_of, shown_text

__all__ = ["Job", "Jobs"]

_log = logging.getLogger("jiyi.server")

_WORKERS = 2
_MAX_WAITING = 100  # of one tenant
_MAX_ENDED = 1_000  # ended jobs
_POLL_SECONDS = 0.25

_State = Literal["waiting", "running", "done", "failed"]


@dataclass(slots=True, kw_only=True)
class Job:
    """One background job."""

    id: str
    verb: str
    caller: Caller  # who started it; nobody else sees it
    user: str | None  # stored id of the user it is for
    created_at: datetime
    state: _State = "waiting"
    progress: tuple[Any, ...] = ()  # as last reported by the verb
    result: Any = None  # JSON values, when it is done
    problem: dict[str, Any] | None = None  # why it failed
    revision: int = field(default=0, repr=False)  # changes so far

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        fields = {name: getattr(self, name) for name in ("id", "verb", "state", "result", "problem")}
        return {**fields, "created_at": self.created_at.isoformat(), "progress": list(self.progress)}


class Jobs:
    """The jobs of one process; they end with it.

    Every job's verb may be repeated: a job that ended with the process is simply started again.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="jiyi-job")
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def start(
        self,
        verb: str,
        caller: Caller,
        user: str | None,
        work: Callable[[Callable[..., None]], Any],
        *,
        id: str | None = None,
        after: Callable[[], None] | None = None,
    ) -> Job:
        """Start a job and return it; if the same caller already started one with this id, return that.

        Args:
            verb, caller, user: what it does, who started it, and for whom.
            work: does it, given a function that reports progress, and returns JSON values.
            id: of the job; a new one by default.
            after: called when it has ended, or when the server stops before it began.

        Raises:
            RateLimited: too many of the tenant's jobs wait.
        """
        with self._lock:
            existing = self._jobs.get(id or "")
            if existing is not None and _same_caller(existing.caller, caller) and existing.user == user:
                return existing
            jobs = [job for job in self._jobs.values() if _same_caller(job.caller, caller)]
            waiting = [job for job in jobs if job.state == "waiting"]
            if len(waiting) >= _MAX_WAITING:
                raise RateLimited(f"{len(waiting)} jobs wait already; ask again when some are done")
            job = Job(id=id or new_id(), verb=verb, caller=caller, user=user, created_at=utc_now())
            self._jobs[job.id] = job
            ended = [id_ for id_, job in self._jobs.items() if job.state in ("done", "failed")]
            for id_ in ended[: max(len(ended) - _MAX_ENDED, 0)]:
                del self._jobs[id_]
        future = self._pool.submit(self._run, job, work)
        if after is not None:
            future.add_done_callback(lambda _: after())
        return job

    def get(self, id: str, caller: Caller) -> Job:
        """Return a job of the caller; NotFound: there is none of this id, or it is somebody else's."""
        with self._lock:
            job = self._jobs.get(id)
        if job is None or not _same_caller(job.caller, caller):
            raise NotFound(f"there is no job {id[:80]!r}; ended ones are kept until the server stops")
        return job

    async def follow(self, job: Job) -> AsyncIterator[dict[str, Any]]:
        """Yield a job as JSON values: now, after each change, and when it has ended."""
        last_revision = -1
        while True:
            revision, state = job.revision, job.to_dict()
            if revision != last_revision:
                yield state
                last_revision = revision
            if state["state"] in ("done", "failed"):
                return
            await asyncio.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Wait for running jobs, and cancel waiting ones."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, work: Callable[[Callable[..., None]], Any]) -> None:
        def report(*progress: Any) -> None:
            job.progress = progress
            job.revision += 1

        job.state = "running"
        job.revision += 1
        try:
            job.result = work(report)
            job.state = "done"
        except JiyiError as error:
            job.problem = problem_of(error, shown_text(str(error), job.caller.tenant)).to_dict()
            job.state = "failed"
        except Exception:
            job.problem = problem_of(JiyiError("the server failed; its log says why")).to_dict()
            job.state = "failed"
            _log.exception("the job %s failed", job.id)
        finally:
            job.revision += 1


def _same_caller(first: Caller, second: Caller) -> bool:
    return (first.tenant, first.user) == (second.tenant, second.user)
