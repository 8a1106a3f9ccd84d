"""The state of a server, with its jobs and rate limits, and what every endpoint needs of it."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse

from jiyi.clock import utc_now
from jiyi.errors import InputError, JiyiError, NotFound, RateLimited, RequestTimedOut, Unauthorized
from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor
from jiyi.records.checks import new_id
from jiyi.server.keys import Caller, Keys
from jiyi.settings import Settings
from jiyi.wire import PREFIX, problem_of, shown_text, shown_user

_MAX_TENANTS = 1_000  # whose monitors are kept
_MAX_KEYS = 10_000  # keys whose buckets are kept

_T = TypeVar("_T")


class Served:
    """A memory as a server shares it; ``memory`` is the one of users without a tenant."""

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory
        self.settings: Settings = memory.parts.settings
        self.keys = Keys(memory.parts.ledger, clock=memory.parts.clock)
        self.jobs = Jobs()
        self.rate = RateLimit(self.settings.server_requests_per_minute)
        self._monitored = lru_cache(_MAX_TENANTS)(self._make_monitored)
        self._lock = threading.Lock()

    def memory_of(self, tenant: str) -> MemoryManager:
        """Return the memory of a tenant's users: the same database, its own monitor."""
        if not tenant or self.memory.monitor is None:
            return self.memory
        with self._lock:  # so that none is made twice
            return self._monitored(tenant)

    def _make_monitored(self, _: str) -> MemoryManager:
        parts = self.memory.parts
        return MemoryManager(replace(parts, monitor=ContextMonitor(clock=parts.clock, counter=parts.counter)))

    def list_users(self, caller: Caller) -> list[str]:
        """Return the users whose memory a caller may use, as their tenant knows them."""
        tenant = caller.tenant
        names = self.memory.parts.ledger.users(f"{tenant}//" if tenant else "")
        visible = [name for name in names if tenant or shown_user(name) == name]  # not those of tenants
        return [name for name in visible if caller.user in (None, name)]

    def close(self) -> None:
        """Let jobs end, then release the database."""
        self.jobs.close()
        self.memory.close()


class RateLimit:
    """Limits the requests of each key a minute, at once or spread, by buckets of tokens; 0 for no limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, when
        self._lock = threading.Lock()

    def take(self, key: str) -> None:
        """Count a request; RateLimited: the bucket is empty."""
        if not self._capacity:
            return
        now = self._clock()
        with self._lock:
            if key not in self._buckets and len(self._buckets) >= _MAX_KEYS:
                self._buckets.clear()
            left, then = self._buckets.get(key, (self._capacity, now))
            left = min(self._capacity, left + (now - then) * self._capacity / 60)
            self._buckets[key] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self._capacity)
            message = f"more than {self._capacity:.0f} requests a minute; ask again in {wait} seconds"
            raise RateLimited(message, retry_after=wait)


def get_served(request: Request) -> Served:
    """Return the memory and keys that the app of a request serves."""
    return cast("Served", request.app.state.served)


async def authenticate(request: Request, headers: Mapping[str, str] | None = None) -> Caller:
    """Return who sent a request, by its key, and count it against the rate limit.

    Raises:
        Unauthorized, RateLimited: the key is missing, unknown or over, or there were too many requests.
        RequestTimedOut: the database does not say.
    """
    served = get_served(request)
    secret = read_secret(request.headers if headers is None else headers)
    if served.keys.is_known(secret):
        caller = served.keys.caller(secret)
    else:  # the database is asked: other requests go on if it does not answer
        caller = await run_in_thread(served, lambda: served.keys.caller(secret))
    served.rate.take(caller.key)
    request.state.caller = caller  # for the log, and for errors
    return caller


def read_secret(headers: Mapping[str, str]) -> str | None:
    """Return the key or token of a request: ``Authorization: Bearer`` or ``Token``, or ``X-API-Key``."""
    secret = headers.get("x-jiyi-key") or headers.get("x-api-key")
    if secret is None and (authorization := headers.get("authorization")) is not None:
        scheme, _, secret = authorization.strip().partition(" ")
        if scheme.lower() not in ("bearer", "token"):
            raise Unauthorized("send the API key as Authorization: Bearer jiyi_…")
    return secret.strip() if secret else None


async def read_json_body(request: Request) -> bytes:
    """Return the JSON body of a request, b"" for none; InputError: it is of another type."""
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and kind != "application/json":
        raise InputError(f"the body must be JSON, with Content-Type: application/json, not {kind or 'none'}")
    return body


async def run_in_thread(served: Served, work: Callable[[], _T], *, seconds: float | None = None) -> _T:
    """Run blocking work in a thread; RequestTimedOut: it takes too long; it may still complete."""
    seconds = seconds or served.settings.server_seconds
    with anyio.move_on_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    hint = "ask again with the same Idempotency-Key"
    raise RequestTimedOut(f"this took more than {seconds:g} seconds and may still be done; {hint}")


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


def job_answer(job: Job) -> JSONResponse:
    """Return the answer to a request that started a job."""
    return JSONResponse(job.to_dict(), 202, {"location": f"{PREFIX}/jobs/{job.id}"})


class Jobs:
    """The jobs of one process; they end with it.

    Every job's verb may be repeated: a job that ended with the process is simply started again.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="jiyi-job")
        self._jobs: dict[str, Job] = {}
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

        ``work`` gets a function that reports progress, and returns JSON values; ``after`` is called when the
        job has ended, or when the server stops before it began. RateLimited: too many of the tenant's wait.
        """
        with self._lock:
            existing = self._jobs.get(id or "")
            if existing is not None and _same_caller(existing.caller, caller) and existing.user == user:
                return existing
            own = (job for job in self._jobs.values() if _same_caller(job.caller, caller))
            if (waiting := sum(job.state == "waiting" for job in own)) >= _MAX_WAITING:
                raise RateLimited(f"{waiting} jobs wait already; ask again when some are done")
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

        state: _State = "failed"
        job.state = "running"
        job.revision += 1
        try:
            job.result = work(report)
            state = "done"
        except JiyiError as error:
            job.problem = problem_of(error, shown_text(str(error), job.caller.tenant))
        except Exception:
            job.problem = problem_of(JiyiError("the server failed; its log says why"))
            _log.exception("the job %s failed", job.id)
        finally:
            job.state = state
            job.revision += 1


def _same_caller(first: Caller, second: Caller) -> bool:
    return (first.tenant, first.user) == (second.tenant, second.user)
