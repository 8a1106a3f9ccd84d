"""The verbs as paths below /v1; a request with an idempotency key is done once, however often it is sent."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import ValidationError
from starlette import routing
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jiyi.errors import Changed, InputError, KeyReused
from jiyi.manager import MemoryManager
from jiyi.records import Scope
from jiyi.server.asking import body_of, caller_of, in_thread, served_by
from jiyi.server.audit import audited
from jiyi.server.callers import Caller
from jiyi.server.served import Served
from jiyi.server.streams import export, import_, job, job_events, monitor, users
from jiyi.storage import Answered
from jiyi.wire import ROUTES, Call, Route, adapter, call_of, to_json

__all__ = ["PREFIX", "check_key", "fingerprint", "once", "rest_routes"]

_LONGEST = 255


def check_key(key: str) -> str:
    """Return an idempotency key; InputError: it is no printable ASCII of 1 to 255 characters."""
    if not 1 <= len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
        raise InputError(f"an Idempotency-Key is 1 to {_LONGEST} printable ASCII characters, such as a UUID")
    return key


def fingerprint(*parts: bytes) -> str:
    """Return what tells two requests apart."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def once(
    memory: MemoryManager,
    user_id: str,
    key: str,
    asked: str,
    act: Callable[[], tuple[int, bytes]],
    *,
    together: bool,
) -> tuple[int, bytes]:
    """Do something and keep what it answers for a day; a second time only answer.

    Args:
        memory: whose database keeps the answers.
        user_id: the stored id of the user it is about.
        key: the idempotency key, one user's.
        asked: the `fingerprint` of the request.
        act: does it and returns status and body; what it raises is not kept.
        together: in one transaction with the answer, so that no crash comes between. Else it is done
            before: what waits for a language model must not keep others from writing.

    Raises:
        KeyReused: the key was used for another request.
    """
    parts = memory.parts

    def answered() -> tuple[int, bytes]:
        now = parts.clock()
        known = parts.ledger.answered(user_id, key, now)
        if known is None:
            status, body = act()
            known = Answered(asked=asked, status=status, body=body.decode())
            parts.ledger.keep_answer(user_id, key, known, now)
        elif known.asked != asked:
            raise KeyReused("this Idempotency-Key was used for another request; take a new one")
        return known.status, known.body.encode()

    if not together:
        return answered()
    try:
        return parts.store.together(answered)
    except BaseException:  # windows in memory may hold what was undone
        parts.short_term.drop(Scope(user_id=user_id))
        raise
    finally:
        parts.long_term.indexer.notify()


PREFIX = "/v1"

_T = TypeVar("_T")

_COUNTS = ("access_count", "last_accessed_at")  # change when a record is found: it is the same version
_APART = ("summarize_session", "learn_facts")  # wait for a language model, or for a thread that writes
_VERSIONED = ("get", "update")


def rest_routes() -> list[routing.BaseRoute]:
    """Return everything below `PREFIX`."""
    table = [routing.Route(PREFIX + r.path, _endpoint(r), methods=[r.method], name=r.verb) for r in ROUTES]
    own = (
        ("GET", "/users", users),
        ("GET", "/monitor", monitor),
        ("GET", "/export", export),
        ("POST", "/import", import_),
        ("GET", "/jobs/{job_id}", job),
        ("GET", "/jobs/{job_id}/events", job_events),
    )
    return [*table, *(routing.Route(PREFIX + path, of, methods=[method]) for method, path, of in own)]


def _endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a row of the table."""
    call = call_of(route)

    async def answer(request: Request) -> Response:
        served, caller = served_by(request), await caller_of(request)
        caller.check(route.access)
        body = b"" if route.method in ("GET", "DELETE") else await body_of(request)
        said = _said(route, call, request, body)
        user = None
        if "user_id" in call.request.model_fields:
            user = said["user_id"] = caller.stored_user(said.get("user_id"))
            Scope(user_id=user, agent_id=said.get("agent_id"), session_id=said.get("session_id"))
        memory = served.memory_of(caller.tenant)
        expected = request.headers.get("if-match") if route.verb in _VERSIONED else None
        if route.how == "job":
            return _begin_job(served, caller, route, said, request.headers.get("idempotency-key"))

        def act() -> tuple[int, bytes]:
            if expected is not None:
                _check_unchanged(memory, said, expected)
            return 200, to_json(getattr(memory, route.verb)(**said), call.result)

        work = act
        key = request.headers.get("idempotency-key")
        if key is not None and route.writes and user is not None:
            path, query = request.scope["path"], request.scope["query_string"]
            asked = fingerprint(route.method.encode(), path.encode(), query, body)
            together = route.verb not in _APART and not said.get("purge")
            work = partial(once, memory, user, check_key(key), asked, act, together=together)
        elif expected is not None:
            work = partial(memory.parts.store.together, act)
        status, content = await in_thread(served, lambda: _noted(route, caller, said, work))
        return _response(request, route, status, content)

    return answer


def _noted(route: Route, caller: Caller, said: Mapping[str, Any], work: Callable[[], _T]) -> _T:
    """Do something, and audit it where it takes away or brings back."""
    if route.access != "forget" or said.get("dry_run"):
        return work()
    action = "purge" if said.get("purge") else route.verb
    with audited(action, caller, user=said.get("user_id"), said=sorted(said)):
        return work()


def _said(route: Route, call: Call, request: Request, body: bytes) -> dict[str, Any]:
    """Return the arguments of the verb that a request gives.

    Raises:
        InputError: one is missing, unknown or of a wrong type; says which.
    """
    try:
        if route.method in ("GET", "DELETE"):
            query = request.query_params
            given = {n: v[0] if len(v := query.getlist(n)) == 1 else v for n in query}
            said = call.request.model_validate(given)
        else:
            said = call.request.model_validate_json(body or b"{}", strict=True)
    except ValidationError as error:
        raise InputError("; ".join(map(_told, error.errors(include_url=False)))) from error
    arguments = {name: getattr(said, name) for name in said.model_fields_set}
    return arguments | {name: unquote(request.path_params[name]) for name in call.in_path}


def _told(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def _begin_job(
    served: Served, caller: Caller, route: Route, said: dict[str, Any], key: str | None
) -> Response:
    verb, call = getattr(served.memory_of(caller.tenant), route.verb), call_of(route)

    def work(tell: Callable[..., None]) -> Any:
        told = {"progress": tell} if "progress" in call.left_out else {}
        done = _noted(route, caller, said, lambda: verb(**said, **told))
        return adapter(call.result).dump_python(done, mode="json")

    user, id_ = said.get("user_id"), None
    if key is not None:
        parts = (caller.tenant, user or "", route.verb, check_key(key))
        id_ = fingerprint(*(part.encode() for part in parts))[:32]
    begun = served.jobs.start(route.verb, caller, user, work, id=id_)
    return JSONResponse(begun.to_dict(), 202, {"location": f"{PREFIX}/jobs/{begun.id}"})


def _response(request: Request, route: Route, status: int, content: bytes) -> Response:
    headers = {}
    if route.verb in _VERSIONED:
        headers["etag"] = _etag(json.loads(content))
        if request.headers.get("if-none-match") == headers["etag"] and route.method == "GET":
            return Response(status_code=304, headers=headers)
    return Response(content, status, headers, "application/json")


def _etag(record: dict[str, Any]) -> str:
    lasting = {name: value for name, value in record.items() if name not in _COUNTS}
    return f'"{hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()[:32]}"'


def _check_unchanged(memory: MemoryManager, said: dict[str, Any], expected: str) -> None:
    """Make sure that a record is as it was when it was read."""
    whose = {name: said[name] for name in ("user_id", "agent_id") if name in said}
    record = memory.get(said["record_id"], **whose)
    if expected != "*" and _etag(json.loads(to_json(record, type(record)))) not in expected:
        raise Changed(f"the record {said['record_id']} is not as If-Match says; read it again")
