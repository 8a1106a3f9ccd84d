"""Access tokens of an OAuth issuer for ``/mcp``: JWTs checked by its keys (RFC 9068), and RFC 9728."""

import hashlib
import logging
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import jwt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jiyi.endpoint import is_web_address
from jiyi.errors import ServerUnreachable, SettingsError, Unauthorized
from jiyi.server.callers import Caller, access_of
from jiyi.settings import Settings
from jiyi.wire import check_tenant

__all__ = ["Issuer", "issuer_of"]

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
        url: the issuer, as its tokens name it.
        keys: where its JSON Web Key Set is.
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

        async def answer(_: Request) -> Response:
            return JSONResponse(document)

        return [Route(self._path, answer, methods=["GET"])]

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
    return access_of(known) if known else frozenset()
