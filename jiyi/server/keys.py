"""API keys: random, shown once, kept as SHA-256, looked up by the name that they begin with.

A key is random in all of its 256 bits, so that a plain hash of it cannot be searched back.
"""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError, NotFound, Unauthorized
from jiyi.records import Scope
from jiyi.server.callers import LOCAL_CALLER, Caller, parse_access
from jiyi.storage import Ledger
from jiyi.wire import check_tenant, stored_user

__all__ = ["KNOWN_SECONDS", "Key", "Keys"]

KNOWN_SECONDS = 5.0
"""How long a server believes what it knows of a key: a revoked one opens nothing after that."""

_SECRET = re.compile(r"jiyi_([a-z0-9]{10})_[A-Za-z0-9_-]{43}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_DATES = ("created_at", "expires_at", "revoked_at")
_MOST_KNOWN = 10_000
_NEVER = (-KNOWN_SECONDS, None)
_MARGIN = 0.5  # seconds between asking whether a key is known and using what is known
_NO_DIGEST = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is kept about a key; the key itself is not."""

    name: str  # what it begins with, after "jiyi_"
    digest: str  # SHA-256 of the whole key, in hex
    caller: Caller
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def ended(self, now: datetime) -> str:
        """Return why the key opens nothing any more, "" where it does."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown of it, as JSON values."""
        dates = {at: getattr(self, at) for at in _DATES}
        return {
            "name": self.name,
            "tenant": self.caller.tenant,
            "scopes": sorted(self.caller.access),
            "user": self.caller.user,
            **{at: date and date.isoformat() for at, date in dates.items()},
        }


class Keys:
    """The keys in a database, for every server on it and for the command line.

    Safe to use from several threads. What it knows of a key it believes for `KNOWN_SECONDS`.
    """

    def __init__(self, ledger: Ledger, *, clock: Clock = utc_now) -> None:
        self._ledger = ledger
        self._clock = clock
        self._known: dict[str, tuple[float, Key | None]] = {}
        self._needed: tuple[float, bool] = (-KNOWN_SECONDS, False)

    def create(
        self,
        tenant: str,
        access: Collection[str],
        *,
        user: str | None = None,
        expires_in: timedelta | None = None,
    ) -> tuple[Key, str]:
        """Make a key and return what is kept about it, and the key, which is not kept.

        Raises:
            BadScope, InputError: the tenant, the user, a scope or the time to live cannot be one.
        """
        if tenant and "admin" in access:
            raise InputError("admin concerns the whole database: a key of a tenant cannot have it")
        if user is not None:
            stored_user(check_tenant(tenant), Scope(user_id=user).user_id)
        if expires_in is not None and expires_in <= timedelta(0):
            raise InputError("a key expires after it is made; give a time such as 90d")
        name = "".join(secrets.choice(_ALPHABET) for _ in range(10))
        secret = f"jiyi_{name}_{secrets.token_urlsafe(32)}"
        now = self._clock()
        key = Key(
            name=name,
            digest=_digest(secret),
            caller=Caller(key=name, tenant=check_tenant(tenant), access=parse_access(access), user=user),
            created_at=now,
            expires_at=None if expires_in is None else now + expires_in,
        )
        self._put(key)
        return key, secret

    def list(self, tenant: str | None = None) -> list[Key]:
        """Return all keys, oldest first; with a tenant only theirs."""
        keys = [_read(name, text) for name, text in self._ledger.keys().items()]
        keys = [key for key in keys if tenant is None or key.caller.tenant == tenant]
        return sorted(keys, key=lambda key: (key.created_at, key.name))

    def revoke(self, name: str) -> Key:
        """End a key now; one that is ended stays as it is.

        Raises:
            NotFound: there is no key of this name.
        """
        key = self._named(name)
        if key.revoked_at is None:
            key = replace(key, revoked_at=self._clock())
            self._put(key)
        return key

    def rotate(self, name: str, *, keep: timedelta = timedelta(0)) -> tuple[Key, str]:
        """Make a key that allows the same as another one, which ends after ``keep``.

        Raises:
            NotFound: there is no key of this name.
            InputError: the old one is ended already.
        """
        old, now = self._named(name), self._clock()
        if ended := old.ended(now):
            raise InputError(f"the key {name} is {ended}; make a new one with: jiyi keys create")
        left = None if old.expires_at is None else old.expires_at - old.created_at
        caller = old.caller
        made = self.create(caller.tenant, caller.access, user=caller.user, expires_in=left)
        self._put(replace(old, revoked_at=now + keep))
        return made

    def needed(self) -> bool:
        """Return whether requests must carry a key: where any was ever made."""
        asked_at, needed = self._needed
        if not needed and time.monotonic() - asked_at >= KNOWN_SECONDS:
            needed = bool(self._ledger.keys())
            self._needed = (time.monotonic(), needed)
        return needed

    def is_known(self, secret: str | None) -> bool:
        """Return whether `caller` can tell without asking the database."""
        fresh = time.monotonic() - KNOWN_SECONDS + _MARGIN
        asked_at, needed = self._needed
        if not needed:
            return asked_at > fresh
        parts = None if secret is None else _SECRET.fullmatch(secret)
        return parts is None or self._known.get(parts[1], _NEVER)[0] > fresh

    def caller(self, secret: str | None) -> Caller:
        """Return who sent a request with this key; where no key was ever made any will do.

        Raises:
            Unauthorized: there is none, or it is unknown, expired or revoked.
        """
        if not self.needed():
            return LOCAL_CALLER
        if secret is None:
            raise Unauthorized("send an API key: Authorization: Bearer jiyi_…")
        parts = _SECRET.fullmatch(secret)
        key = None if parts is None else self._looked_up(parts[1])
        same = hmac.compare_digest(_digest(secret), _NO_DIGEST if key is None else key.digest)
        if key is None or not same:
            raise Unauthorized("this API key is not known; make one with: jiyi keys create")
        if ended := key.ended(self._clock()):
            raise Unauthorized(f"this API key is {ended}; make a new one with: jiyi keys create")
        return key.caller

    def _looked_up(self, name: str) -> Key | None:
        asked_at, key = self._known.get(name, _NEVER)
        if time.monotonic() - asked_at < KNOWN_SECONDS:
            return key
        text = self._ledger.key(name)
        key = None if text is None else _read(name, text)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[name] = (time.monotonic(), key)
        return key

    def _named(self, name: str) -> Key:
        text = self._ledger.key(name)
        if text is None:
            raise NotFound(f"there is no key {name!r}; jiyi keys list names all")
        return _read(name, text)

    def _put(self, key: Key) -> None:
        self._ledger.put_key(key.name, json.dumps({**key.to_dict(), "digest": key.digest}))
        self._known.pop(key.name, None)
        self._needed = (time.monotonic(), True)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(name: str, text: str) -> Key:
    kept = json.loads(text)
    caller = Caller(key=name, tenant=kept["tenant"], access=parse_access(kept["scopes"]), user=kept["user"])
    dates: dict[str, Any] = {at: kept[at] and datetime.fromisoformat(kept[at]) for at in _DATES}
    return Key(name=name, digest=kept["digest"], caller=caller, **dates)
