"""The tools of `jiyi.mcp` at /mcp, and the tokens of an OAuth server that let clients in."""

import hashlib
import logging
import threading
import time
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

import jwt
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from jiyi.endpoint import is_web_address
from jiyi.errors import JiyiError, ScopeMissing, ServerUnreachable, SettingsError, Unauthorized
from jiyi.manager import MemoryManager
from jiyi.mcp.caller import CURRENT_REQUEST, Right
from jiyi.mcp.caller import Caller as McpCaller
from jiyi.mcp.server import make_server
from jiyi.server.gate import problem_response
from jiyi.server.keys import Caller, audited, parse_access
from jiyi.server.served import Served, authenticate, read_secret, run_in_thread
from jiyi.settings import Settings
from jiyi.wire import check_tenant, shown_text

_log = logging.getLogger("jiyi.server")

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_CLAIMS = ["exp", "iss", "aud", "sub"]  # what a token must have
_SCOPES = ("read", "write", "forget")  # what a token can allow; admin takes a key
_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_CLOCK_LEEWAY = 30  # seconds that clocks may differ
_KEYS_SECONDS = 300  # seconds
_NEW_KEY_SECONDS = 60  # seconds after which a key that is not among them may be a new one
_RETRY_AFTER = 1  # second after a failure
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def issuer_of(settings: Settings) -> "Issuer | None":
    """Return the issuer that the settings ``oauth_*`` name; SettingsError: one is missing or unsafe."""
    urls = {name: getattr(settings, name) for name in ("oauth_issuer", "oauth_keys_url", "oauth_resource")}
    if not any(urls.values()):
        return None
    for name, url in urls.items():
        if not url or not is_web_address(url):
            raise SettingsError(f"{name} must be a web address; {', '.join(urls)} are set together")
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise SettingsError(f"{name} must begin with https: over http others could forge tokens")
    return Issuer(*urls.values(), tenant=settings.oauth_tenant and check_tenant(settings.oauth_tenant))


class Issuer:
    """Checks the tokens that one issuer gave for ``/mcp``, whose address for clients is ``resource``.

    ``url`` is the issuer as its tokens name it, ``keys`` where its JSON Web Key Set is.
    """

    def __init__(self, url: str, keys: str, resource: str, *, tenant: str) -> None:
        self._url = url
        self._client = jwt.PyJWKClient(keys, cache_jwk_set=False, timeout=5)
        self._lock = threading.Lock()  # callers that wait while the keys are read share them
        self._keys: dict[str, jwt.PyJWK] | None = None  # by name, None where they could not be read
        self._keys_read_at = float("-inf")
        self._resource = resource
        self._tenant = tenant
        parts = urlsplit(resource)
        self._path = _WELL_KNOWN + parts.path.rstrip("/")
        self.challenge = f'Bearer resource_metadata="{parts.scheme}://{parts.netloc}{self._path}"'

    def caller(self, token: str) -> Caller:
        """Return who sent a token: the user is its subject. May wait for the issuer's keys."""
        try:
            key = self._find_key(jwt.get_unverified_header(token).get("kid"))
            wanted: Any = {"audience": self._resource, "issuer": self._url, "options": {"require": _CLAIMS}}
            claims = jwt.decode(token, key, algorithms=_ALGORITHMS, leeway=_CLOCK_LEEWAY, **wanted)
        except jwt.PyJWTError as error:
            raise Unauthorized(f"this access token is not valid here: {type(error).__name__}") from error
        subject = str(claims["sub"])
        name = hashlib.sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        return Caller(key=f"oauth:{name}", tenant=self._tenant, access=_read_access(claims), user=subject)

    def routes(self) -> list[Route]:
        """Return the route of the document that tells clients which issuer to ask (RFC 9728)."""
        document = {"resource": self._resource, "authorization_servers": [self._url]}
        document |= {"scopes_supported": list(_SCOPES), "bearer_methods_supported": ["header"]}
        return [Route(self._path, JSONResponse(document), methods=["GET"])]

    def _find_key(self, name: object) -> jwt.PyJWK:
        with self._lock:
            age, keys = time.monotonic() - self._keys_read_at, self._keys
            if age >= (_RETRY_AFTER if keys is None else _KEYS_SECONDS if name in keys else _NEW_KEY_SECONDS):
                keys = self._keys = self._read_keys()
                self._keys_read_at = time.monotonic()
        if keys is None:
            raise ServerUnreachable("the keys of the OAuth issuer cannot be read; ask again later")
        if name not in keys:
            raise Unauthorized("this access token is not valid here: the issuer has no such key")
        return keys[str(name)]

    def _read_keys(self) -> dict[str, jwt.PyJWK] | None:
        try:
            return {str(key.key_id): key for key in self._client.get_signing_keys()}
        except (jwt.PyJWTError, OSError, ValueError) as error:
            _log.warning("the keys of the OAuth issuer cannot be read: %s", error)
            return None


def _read_access(claims: dict[str, Any]) -> frozenset[Any]:
    """Return what the scopes of a token allow; scopes of other servers are ignored."""
    scopes = claims.get("scope", claims.get("scp", ()))
    names = set(scopes.split() if isinstance(scopes, str) else scopes if isinstance(scopes, list) else ())
    granted = [name for name in _SCOPES if name in names]
    return parse_access(granted) if granted else frozenset()


_USER_HEADER = "x-jiyi-user"  # percent-encoded, where the key is for more than one
_AGENT_HEADER = "x-jiyi-agent"


class ToolsApp:
    """An ASGI app; it answers while `running`."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._issuer = issuer_of(served.settings)
        language = served.settings.language
        server = make_server(_Tenants(served), "en" if language == "auto" else language)
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=int(served.settings.server_body_mb * 1e6),
            # The gate checks the hosts.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._manager = server.session_manager

    def routes(self) -> list[Route]:
        """Return ``/mcp``, and the document about the issuer where one is set."""
        documents = [] if self._issuer is None else self._issuer.routes()
        own = [Route(path, self, methods=["POST"]) for path in ("/mcp/", "/mcp")]  # nothing is sent unasked
        return [*own, *documents]

    async def _authenticate(self, request: Request) -> None:
        issuer, secret = self._issuer, read_secret(request.headers) or ""
        if issuer is None or secret.startswith("jiyi_"):
            await authenticate(request)
        elif not secret:
            raise Unauthorized("send an access token or an API key: Authorization: Bearer …")
        else:
            request.state.caller = await run_in_thread(self._served, lambda: issuer.caller(secret))
            self._served.rate.take(request.state.caller.key)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Answer requests within this context."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that carries a key, or a token of the issuer."""
        request = Request(scope)
        try:
            await self._authenticate(request)
        except JiyiError as error:
            response = problem_response(error)
            if response.status_code == 401 and self._issuer is not None:
                response.headers["www-authenticate"] = self._issuer.challenge
            await response(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


@dataclass(frozen=True)
class _Tenants:
    """The memory of the current request's sender."""

    _served: Served

    @property
    def memory(self) -> MemoryManager:
        """The memory of the tenant's users."""
        return self._served.memory_of(CURRENT_REQUEST.get().state.caller.tenant)

    def caller(self, request: Any) -> McpCaller:
        """Return whose memory the request is about, by key and headers."""
        caller: Caller = request.state.caller
        user = unquote(request.headers.get(_USER_HEADER, "")) or caller.user
        if user is None and not caller.tenant:
            user = self._served.settings.user_id
        if user is None:
            raise ScopeMissing(
                "whose memory? Use a key that is for one user (jiyi keys create --user NAME), "
                "or send the header X-Jiyi-User"
            )
        user, agent = caller.stored_user(user), unquote(request.headers.get(_AGENT_HEADER, "")) or None
        rights = frozenset(right for right in get_args(Right) if right in caller.access)
        public_text = partial(shown_text, tenant=caller.tenant)
        return McpCaller(user_id=user, agent_id=agent, rights=rights, public_text=public_text)

    def forget_context(self) -> AbstractContextManager[None]:
        """Return a context that is audited."""
        request = CURRENT_REQUEST.get()
        return audited("forget", request.state.caller, user=self.caller(request).user_id, said=["mcp"])

    def restore_hint(self, at: datetime) -> str:
        """Return the request that brings it back."""
        return f'POST /v1/restore {{"forgotten_at": "{at.isoformat()}"}}'
