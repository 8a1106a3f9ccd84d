"""The verbs as paths below /v1, with their OpenAPI 3.1 description.

A request with an idempotency key is executed only once. Routes are described from the verbs' signatures, the
rest from a file.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from starlette import routing
from starlette.requests import Request
from starlette.responses import Response

from jiyi.errors import Changed, InputError, KeyReused
from jiyi.manager import MemoryManager
from jiyi.records import Scope
from jiyi.server.keys import Caller, audited
from jiyi.server.served import Served, authenticate, get_served, job_answer, read_json_body, run_in_thread
from jiyi.server.streams import export, import_, job, job_events, monitor, users
from jiyi.storage import StoredAnswer
from jiyi.verbs.base import Parts
from jiyi.wire import PREFIX, ROUTES, Call, Route, adapter, call_of, to_json


def _check_idempotency_key(key: str) -> str:
    if not 1 <= len(key) <= 255 or not (key.isascii() and key.isprintable()):
        raise InputError("an Idempotency-Key is 1 to 255 printable ASCII characters, such as a UUID")
    return key


def _fingerprint(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()


def _run_once(
    parts: Parts, user_id: str, key: str, asked: str, act: Callable[[], bytes], *, together: bool
) -> bytes:
    """Call ``act`` and store its answer for a day; repeated requests get the stored answer.

    ``together`` uses one transaction for ``act`` and the answer. Otherwise ``act`` comes first, so that
    waiting for a language model does not block other writers. Errors are not stored. KeyReused: the key was
    used for a request with another fingerprint than ``asked``.
    """

    def answer_once() -> bytes:
        now = parts.clock()
        stored = parts.ledger.find_answer(user_id, key, now)
        if stored is None:
            stored = StoredAnswer(asked=asked, status=200, body=act().decode())
            parts.ledger.put_answer(user_id, key, stored, now)
        elif stored.asked != asked:
            raise KeyReused("this Idempotency-Key was used for another request; take a new one")
        return stored.body.encode()

    return parts.run_in_transaction(answer_once, user_id) if together else answer_once()


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
        key = request.headers.get("idempotency-key")
        if route.how == "job":
            return _start_job(served, caller, route, arguments, key)
        memory = served.memory_of(caller.tenant)
        expected = request.headers.get("if-match") if route.verb in VERSIONED else None

        def act() -> bytes:
            if expected is not None:
                _check_unchanged(memory, arguments, expected)
            return to_json(getattr(memory, route.verb)(**arguments), call.result)

        work = act
        if key is not None and route.writes and user is not None:
            path, query = request.scope["path"], request.scope["query_string"]
            digest = _fingerprint(route.method.encode(), path.encode(), query, body)
            together = route.verb not in _SEPARATE_VERBS and not arguments.get("purge")
            key = _check_idempotency_key(key)
            work = partial(_run_once, memory.parts, user, key, digest, act, together=together)
        elif expected is not None:
            work = partial(memory.parts.store.together, act)
        content = await run_in_thread(served, lambda: _run_audited(route, caller, arguments, work))
        return _make_response(request, route, content)

    return answer


def _run_audited(route: Route, caller: Caller, arguments: Mapping[str, Any], work: Callable[[], _T]) -> _T:
    """Run ``work``, with audit lines if it forgets or restores."""
    if route.access != "forget" or arguments.get("dry_run"):
        return work()
    action = "purge" if arguments.get("purge") else route.verb
    with audited(action, caller, user=arguments.get("user_id"), arguments=sorted(arguments)):
        return work()


def _read_arguments(route: Route, call: Call, request: Request, body: bytes) -> dict[str, Any]:
    """Return the arguments of the verb in a request; InputError says which is missing, unknown or wrong."""
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
        parts = (caller.tenant, user or "", route.verb, _check_idempotency_key(key))
        id_ = _fingerprint(*(part.encode() for part in parts))[:32]
    return job_answer(served.jobs.start(route.verb, caller, user, work, id=id_))


def _make_response(request: Request, route: Route, content: bytes) -> Response:
    headers = {}
    if route.verb in VERSIONED:
        headers["etag"] = _make_etag(json.loads(content))
        if headers["etag"] in request.headers.get("if-none-match", "") and route.method == "GET":
            return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, "application/json")


def _make_etag(record: dict[str, Any]) -> str:
    fields = {name: value for name, value in record.items() if name not in _ACCESS_FIELDS}
    return f'"{hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]}"'


def _check_unchanged(memory: MemoryManager, arguments: dict[str, Any], expected: str) -> None:
    """Raise `Changed` unless the record still has the expected ETag."""
    owner = {name: arguments[name] for name in ("user_id", "agent_id") if name in arguments}
    record = memory.get(arguments["record_id"], **owner)
    if expected != "*" and _make_etag(json.loads(to_json(record, type(record)))) not in expected:
        raise Changed(f"the record {arguments['record_id']} is not as If-Match says; read it again")


_PATH_PARAMETER = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_ETAG_HEADER = {"in": "header", "description": "The ETag of an answer.", "schema": {"type": "string"}}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same request with the same key is done once; for a day it is only answered again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}


@lru_cache(maxsize=1)
def describe_api() -> Mapping[str, Any]:
    """Return the description of everything below ``/v1``, as JSON values."""
    models: list[Any] = []
    for route in ROUTES:
        call = call_of(route)
        models.append((route.verb, "validation", TypeAdapter(call.request)))
        models.append((route.verb, "serialization", adapter(call.result)))
    schemas, shared = TypeAdapter.json_schemas(models, ref_template="#/components/schemas/{model}")
    document = json.loads(files("jiyi.server").joinpath("openapi.json").read_text("utf-8"))
    paths: dict[str, Any] = document["paths"]
    for route in ROUTES:
        asked, answered = schemas[route.verb, "validation"], schemas[route.verb, "serialization"]
        operations = paths.setdefault(PREFIX + route.path, {})
        resolved = shared["$defs"][asked["$ref"].rpartition("/")[2]] if "$ref" in asked else asked
        operations[route.method.lower()] = _describe_operation(route, resolved, asked, answered)
    document["info"]["version"] = version("jiyi")
    document["components"]["schemas"] |= shared.get("$defs", {})
    return document  # type: ignore[no-any-return]


def _describe_operation(
    route: Route, request: Mapping[str, Any], asked: Mapping[str, Any], answered: Mapping[str, Any]
) -> dict[str, Any]:
    call, example = call_of(route), route.notes("examples")
    operation: dict[str, Any] = {"operationId": route.verb, "tags": [route.path.split("/")[1]]}
    operation |= {"summary": call.summary, "description": call.description}
    operation["security"] = [{scheme: [route.access]} for scheme in ("key", "header")]
    operation["parameters"] = [{"name": name, **_PATH_PARAMETER} for name in call.in_path]
    operation["responses"] = _describe_responses(route, answered)
    if route.method in ("GET", "DELETE"):
        operation["parameters"] += _describe_query(request, example)
    else:
        content: dict[str, Any] = {"schema": asked, **({"example": example} if example else {})}
        needed = bool(request.get("required"))
        operation["requestBody"] = {"required": needed, "content": {"application/json": content}}
    if route.writes:
        operation["parameters"].append(_IDEMPOTENCY_KEY)
    if route.verb in VERSIONED:
        names = ("If-Match", "If-None-Match") if route.method == "GET" else ("If-Match",)
        operation["parameters"] += [{"name": name, **_ETAG_HEADER} for name in names]
    return operation


def _describe_query(request: Mapping[str, Any], example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of a query; optional ones are left out, since a query has no null."""
    parameters = []
    for name, schema in request.get("properties", {}).items():
        options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
        own = schema
        if options:
            rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
            own = {**rest, **options[0]} if len(options) == 1 else {**rest, "anyOf": options}
        parameter = {"name": name, "in": "query", "required": name in request.get("required", ())}
        inner = own.get("contentSchema")
        parameter |= {"schema": own} if inner is None else {"content": _content(inner)}
        if name in example:
            parameter["example"] = example[name]
        parameters.append(parameter)
    return parameters


def _describe_responses(route: Route, answered: Mapping[str, Any]) -> dict[str, Any]:
    if route.how == "job":
        success: dict[str, Any] = {"202": {"$ref": "#/components/responses/Job"}}
    else:
        success = {"200": {"description": "Done.", "content": _content(answered)}}
        if links := route.notes("links"):
            success["200"]["links"] = {verb: {"operationId": verb, **to} for verb, to in links.items()}
    problems: Sequence[str] = ("400", "401", "403", "404", "409", "413", "422", "429", "503", "default")
    return {**success, **{status: {"$ref": "#/components/responses/Problem"} for status in problems}}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": dict(schema)}}
