"""Endpoints other than the verbs: export and import of files, jobs, users and monitoring."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio.to_thread
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from jiyi.errors import InputError, JiyiError, NotFound, RequestTooLarge
from jiyi.monitor import Gauges
from jiyi.records import Scope
from jiyi.records.checks import new_id
from jiyi.server.keys import Caller, audit, audited
from jiyi.server.served import Served, authenticate, get_served, job_answer, run_in_thread
from jiyi.storage import ImportReceipt
from jiyi.wire import Access, adapter, shown_text, to_json

_CONTENT_TYPES = {"jsonl": "application/x-ndjson", "markdown": "text/markdown; charset=utf-8"}
_STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}  # proxies must not buffer
_CHUNK_SIZE = 65_536
_make_folder = partial(TemporaryDirectory, prefix="jiyi-", ignore_cleanup_errors=True)


async def export(request: Request) -> Response:
    """Stream everything of a user: as JSONL, or as Markdown with ``format=markdown``."""
    served, caller = await _begin(request, "read", "user_id", "agent_id", "format")
    query = request.query_params
    form: Any = query.get("format", "jsonl")
    if form not in _CONTENT_TYPES:
        raise InputError(f"format={form[:40]!r} is neither jsonl nor markdown")
    user, agent = caller.stored_user(query.get("user_id")), query.get("agent_id")
    memory = served.memory_of(caller.tenant)
    with ExitStack() as stack:
        path = Path(stack.enter_context(_make_folder())) / f"export.{form}"
        write = partial(memory.export, path, format=form, user_id=user, agent_id=agent)
        receipt = await anyio.to_thread.run_sync(write)
        audit("export", caller, user=user, bytes=path.stat().st_size)
        counts = {"x-jiyi-counts": json.dumps(dict(receipt.counts))}
        lines, end = _read_chunks(path, caller.tenant), BackgroundTask(stack.pop_all().close)
        return StreamingResponse(lines, 200, counts, _CONTENT_TYPES[form], end)


async def import_(request: Request) -> Response:
    """Import a file written by `export`, or one of conversations, as a job."""
    served, caller = await _begin(request, "write", "user_id", "agent_id", "session_id", "name", "dry_run")
    query = request.query_params
    user, agent = caller.stored_user(query.get("user_id")), query.get("agent_id")
    scope = Scope(user_id=user, agent_id=agent, session_id=query.get("session_id"))  # refuses bad names
    if (dry_run := query.getlist("dry_run")) not in ([], ["true"], ["false"]):
        raise InputError("dry_run must be true or false, and given once")
    memory, limit = served.memory_of(caller.tenant), served.settings.server_import_mb * 1e6
    name = re.sub(r"[^\w.-]", "_", Path(query.get("name", "")).name).lstrip(".")[-60:]  # without folders
    folder = _make_folder()
    path, id_ = Path(folder.name) / (name or "import.jsonl"), new_id()

    def work(report: Callable[..., None]) -> Any:
        target: Any = {"session_id": scope.session_id, "user_id": user, "agent_id": agent}
        try:
            with audited("import", caller, user=user, job=id_):
                receipt = memory.import_(path, dry_run=dry_run == ["true"], progress=report, **target)
        except JiyiError as error:
            error.args = (str(error).replace(str(path), path.name),)
            raise
        return adapter(ImportReceipt).dump_python(receipt, mode="json")

    with ExitStack() as stack:
        stack.callback(folder.cleanup)
        await _save_body(request, path, limit)
        started = served.jobs.start("import_", caller, user, work, id=id_, after=folder.cleanup)
        stack.pop_all()  # the job removes it
    return job_answer(started)


async def job(request: Request) -> Response:
    """Return the state of a job."""
    state = get_served(request).jobs.get(request.path_params["job_id"], await authenticate(request))
    return JSONResponse(state.to_dict())


async def job_events(request: Request) -> Response:
    """Stream the state of a job as server-sent events of JSON until it has ended."""
    jobs = get_served(request).jobs
    job = jobs.get(request.path_params["job_id"], await authenticate(request))

    async def events() -> AsyncIterator[bytes]:
        async for state in jobs.follow(job):
            yield f"event: {state['state']}\ndata: {json.dumps(state, ensure_ascii=False)}\n\n".encode()

    return StreamingResponse(events(), media_type="text/event-stream", headers=_STREAM_HEADERS)


async def users(request: Request) -> Response:
    """List the tenant's users."""
    served, caller = await _begin(request, "read")
    return JSONResponse(await run_in_thread(served, lambda: served.list_users(caller)))


async def monitor(request: Request) -> Response:
    """Return the gauges of the tenant's windows and replies in this process."""
    served, caller = await _begin(request, "read")
    watched = served.memory_of(caller.tenant).monitor
    if watched is None or caller.user is not None:
        raise NotFound("there are no gauges: the setting monitor is off, or the key is for one user")
    gauges = await run_in_thread(served, watched.gauges)
    return Response(to_json(gauges, Gauges), media_type="application/json")


async def _begin(request: Request, access: Access, *known: str) -> tuple[Served, Caller]:
    """Return the server and the caller; raise if the key or a parameter of the query is wrong here."""
    served, caller = get_served(request), await authenticate(request)
    caller.check(access)
    if odd := sorted(set(request.query_params) - set(known)):
        raise InputError(f"{odd[0][:40]}: no such parameter here; there are {', '.join(known) or 'none'}")
    return served, caller


def _read_chunks(path: Path, tenant: str) -> Iterator[bytes]:
    """Yield a file in chunks; the user in its first line is shown as the tenant knows them."""
    with path.open("rb") as file:
        yield shown_text(file.readline().decode(), tenant).encode()
        while piece := file.read(_CHUNK_SIZE):
            yield piece


async def _save_body(request: Request, path: Path, limit: float) -> None:
    """Write a body of at most ``limit`` bytes into a file."""
    size = 0
    async with await anyio.open_file(path, "wb") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise RequestTooLarge(f"the file is larger than {limit / 1e6:g} MB; import it in parts")
            await file.write(piece)
