"""mem0's routes, so that its ``MemoryClient(host="http://…/compat/mem0")`` works unchanged.

Errors are answered as mem0 does, ``{"detail": "…"}``: its client makes exceptions of status and text.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jiyi.errors import BadQuery, JiyiError
from jiyi.server.gate import problem_response
from jiyi.server.mem0_memories import Memories
from jiyi.server.served import authenticate, get_served, read_json_body, run_in_thread
from jiyi.wire import Access

PREFIX = "/compat/mem0"

_Body = dict[str, Any]
_Handler = Callable[[Memories, Request, _Body], Any]
"""What a route does: with the caller's memories, the request and the object in its body."""

_PROJECT = {"org_id": "jiyi", "project_id": "jiyi"}  # the client does not start without
_ERROR_HEADERS = ("www-authenticate", "retry-after")
_MAX_VALUES = {"page": 100_000, "page_size": 1_000}


def mem0_routes() -> list[Route]:
    """Return everything below `PREFIX`."""
    return [
        Route(PREFIX + path, _make_endpoint(needed, work), methods=[method])
        for method, path, needed, work in _ROUTES
    ]


def refusal(error: JiyiError, text: str) -> Response:
    """Return an error, with this text, as mem0 answers it."""
    problem = problem_response(error)
    headers = {name: problem.headers[name] for name in _ERROR_HEADERS if name in problem.headers}
    return JSONResponse({"detail": text}, problem.status_code, headers)


def _make_endpoint(needed: Access | None, work: _Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        served, caller = get_served(request), await authenticate(request)
        if needed is not None:
            caller.check(needed)
        given = _read_object(await read_json_body(request))
        memories = Memories(served, caller)
        return JSONResponse(await run_in_thread(served, lambda: work(memories, request, given)))

    return answer


def _read_object(body: bytes) -> _Body:
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise BadQuery(f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadQuery("the body must be an object")
    return given


def _read_number(request: Request, name: str, default: int) -> int:
    text, maximum = request.query_params.get(name, str(default)), _MAX_VALUES[name]
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= maximum):
        raise BadQuery(f"{name} must be a number from 1 to {maximum:,}")
    return int(text)


def _list_memories(memories: Memories, request: Request, given: _Body) -> dict[str, Any]:
    page, size = _read_number(request, "page", 1), _read_number(request, "page_size", 100)
    count, found = memories.page(given, page, size)
    pages = {"next": page + 1 if page * size < count else None, "previous": page - 1 or None}
    links = {name: n and str(request.url.include_query_params(page=n)) for name, n in pages.items()}
    return {"count": count, **links, "results": found}


def _delete(memories: Memories, request: Request, _: _Body) -> dict[str, str]:
    linked = request.query_params.get("delete_linked", "false").lower() in ("true", "1", "yes", "on")
    memories.delete([request.path_params["memory_id"]], linked=linked)
    return {"message": "Memory deleted successfully!"}


def _change_batch(memories: Memories, request: Request, given: _Body) -> dict[str, str]:
    entries = given.get("memories")
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("memory_id"), str) for entry in entries
    ):
        raise BadQuery('memories must be a list of objects with a "memory_id"')
    if request.method == "DELETE":
        memories.delete([entry["memory_id"] for entry in entries])
        return {"message": f"Successfully deleted {len(entries)} memories"}
    memories.update_all(entries)
    return {"message": f"Successfully updated {len(entries)} memories"}


_PATH, _ENTITY = "/v1/memories/{memory_id}/", "/v2/entities/{kind}/{name:path}/"
_ROUTES: tuple[tuple[str, str, Access | None, _Handler], ...] = (
    # An address under user_email would be reported to mem0.
    ("GET", "/v1/ping/", None, lambda *_: {"status": "ok", **_PROJECT, "user_email": None}),
    ("POST", "/v3/memories/add/", "write", lambda memories, _, body: memories.add(body)),
    ("POST", "/v3/memories/search/", "read", lambda memories, _, body: memories.search(body)),
    ("POST", "/v3/memories/", "read", _list_memories),
    ("DELETE", "/v1/memories/", "forget", lambda memories, request, _: memories.clear(request.query_params)),
    ("GET", _PATH, "read", lambda memories, request, _: memories.get(**request.path_params)),
    ("PUT", _PATH, "write", lambda memories, request, body: memories.update(body, **request.path_params)),
    ("DELETE", _PATH, "forget", _delete),
    ("GET", f"{_PATH}history/", "read", lambda memories, request, _: memories.history(**request.path_params)),
    ("PUT", "/v1/batch/", "write", _change_batch),
    ("DELETE", "/v1/batch/", "forget", _change_batch),
    ("GET", "/v1/entities/", "read", lambda memories, *_: memories.entities()),
    ("DELETE", _ENTITY, "forget", lambda memories, request, _: memories.delete_entity(**request.path_params)),
)
