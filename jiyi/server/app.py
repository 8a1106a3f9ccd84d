"""The app: everything a server answers, on one memory."""

import html
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from jiyi import errors
from jiyi.errors import InputError, JiyiError, MissingExtra, NotFound, RequestTimedOut, StorageError
from jiyi.manager import MemoryManager
from jiyi.monitor import prometheus_text
from jiyi.server import mem0
from jiyi.server.gate import OPENAI, Gate, Metrics, openai_failure, problem_response
from jiyi.server.rest import describe_api, rest_routes
from jiyi.server.served import Served, authenticate, get_served, run_in_thread
from jiyi.verbs.messages import warm_up
from jiyi.wire import problem_of, shown_text

if TYPE_CHECKING:  # these need extras
    from jiyi.server.proxy import Proxy
    from jiyi.server.tools import ToolsApp

_MAX_THREADS = 64  # requests whose verbs run at once
_READY_SECONDS = 2.0  # for the database to answer a probe; verbs wait longer


def make_app(memory: MemoryManager, *, local: bool = True) -> Starlette:
    """Return an ASGI app over a memory, which it closes when it is shut down.

    The memory is opened without a user; tenants and users come with the requests. A ``local`` app is for this
    machine only: while there are no keys it needs none, and answers to the names of this machine alone.
    """
    served, metrics = Served(memory), Metrics()
    optional = list(_make_optional(served))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = _MAX_THREADS
        async with AsyncExitStack() as stack:
            for part in reversed(optional):
                await stack.enter_async_context(part.running())
            await anyio.to_thread.run_sync(warm_up, memory.counter)
            yield
        await anyio.to_thread.run_sync(served.close)

    routes = [*rest_routes(), *mem0.mem0_routes()]
    routes += [Route(path, endpoint, methods=["GET"]) for path, endpoint in _OWN_ROUTES.items()]
    routes += [route for part in optional for route in part.routes()]
    max_bytes, keys = served.settings.server_body_mb * 1e6, served.keys if local else None
    gate = Middleware(Gate, metrics=metrics, max_bytes=max_bytes, keys=keys, refusal=_answer_refusal)
    anything: Any = dict.fromkeys(("allow_methods", "allow_headers", "expose_headers"), ("*",))
    cors = Middleware(CORSMiddleware, allow_origins=served.settings.server_origins, **anything)
    middleware = [cors, gate] if served.settings.server_origins else [gate]
    handlers: Any = {JiyiError: _answer_error, HTTPException: _answer_error}
    app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # behind a proxy with TLS it would redirect to plain HTTP
    app.state.served, app.state.metrics = served, metrics
    return app


def _answer_refusal(scope: Scope, error: JiyiError) -> Response:
    """Answer an error in the form of the API that the request is for, with ids as the tenant knows them."""
    caller = scope["state"].get("caller")
    text = shown_text(str(error), caller.tenant if caller else "")
    if scope["path"].startswith(OPENAI):
        problem = problem_of(error)
        return openai_failure(problem["status"], text, problem["type"].rpartition("#")[2])
    if scope["path"].startswith(mem0.PREFIX):
        return mem0.refusal(error, text)
    return problem_response(error, text)


def _make_optional(served: Served) -> "Iterator[Proxy | ToolsApp]":
    """Yield the proxy and the app at ``/mcp``; MissingExtra: its package is not installed, but it is set."""
    for package, extra, setting in (("httpx", "client", "proxy_upstream"), ("mcp", "mcp", "oauth_issuer")):
        if find_spec(package) is None:
            if getattr(served.settings, setting) is not None:
                raise MissingExtra(f'{setting} needs a package: pip install "jiyi[{extra}]"')
        elif package == "httpx":
            from jiyi.server.proxy import Proxy

            yield Proxy(served)
        else:
            from jiyi.server.tools import ToolsApp

            yield ToolsApp(served)


async def _show_ready(request: Request) -> Response:
    """Say that the database answers and can be written to."""
    served = get_served(request)
    try:
        await run_in_thread(served, served.memory.parts.ledger.check_reachable, seconds=_READY_SECONDS)
    except (StorageError, RequestTimedOut):
        return JSONResponse({"status": "the database does not answer"}, 503, {"retry-after": "1"})
    return JSONResponse({"status": "ok"})


async def _show_metrics(request: Request) -> Response:
    """Show the metrics of this process to Prometheus; a key must be without a tenant."""
    served = get_served(request)
    (await authenticate(request)).check("admin")
    memory, text = served.memory, request.app.state.metrics.text()
    if (watched := memory.monitor) is not None:
        text += await run_in_thread(served, lambda: prometheus_text(watched, memory.reading()))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _show_errors(_: Request) -> Response:
    """Show the meaning of each error: the page that the `type` of a problem points to."""
    meanings = {name: html.escape(inspect.getdoc(getattr(errors, name)) or "") for name in errors.__all__}
    rows = "".join(f'<dt id="{name}"><b>{name}</b></dt><dd>{text}</dd>' for name, text in meanings.items())
    return HTMLResponse(f"<!doctype html><meta charset=utf-8><title>Errors of jiyi</title><dl>{rows}</dl>")


async def _answer_error(request: Request, error: Exception) -> Response:
    """Answer an error as a problem."""
    if isinstance(error, JiyiError):
        return _answer_refusal(request.scope, error)
    assert isinstance(error, HTTPException)
    fault = NotFound if error.status_code == 404 else InputError
    refused = fault(f"there is no {request.method} {request.scope['path'][:100]}; see /openapi.json")
    response = problem_response(refused, status=error.status_code, title=error.detail)
    if error.status_code == 405:
        routes = [r for r in request.app.router.routes if r.matches(request.scope)[0] is not Match.NONE]
        methods = set[str]().union(*(getattr(route, "methods", None) or () for route in routes))
        response.headers["Allow"] = ", ".join(sorted(methods))
    return response


_OWN_ROUTES: Mapping[str, Callable[..., Any]] = {
    "/healthz": JSONResponse({"status": "ok"}),
    "/readyz": _show_ready,
    "/metrics": _show_metrics,
    "/errors": _show_errors,
    "/openapi.json": lambda _: JSONResponse(describe_api()),
}
