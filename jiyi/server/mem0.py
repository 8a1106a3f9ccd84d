"""mem0's routes, so that its ``MemoryClient(host="http://…/compat/mem0")`` works unchanged.

Errors are answered as mem0 does, ``{"detail": "…"}``: its client makes exceptions of status and text.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from jiyi.errors import BadQuery, JiyiError
from jiyi.server.asking import caller_of, in_thread, served_by
from jiyi.server.gate import problem_body
from jiyi.server.mem0_memories import Memories
from jiyi.wire import Access, shown_text

__all__ = ["router"]

_T = TypeVar("_T")

_PAGE = 100
_PROJECT = {"org_id": "jiyi", "project_id": "jiyi"}  # the client does not start without


class _Route(APIRoute):
    """Asks for the key first, and answers errors in mem0's form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            tenant = ""
            try:
                tenant = caller_of(request).tenant
                return await handle(request)
            except (JiyiError, RequestValidationError, HTTPException) as error:
                return _failure(error, tenant)

        return handled


def _failure(error: JiyiError | RequestValidationError | HTTPException, tenant: str) -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, RequestValidationError):
        status = 400
        detail = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    elif isinstance(error, HTTPException):
        status, detail, headers = error.status_code, str(error.detail), dict(error.headers or {})
    else:
        detail = shown_text(str(error), tenant)
        status, _, headers = problem_body(error)
        del headers["content-type"]
    return JSONResponse({"detail": detail}, status, headers)


async def _done(request: Request, needed: Access, work: Callable[[Memories], _T]) -> _T:
    served, caller = served_by(request), request.state.caller
    caller.check(needed)
    memories = Memories(served.memory_of(caller.tenant), caller)
    return await in_thread(served, lambda: work(memories))


router = APIRouter(prefix="/compat/mem0", route_class=_Route)

_Given = Annotated[dict[str, Any], Body()]
_Number = Annotated[int, Query(ge=1, le=100_000)]
_Size = Annotated[int, Query(ge=1, le=1_000)]


@router.get("/v1/ping/")
async def _ping() -> dict[str, Any]:
    """Tell a client that its key holds."""
    return {"status": "ok", **_PROJECT, "user_email": None}  # an address would be reported to mem0


@router.post("/v3/memories/add/")
async def _add(request: Request, given: _Given) -> dict[str, Any]:
    """Keep what messages say."""
    return await _done(request, "write", lambda memories: memories.add(given))


@router.post("/v3/memories/search/")
async def _search(request: Request, given: _Given) -> dict[str, Any]:
    """Find memories by a query."""
    return await _done(request, "read", lambda memories: memories.search(given))


@router.post("/v3/memories/")
async def _get_all(
    request: Request, given: _Given, page: _Number = 1, page_size: _Size = _PAGE
) -> dict[str, Any]:
    """List memories, newest first."""
    count, found = await _done(request, "read", lambda memories: memories.page(given, page, page_size))
    there = {"next": page + 1 if page * page_size < count else None, "previous": page - 1 or None}
    links = {name: n and str(request.url.include_query_params(page=n)) for name, n in there.items()}
    return {"count": count, **links, "results": found}


@router.delete("/v1/memories/")
async def _delete_all(request: Request) -> dict[str, str]:
    """Forget all memories of a user, an agent or a run."""
    await _done(request, "forget", lambda memories: memories.delete_all(request.query_params))
    return {"message": "Memories deleted successfully!"}


@router.get("/v1/memories/{memory_id}/")
async def _get(request: Request, memory_id: str) -> dict[str, Any]:
    """Return one memory."""
    return await _done(request, "read", lambda memories: memories.get(memory_id))


@router.put("/v1/memories/{memory_id}/")
async def _update(request: Request, memory_id: str, given: _Given) -> dict[str, Any]:
    """Change a memory."""
    return await _done(request, "write", lambda memories: memories.update(memory_id, given))


@router.delete("/v1/memories/{memory_id}/")
async def _delete(request: Request, memory_id: str, delete_linked: bool = False) -> dict[str, str]:
    """Forget a memory; with ``delete_linked`` also those whose place it took."""
    await _done(request, "forget", lambda memories: memories.delete([memory_id], linked=delete_linked))
    return {"message": "Memory deleted successfully!"}


@router.get("/v1/memories/{memory_id}/history/")
async def _history(request: Request, memory_id: str) -> list[dict[str, Any]]:
    """Return how a memory came to be what it is."""
    return await _done(request, "read", lambda memories: memories.history(memory_id))


@router.put("/v1/batch/")
async def _batch_update(request: Request, given: _Given) -> dict[str, str]:
    """Change several memories."""
    asked = _batch(given)
    await _done(request, "write", lambda memories: [memories.update(one["memory_id"], one) for one in asked])
    return {"message": f"Successfully updated {len(asked)} memories"}


@router.delete("/v1/batch/")
async def _batch_delete(request: Request, given: _Given) -> dict[str, str]:
    """Forget several memories."""
    ids = [one["memory_id"] for one in _batch(given)]
    await _done(request, "forget", lambda memories: memories.delete(ids))
    return {"message": f"Successfully deleted {len(ids)} memories"}


@router.get("/v1/entities/")
async def _users(request: Request) -> dict[str, Any]:
    """List the users there are memories of."""
    found = await _done(request, "read", lambda memories: memories.entities())
    return {"count": len(found), "next": None, "previous": None, "results": found}


@router.delete("/v2/entities/{kind}/{name:path}/")
async def _delete_user(request: Request, kind: str, name: str) -> dict[str, str]:
    """Forget all there is of a user."""
    await _done(request, "forget", lambda memories: memories.delete_entity(kind, name))
    return {"message": "Entity deleted successfully."}


def _batch(given: dict[str, Any]) -> list[dict[str, Any]]:
    asked = given.get("memories")
    if not isinstance(asked, list) or not all(
        isinstance(one, dict) and isinstance(one.get("memory_id"), str) for one in asked
    ):
        raise BadQuery('memories must be a list of objects with a "memory_id"')
    return asked
