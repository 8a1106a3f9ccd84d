"""Long work: done in threads, told step by step, its outcome kept for a while."""

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

_AT_ONCE = 2
_MOST_WAITING = 100  # of one tenant
_KEPT = 1_000  # ended jobs
_LOOK_SECONDS = 0.25

_State = Literal["waiting", "running", "done", "failed"]


@dataclass(slots=True, kw_only=True)
class Job:
    """One piece of long work."""

    id: str
    verb: str
    caller: Caller  # who asked for it; only they see it
    user: str | None  # stored id of the user it is for
    created_at: datetime
    state: _State = "waiting"
    progress: tuple[Any, ...] = ()  # what the verb last said of how far it is
    result: Any = None  # JSON values, when it is done
    problem: dict[str, Any] | None = None  # why it failed
    turns: int = field(default=0, repr=False)  # changes so far

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        told = {name: getattr(self, name) for name in ("id", "verb", "state", "result", "problem")}
        return {**told, "created_at": self.created_at.isoformat(), "progress": list(self.progress)}


class Jobs:
    """The jobs of one process; what is left of them ends with it.

    Every job's verb may be done again: one cut off by the end of the process is asked for once more.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="jiyi-job")
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
        """Begin a job and return it; one that was begun under the same id by the same caller is that one.

        Args:
            verb, caller, user: what it does, who asked for it, and for whom.
            work: does it, given a function to tell progress to, and returns JSON values.
            id: made here where it is left out.
            after: called when it has ended, and where the server stops before it began.

        Raises:
            RateLimited: too many of the tenant's jobs wait.
        """
        with self._lock:
            known = self._jobs.get(id or "")
            if known is not None and _same(known.caller, caller) and known.user == user:
                return known
            waiting = [j for j in self._jobs.values() if j.state == "waiting" and _same(j.caller, caller)]
            if len(waiting) >= _MOST_WAITING:
                raise RateLimited(f"{len(waiting)} jobs wait already; ask again when some are done")
            job = Job(id=id or new_id(), verb=verb, caller=caller, user=user, created_at=utc_now())
            self._jobs[job.id] = job
            self._drop_old()
        future = self._pool.submit(self._run, job, work)
        if after is not None:
            future.add_done_callback(lambda _: after())
        return job

    def get(self, id: str, caller: Caller) -> Job:
        """Return a job of the caller; NotFound: there is none of this id, or it is somebody else's."""
        with self._lock:
            job = self._jobs.get(id)
        if job is None or not _same(job.caller, caller):
            raise NotFound(f"there is no job {id[:80]!r}; ended ones are kept until the server stops")
        return job

    async def follow(self, job: Job) -> AsyncIterator[dict[str, Any]]:
        """Give a job as JSON values now, after each change, and last as it ended."""
        seen = -1
        while True:
            turns, told = job.turns, job.to_dict()
            if turns != seen:
                yield told
                seen = turns
            if told["state"] in ("done", "failed"):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Wait for the jobs that run, and begin none that waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, work: Callable[[Callable[..., None]], Any]) -> None:
        def tell(*progress: Any) -> None:
            job.progress = progress
            job.turns += 1

        job.state = "running"
        job.turns += 1
        try:
            job.result = work(tell)
            job.state = "done"
        except JiyiError as error:
            job.problem = problem_of(error, shown_text(str(error), job.caller.tenant)).to_dict()
            job.state = "failed"
        except Exception:
            job.problem = problem_of(JiyiError("the server failed; its log says why")).to_dict()
            job.state = "failed"
            _log.exception("the job %s failed", job.id)
        finally:
            job.turns += 1

    def _drop_old(self) -> None:
        ended = [id_ for id_, job in self._jobs.items() if job.state in ("done", "failed")]
        for id_ in ended[: max(len(ended) - _KEPT, 0)]:
            del self._jobs[id_]


def _same(one: Caller, other: Caller) -> bool:
    return (one.tenant, one.user) == (other.tenant, other.user)
