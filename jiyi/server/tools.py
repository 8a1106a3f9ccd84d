"""The tools of `jiyi.mcp` at /mcp, and the tokens of an OAuth server that let clients in."""

import hashlib
import logging
import threading
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

import jwt
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jiyi.endpoint import is_web_address
from jiyi.errors import JiyiError, ScopeMissing, ServerUnreachable, SettingsError, Unauthorized
from jiyi.manager import MemoryManager
from jiyi.mcp.caller import CURRENT_REQUEST, Right
from jiyi.mcp.caller import Caller as Calling
from jiyi.mcp.server import make_server
from jiyi.server.asking import authenticate, run_in_thread
from jiyi.server.audit import audited
from jiyi.server.callers import Caller, parse_access
from jiyi.server.gate import problem_response
from jiyi.server.served import Served, read_secret
from jiyi.settings import Settings
from jiyi.wire import check_tenant, shown_text

__all__ = ["AGENT", "USER", "Issuer", "ToolsApp", "issuer_of"]

_log = logging.getLogger("jiyi.server")

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_SCOPES = ("read", "write", "forget")  # what a token can allow; admin takes a key
_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_LEEWAY = 30  # seconds that clocks may differ
_KEYS_LAST = 300  # seconds
_ASKED_AGAIN = 60  # seconds after which a key that is not among them may be a new one
_TRIED_AGAIN = 1  # second after a failure
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def issuer_of(settings: Settings) -> "Issuer | None":
    """Return the issuer that the settings ``oauth_*`` name, None where they name none.

    Raises:
        SettingsError: one of them is missing, or no address that is safe to trust.
    """
    given = {name: getattr(settings, name) for name in ("oauth_issuer", "oauth_keys_url", "oauth_resource")}
    if not any(given.values()):
        return None
    for name, url in given.items():
        if not url or not is_web_address(url):
            raise SettingsError(f"{name} must be a web address; {', '.join(given)} are set together")
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise SettingsError(f"{name} must begin with https: whoever is on the way could make tokens")
    return Issuer(*given.values(), tenant=check_tenant(settings.oauth_tenant))


class Issuer:
    """Checks the tokens that one issuer gave for this server's ``/mcp``.

    Args:
        url, keys: the issuer, as its tokens name it, and where its JSON Web Key Set is.
        resource: the address of ``/mcp`` as clients know it; tokens must be for it.
        tenant: whose users its subjects are.
    """

    def __init__(self, url: str, keys: str, resource: str, *, tenant: str) -> None:
        self._url = url
        self._client = jwt.PyJWKClient(keys, cache_jwk_set=False, timeout=5)
        self._lock = threading.Lock()  # whoever waits for the keys while they are read shares what comes
        self._keys: dict[str, jwt.PyJWK] | None = None  # by name, None where they could not be read
        self._asked = float("-inf")
        self._resource = resource
        self._tenant = tenant
        parts = urlsplit(resource)
        self._path = _WELL_KNOWN + parts.path.rstrip("/")
        self.challenge = f'Bearer resource_metadata="{parts.scheme}://{parts.netloc}{self._path}"'

    def caller(self, token: str) -> Caller:
        """Return who sent a token: the user is its subject. May wait for the issuer's keys.

        Raises:
            Unauthorized: it is no token of the issuer for this server, or its time is over.
            ServerUnreachable: the issuer's keys cannot be read.
        """
        try:
            claims = jwt.decode(
                token,
                self._key(jwt.get_unverified_header(token).get("kid")),
                algorithms=_ALGORITHMS,
                audience=self._resource,
                issuer=self._url,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthorized(f"this access token is not valid here: {type(error).__name__}") from error
        subject = str(claims["sub"])
        name = hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        return Caller(key=f"oauth:{name}", tenant=self._tenant, access=_access(claims), user=subject)

    def routes(self) -> list[Route]:
        """Return the route of the document that tells clients which issuer to ask (RFC 9728)."""
        document = {
            "resource": self._resource,
            "authorization_servers": [self._url],
            "scopes_supported": list(_SCOPES),
            "bearer_methods_supported": ["header"],
        }
        return [Route(self._path, JSONResponse(document), methods=["GET"])]

    def _key(self, name: object) -> jwt.PyJWK:
        """Return the issuer's key of a name."""
        with self._lock:
            since, keys = time.monotonic() - self._asked, self._keys
            if since >= (_TRIED_AGAIN if keys is None else _KEYS_LAST if name in keys else _ASKED_AGAIN):
                keys = self._keys = self._read()
                self._asked = time.monotonic()
        if keys is None:
            raise ServerUnreachable("the keys of the OAuth issuer cannot be read; ask again later")
        if name not in keys:
            raise Unauthorized("this access token is not valid here: its key is none of the issuer's")
        return keys[str(name)]

    def _read(self) -> dict[str, jwt.PyJWK] | None:
        try:
            return {str(key.key_id): key for key in self._client.get_signing_keys()}
        except (jwt.PyJWTError, OSError, ValueError) as error:
            _log.warning("the keys of the OAuth issuer cannot be read: %s", error)
            return None


def _access(claims: dict[str, Any]) -> frozenset[Any]:
    """Return what the scopes of a token allow; those of other servers mean nothing here."""
    said = claims.get("scope", claims.get("scp", ()))
    named = set(said.split() if isinstance(said, str) else said if isinstance(said, list) else ())
    known = [name for name in _SCOPES if name in named]
    return parse_access(known) if known else frozenset()


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
        given = read_secret(request.headers) or ""
        if issuer is None or given.startswith("jiyi_"):
            await authenticate(request, served)
        elif not given:
            raise Unauthorized("send an access token or an API key: Authorization: Bearer …")
        else:
            request.state.caller = await run_in_thread(served, lambda: issuer.caller(given))
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
            status, body, headers = problem_response(error)
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
        return self._served.memory_of(_asking(CURRENT_REQUEST.get()).tenant)

    def caller(self, request: Any) -> Calling:
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
        return Calling(
            user_id=asking.stored_user(named),
            agent_id=unquote(request.headers.get(AGENT, "")) or None,
            rights=frozenset(right for right in get_args(Right) if right in asking.access),
            public_text=lambda text: shown_text(text, asking.tenant),
        )

    def forget_context(self) -> AbstractContextManager[None]:
        """Return a context that is audited."""
        request = CURRENT_REQUEST.get()
        return audited("forget", _asking(request), user=self.caller(request).user_id, said=["mcp"])

    def restore_hint(self, at: datetime) -> str:
        """Return the request that brings it back."""
        return f'POST /v1/restore {{"forgotten_at": "{at.isoformat()}"}}'


def _asking(request: Any) -> Caller:
    asking: Caller = request.state.caller
    return asking
