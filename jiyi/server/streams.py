"""What is not one verb and one answer: files that go out and come in, jobs, users and gauges."""

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import anyio.to_thread
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from jiyi.errors import InputError, JiyiError, NotFound, RequestTooLarge
from jiyi.monitor import Gauges
from jiyi.records import Scope
from jiyi.records.checks import new_id
from jiyi.server.asking import caller_of, in_thread, served_by
from jiyi.server.audit import audit, audited
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.wire import adapter, shown_text, shown_user, to_json

__all__ = ["export", "import_", "job", "job_events", "monitor", "users"]

_TYPES = {"jsonl": "application/x-ndjson", "markdown": "text/markdown; charset=utf-8"}
_STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}  # proxies pass each event on at once
_MEGABYTE = 1_000_000
_PIECE = 65_536


async def export(request: Request) -> Response:
    """Stream everything of a user: as JSONL, or as Markdown with ``format=markdown``."""
    served, caller = served_by(request), await caller_of(request)
    caller.check("read")
    query = request.query_params
    form = query.get("format", "jsonl")
    if form not in _TYPES:
        raise InputError(f"format={form[:40]!r} is neither jsonl nor markdown")
    user, agent = caller.stored_user(query.get("user_id")), query.get("agent_id")
    memory = served.memory_of(caller.tenant)
    folder = tempfile.TemporaryDirectory(prefix="jiyi-", ignore_cleanup_errors=True)
    path = Path(folder.name) / f"export.{form}"

    def write() -> ExportReceipt:
        as_format = cast("Literal['jsonl', 'markdown']", form)
        return memory.export(path, format=as_format, user_id=user, agent_id=agent)

    try:
        receipt = await anyio.to_thread.run_sync(write)
    except BaseException:
        folder.cleanup()
        raise
    audit("export", caller, user=user, bytes=path.stat().st_size)
    lines = _shown_lines(path, caller.tenant)
    counts = {"x-jiyi-counts": json.dumps(dict(receipt.counts))}
    return StreamingResponse(lines, 200, counts, _TYPES[form], BackgroundTask(folder.cleanup))


async def import_(request: Request) -> Response:
    """Take in a file of lines as `export` writes them, or of conversations, as a job."""
    served, caller = served_by(request), await caller_of(request)
    caller.check("write")
    query = request.query_params
    user, agent = caller.stored_user(query.get("user_id")), query.get("agent_id")
    scope = Scope(user_id=user, agent_id=agent, session_id=query.get("session_id"))  # refuses bad names
    if (dry_run := query.getlist("dry_run")) not in ([], ["true"], ["false"]):
        raise InputError("dry_run must be true or false, and given once")
    memory = served.memory_of(caller.tenant)
    most = served.settings.server_import_mb * _MEGABYTE
    folder = tempfile.TemporaryDirectory(prefix="jiyi-", ignore_cleanup_errors=True)
    path, id_ = Path(folder.name) / _name_of(query.get("name", "")), new_id()

    def work(tell: Callable[..., None]) -> Any:
        given: Any = {"session_id": scope.session_id, "user_id": user, "agent_id": agent}
        try:
            with audited("import", caller, user=user, job=id_):
                receipt = memory.import_(path, dry_run=dry_run == ["true"], progress=tell, **given)
        except JiyiError as error:
            error.args = (str(error).replace(str(path), path.name),)
            raise
        return adapter(ImportReceipt).dump_python(receipt, mode="json")

    try:
        await _receive(request, path, most)
        begun = served.jobs.start("import_", caller, user, work, id=id_, after=folder.cleanup)
    except BaseException:  # no job that would remove it
        folder.cleanup()
        raise
    return JSONResponse(begun.to_dict(), 202, {"location": f"/v1/jobs/{begun.id}"})


async def job(request: Request) -> Response:
    """Tell how far a job is."""
    found = served_by(request).jobs.get(request.path_params["job_id"], await caller_of(request))
    return JSONResponse(found.to_dict())


async def job_events(request: Request) -> Response:
    """Stream how far a job is as server-sent events, each with the job as JSON, until it has ended."""
    jobs = served_by(request).jobs
    found = jobs.get(request.path_params["job_id"], await caller_of(request))

    async def events() -> AsyncIterator[bytes]:
        async for told in jobs.follow(found):
            data = json.dumps(told, ensure_ascii=False)
            yield f"event: {told['state']}\ndata: {data}\n\n".encode()

    return StreamingResponse(events(), media_type="text/event-stream", headers=_STREAM)


async def users(request: Request) -> Response:
    """List the tenant's users."""
    served, caller = served_by(request), await caller_of(request)
    caller.check("read")
    ledger = served.memory.parts.ledger
    names = await in_thread(served, lambda: ledger.users(f"{caller.tenant}//" if caller.tenant else ""))
    own = [name for name in names if caller.tenant or shown_user(name) == name]  # not those of tenants
    return JSONResponse([name for name in own if caller.user in (None, name)])


async def monitor(request: Request) -> Response:
    """Tell what the tenant's windows held and what came of them, in this process."""
    served, caller = served_by(request), await caller_of(request)
    caller.check("read")
    watched = served.memory_of(caller.tenant).monitor
    if watched is None or caller.user is not None:
        raise NotFound("there are no gauges: the setting monitor is off, or the key is for one user")
    gauges = await in_thread(served, watched.gauges)
    return Response(to_json(gauges, Gauges), media_type="application/json")


def _shown_lines(path: Path, tenant: str) -> Iterator[bytes]:
    """Give a file in pieces; the first line names the user, here as their tenant knows them."""
    with path.open("rb") as file:
        yield shown_text(file.readline().decode(), tenant).encode()
        while piece := file.read(_PIECE):
            yield piece


def _name_of(said: str) -> str:
    """Return the name that a client gave a file, as a plain name that leads nowhere else."""
    return re.sub(r"[^\w.-]", "_", Path(said).name).lstrip(".")[-60:] or "import.jsonl"


async def _receive(request: Request, path: Path, most: float) -> None:
    """Write a body of at most so many bytes into a file."""
    size = 0
    async with await anyio.open_file(path, "wb") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise RequestTooLarge(f"the file is larger than {most / _MEGABYTE:g} MB; import it in parts")
            await file.write(piece)
