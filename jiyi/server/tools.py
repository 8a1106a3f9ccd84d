"""``/mcp``: the memory as tools of the Model Context Protocol, with the server's own keys.

A document tells clients of OAuth only where an issuer is set: those that find one start it, and leave the key
in their settings unused. Each request stands alone, so that any of several servers may answer it.
"""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, get_args
from urllib.parse import unquote

from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jiyi.errors import JiyiError, ScopeMissing, Unauthorized
from jiyi.manager import MemoryManager
from jiyi.mcp.caller import REQUEST, Caller, Right
from jiyi.mcp.server import make_server
from jiyi.server.asking import caller_of, in_thread
from jiyi.server.audit import audited
from jiyi.server.callers import Caller as Asking
from jiyi.server.gate import problem_body
from jiyi.server.oauth import issuer_of
from jiyi.server.served import Served, secret_of
from jiyi.wire import shown_text

__all__ = ["AGENT", "USER", "ToolsApp"]

USER = "x-jiyi-user"
"""The header that names the user, percent-encoded, where the key is for more than one."""

AGENT = "x-jiyi-agent"
"""The header that names the agent."""


class ToolsApp:
    """An ASGI app; it answers while `running`; with ``local`` only programs and pages of this machine."""

    def __init__(self, served: Served, *, local: bool) -> None:
        self._served = served
        self._issuer = issuer_of(served.settings)
        language = served.settings.language
        server = make_server(_Tenants(served), "en" if language == "auto" else language)
        ours = [f"{name}:*" for name in ("127.0.0.1", "localhost", "[::1]")]
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=int(served.settings.server_body_mb * 1e6),
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=local,
                allowed_hosts=ours,
                allowed_origins=[f"http://{host}" for host in ours],
            ),
        )
        self._manager = server.session_manager

    def routes(self) -> list[Route]:
        """Return ``/mcp``, and what tells of the issuer where one is set."""
        told = [] if self._issuer is None else self._issuer.routes()
        return [Route("/mcp", self, methods=["POST"]), *told]  # nothing is sent unasked: no GET

    async def _caller(self, request: Request) -> None:
        served, issuer = self._served, self._issuer
        given = secret_of(request.headers) or ""
        if issuer is None or given.startswith("jiyi_"):
            await caller_of(request, served)
        elif not given:
            raise Unauthorized("send an access token or an API key: Authorization: Bearer …")
        else:
            request.state.caller = await in_thread(served, lambda: issuer.caller(given))
            served.rate.take(request.state.caller.key)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Answer requests within this context."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that carries a key, or a token of the issuer."""
        request = Request(scope)
        try:
            await self._caller(request)
        except JiyiError as error:
            status, body, headers = problem_body(error)
            if status == 401 and self._issuer is not None:
                headers["www-authenticate"] = self._issuer.challenge
            await Response(body, status, headers)(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


class _Tenants:
    """The memory of whoever sent the request in hand."""

    def __init__(self, served: Served) -> None:
        self._served = served

    @property
    def memory(self) -> MemoryManager:
        """The memory of the tenant's users."""
        return self._served.memory_of(_asking(REQUEST.get()).tenant)

    def caller(self, request: Any) -> Caller:
        """Return whose memory it is about, as key and headers say."""
        asking = _asking(request)
        named = unquote(request.headers.get(USER, "")) or asking.user
        if named is None and not asking.tenant:
            named = self._served.settings.user_id
        if named is None:
            raise ScopeMissing(
                "whose memory? Use a key that is for one user (jiyi keys create --user NAME), or send the "
                "header X-Jiyi-User"
            )
        return Caller(
            user_id=asking.stored_user(named),
            agent_id=unquote(request.headers.get(AGENT, "")) or None,
            rights=frozenset(right for right in get_args(Right) if right in asking.access),
            shown=lambda text: shown_text(text, asking.tenant),
        )

    def forgetting(self) -> AbstractContextManager[None]:
        """Return a context that is audited."""
        request = REQUEST.get()
        return audited("forget", _asking(request), user=self.caller(request).user_id, said=["mcp"])

    def restoring(self, at: datetime) -> str:
        """Return the request that brings it back."""
        return f'POST /v1/restore {{"forgotten_at": "{at.isoformat()}"}}'


def _asking(request: Any) -> Asking:
    asking: Asking = request.state.caller
    return asking
