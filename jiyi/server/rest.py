"""The verbs as paths below /v1; a request with an idempotency key is executed only once."""

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
from jiyi.server.asking import authenticate, get_served, read_json_body, run_in_thread
from jiyi.server.audit import audited
from jiyi.server.callers import Caller
from jiyi.server.served import Served
from jiyi.server.streams import export, import_, job, job_events, monitor, users
from jiyi.storage import StoredAnswer
from jiyi.wire import ROUTES, Call, Route, adapter, call_of, to_json

__all__ = ["PREFIX", "VERSIONED", "check_idempotency_key", "fingerprint_request", "rest_routes", "run_once"]

_MAX_KEY = 255


def check_idempotency_key(key: str) -> str:
    """Return an idempotency key; InputError: it is no printable ASCII of 1 to 255 characters."""
    if not 1 <= len(key) <= _MAX_KEY or not (key.isascii() and key.isprintable()):
        raise InputError(f"an Idempotency-Key is 1 to {_MAX_KEY} printable ASCII characters, such as a UUID")
    return key


def fingerprint_request(*parts: bytes) -> str:
    """Return a digest of a request."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def run_once(
    memory: MemoryManager,
    user_id: str,
    key: str,
    asked: str,
    act: Callable[[], tuple[int, bytes]],
    *,
    together: bool,
) -> tuple[int, bytes]:
    """Call ``act`` and store its answer for a day; repeated requests get the stored answer.

    Args:
        memory: its database stores the answers.
        user_id: the stored id of the user.
        key: the idempotency key, unique within the user.
        asked: the `fingerprint_request` of the request.
        act: returns status and body; errors are not stored.
        together: use one transaction for ``act`` and the answer. Otherwise ``act`` comes first, so that
            waiting for a language model does not block other writers.

    Raises:
        KeyReused: the key was used for another request.
    """
    parts = memory.parts

    def answer_once() -> tuple[int, bytes]:
        now = parts.clock()
        stored = parts.ledger.find_answer(user_id, key, now)
        if stored is None:
            status, body = act()
            stored = StoredAnswer(asked=asked, status=status, body=body.decode())
            parts.ledger.put_answer(user_id, key, stored, now)
        elif stored.asked != asked:
            raise KeyReused("this Idempotency-Key was used for another request; take a new one")
        return stored.status, stored.body.encode()

    if not together:
        return answer_once()
    try:
        return parts.store.together(answer_once)
    except BaseException:  # cached windows may contain what was rolled back
        parts.short_term.drop(Scope(user_id=user_id))
        raise
    finally:
        parts.long_term.indexer.notify()


PREFIX = "/v1"

_T = TypeVar("_T")

_ACCESS_FIELDS = ("access_count", "last_accessed_at")  # changed by reading: no new version
_SEPARATE_VERBS = ("summarize_session", "learn_facts")  # wait for a language model or a writing thread
VERSIONED = ("get", "update")


def rest_routes() -> list[routing.BaseRoute]:
    """Return everything below `PREFIX`."""
    table = [routing.Route(PREFIX + r.path, _serve(r), methods=[r.method], name=r.verb) for r in ROUTES]
    more = (
        ("GET", "/users", users),
        ("GET", "/monitor", monitor),
        ("GET", "/export", export),
        ("POST", "/import", import_),
        ("GET", "/jobs/{job_id}", job),
        ("GET", "/jobs/{job_id}/events", job_events),
    )
    return [*table, *(routing.Route(PREFIX + p, endpoint, methods=[method]) for method, p, endpoint in more)]


def _serve(route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a route."""
    call = call_of(route)

    async def answer(request: Request) -> Response:
        served, caller = get_served(request), await authenticate(request)
        caller.check(route.access)
        body = b"" if route.method in ("GET", "DELETE") else await read_json_body(request)
        arguments = _read_arguments(route, call, request, body)
        user = None
        if "user_id" in call.request.model_fields:
            user = arguments["user_id"] = caller.stored_user(arguments.get("user_id"))
            Scope(user_id=user, agent_id=arguments.get("agent_id"), session_id=arguments.get("session_id"))
        memory = served.memory_of(caller.tenant)
        expected = request.headers.get("if-match") if route.verb in VERSIONED else None
        if route.how == "job":
            return _start_job(served, caller, route, arguments, request.headers.get("idempotency-key"))

        def act() -> tuple[int, bytes]:
            if expected is not None:
                _check_unchanged(memory, arguments, expected)
            return 200, to_json(getattr(memory, route.verb)(**arguments), call.result)

        work = act
        key = request.headers.get("idempotency-key")
        if key is not None and route.writes and user is not None:
            path, query = request.scope["path"], request.scope["query_string"]
            digest = fingerprint_request(route.method.encode(), path.encode(), query, body)
            together = route.verb not in _SEPARATE_VERBS and not arguments.get("purge")
            work = partial(run_once, memory, user, check_idempotency_key(key), digest, act, together=together)
        elif expected is not None:
            work = partial(memory.parts.store.together, act)
        status, content = await run_in_thread(served, lambda: _run_audited(route, caller, arguments, work))
        return _make_response(request, route, status, content)

    return answer


def _run_audited(route: Route, caller: Caller, arguments: Mapping[str, Any], work: Callable[[], _T]) -> _T:
    """Run ``work``, with audit lines if it forgets or restores."""
    if route.access != "forget" or arguments.get("dry_run"):
        return work()
    action = "purge" if arguments.get("purge") else route.verb
    with audited(action, caller, user=arguments.get("user_id"), arguments=sorted(arguments)):
        return work()


def _read_arguments(route: Route, call: Call, request: Request, body: bytes) -> dict[str, Any]:
    """Return the arguments of the verb in a request.

    Raises:
        InputError: one is missing, unknown or of a wrong type; says which.
    """
    try:
        if route.method in ("GET", "DELETE"):
            query = request.query_params
            values = {n: v[0] if len(v := query.getlist(n)) == 1 else v for n in query}
            parsed = call.request.model_validate(values)
        elif request.query_params:
            raise InputError(f"{route.method} takes its arguments from the JSON body, none from the query")
        else:
            parsed = call.request.model_validate_json(body or b"{}", strict=True)
    except ValidationError as error:
        faults = dict.fromkeys(map(_describe_error, error.errors(include_url=False)))
        raise InputError("; ".join(faults)) from error
    arguments = {name: getattr(parsed, name) for name in parsed.model_fields_set}
    return arguments | {name: unquote(request.path_params[name]) for name in call.in_path}


def _describe_error(error: Any) -> str:
    where = ".".join(part for part in map(str, error["loc"]) if "[" not in part)  # but which of several types
    return f"{where}: {error['msg']}" if where else str(error["msg"])


def _start_job(
    served: Served, caller: Caller, route: Route, arguments: dict[str, Any], key: str | None
) -> Response:
    verb, call = getattr(served.memory_of(caller.tenant), route.verb), call_of(route)

    def work(report: Callable[..., None]) -> Any:
        extra = {"progress": report} if "progress" in call.left_out else {}
        result = _run_audited(route, caller, arguments, lambda: verb(**arguments, **extra))
        return adapter(call.result).dump_python(result, mode="json")

    user, id_ = arguments.get("user_id"), None
    if key is not None:
        parts = (caller.tenant, user or "", route.verb, check_idempotency_key(key))
        id_ = fingerprint_request(*(part.encode() for part in parts))[:32]
    started = served.jobs.start(route.verb, caller, user, work, id=id_)
    return JSONResponse(started.to_dict(), 202, {"location": f"{PREFIX}/jobs/{started.id}"})


def _make_response(request: Request, route: Route, status: int, content: bytes) -> Response:
    headers = {}
    if route.verb in VERSIONED:
        headers["etag"] = _make_etag(json.loads(content))
        if request.headers.get("if-none-match") == headers["etag"] and route.method == "GET":
            return Response(status_code=304, headers=headers)
    return Response(content, status, headers, "application/json")


def _make_etag(record: dict[str, Any]) -> str:
    fields = {name: value for name, value in record.items() if name not in _ACCESS_FIELDS}
    return f'"{hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]}"'


def _check_unchanged(memory: MemoryManager, arguments: dict[str, Any], expected: str) -> None:
    """Raise `Changed` unless the record still has the expected ETag."""
    owner = {name: arguments[name] for name in ("user_id", "agent_id") if name in arguments}
    record = memory.get(arguments["record_id"], **owner)
    if expected != "*" and _make_etag(json.loads(to_json(record, type(record)))) not in expected:
        raise Changed(f"the record {arguments['record_id']} is not as If-Match says; read it again")
