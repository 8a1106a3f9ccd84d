"""The caller of a request, the users whose memory it may use, the audit log, and API keys.

A key is random, shown once, stored as SHA-256 and looked up by the name that it begins with. It has 256
random bits, so a plain hash of it cannot be reversed by search.
"""

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, get_args

from jiyi.clock import Clock, utc_now
from jiyi.errors import Forbidden, InputError, NotFound, ScopeMissing, Unauthorized
from jiyi.records import Scope
from jiyi.storage import Ledger
from jiyi.wire import Access, check_tenant, shown_user, stored_user

KNOWN_SECONDS = 5.0
"""How long a server caches a key: once revoked, it opens nothing after that."""

_SECRET = re.compile(r"jiyi_([a-z0-9]{10})_[A-Za-z0-9_-]{43}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_DATES = ("created_at", "expires_at", "revoked_at")
_MAX_CACHED_KEYS = 10_000
_NEVER = (-KNOWN_SECONDS, None)
_CACHE_MARGIN = 0.5  # seconds between `is_known` and the use of the cache
_NO_DIGEST = hashlib.sha256(b"").hexdigest()
_audit_log = logging.getLogger("jiyi.audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request, determined by the key alone."""

    key: str = ""  # the key's name; "" where the server needs none
    tenant: str = ""  # "" for none: users are stored under their own ids
    access: frozenset[Access]
    user: str | None = None  # the only one the key is for

    def check(self, needed: Access) -> None:
        """Raise `Forbidden` unless the key has this access; admin also needs a key without tenant."""
        if needed not in self.access:
            has = ", ".join(sorted(self.access))
            raise Forbidden(f"this needs a key with the scope {needed!r}; this one has {has}")
        if needed == "admin" and self.tenant:
            raise Forbidden("this concerns the whole database; it needs a key without a tenant")

    def stored_user(self, given: str | None) -> str:
        """Return the id under which the user that is meant is stored; ScopeMissing: none is named."""
        user = self.user if given is None else given
        if user is None:
            raise ScopeMissing("whose memory? Send user_id, or use a key that is for one user")
        if self.user is not None and user != self.user:
            raise Forbidden("this key is for one user, and not for the one that user_id names")
        return stored_user(self.tenant, Scope(user_id=user).user_id)


LOCAL_CALLER = Caller(access=frozenset(get_args(Access)))
"""The caller of a server without keys: a program on the same machine."""


def parse_access(names: Collection[str]) -> frozenset[Access]:
    """Return what scopes allow, by their names; InputError: there is no such scope, or none is named."""
    scopes = get_args(Access)
    if unknown := sorted(set(names) - set(scopes)):
        raise InputError(f"no scope is named {', '.join(unknown)}; there are {', '.join(scopes)}")
    if not names:
        raise InputError(f"name at least one scope: {', '.join(scopes)}")
    return frozenset(name for name in scopes if name in names)


def audit(action: str, caller: Caller, *, user: str | None = None, **more: Any) -> None:
    """Write one line of JSON to the log ``jiyi.audit``: who did what to whose memory, without any text of it.

    The action is a verb, or one such as "key.revoke"; ``user`` is a stored id, ``more`` names and numbers.
    """
    who = {"tenant": caller.tenant, "key": caller.key, "user": None if user is None else shown_user(user)}
    line = {"time": utc_now().isoformat(), "audit": action, **who, **more}
    _audit_log.info(json.dumps(line, ensure_ascii=False))


@contextmanager
def audited(action: str, caller: Caller, *, user: str | None, **more: Any) -> Iterator[None]:
    """Write a line before the block and one after it with its ``outcome``.

    A "begun" without a second line means that the process ended in between.
    """
    audit(action, caller, user=user, **more, outcome="begun")
    try:
        yield
    except BaseException as error:
        audit(action, caller, user=user, **more, outcome="failed", error=type(error).__name__)
        raise
    audit(action, caller, user=user, **more, outcome="done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The stored facts about a key; the key itself is not stored."""

    name: str  # what it begins with, after "jiyi_"
    digest: str  # SHA-256 of the whole key, in hex
    caller: Caller
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def ended(self, now: datetime) -> str:
        """Return why the key is no longer valid, "" if it is."""
        if self.revoked_at is not None and self.revoked_at <= now:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else ""

    def to_dict(self) -> dict[str, Any]:
        """Return what may be shown of it, as JSON values."""
        caller, dates = self.caller, {at: getattr(self, at) for at in _DATES}
        owner = {"tenant": caller.tenant, "scopes": sorted(caller.access), "user": caller.user}
        return {"name": self.name, **owner, **{at: date and date.isoformat() for at, date in dates.items()}}


class Keys:
    """The keys in a database, for every server on it and for the command line.

    Safe to use from several threads. Keys are cached for `KNOWN_SECONDS`.
    """

    def __init__(self, ledger: Ledger, *, clock: Clock = utc_now) -> None:
        self._ledger = ledger
        self._clock = clock
        self._cache: dict[str, tuple[float, Key | None]] = {}
        self._last_needed: tuple[float, bool] = (-KNOWN_SECONDS, False)

    def create(
        self,
        tenant: str | None,
        access: Collection[str],
        *,
        user: str | None = None,
        expires_in: timedelta | None = None,
    ) -> tuple[Key, str]:
        """Make a key and return its record, and the key itself, which is not stored."""
        tenant = "" if tenant is None else check_tenant(tenant)  # "" may be a variable that is not set
        if tenant and "admin" in access:
            raise InputError("admin concerns the whole database: a key of a tenant cannot have it")
        if user is not None:
            stored_user(tenant, Scope(user_id=user).user_id)
        if expires_in is not None and expires_in <= timedelta(0):
            raise InputError("a key expires after it is made; give a time such as 90d")
        name = "".join(secrets.choice(_ALPHABET) for _ in range(10))
        secret = f"jiyi_{name}_{secrets.token_urlsafe(32)}"
        caller = Caller(key=name, tenant=tenant, access=parse_access(access), user=user)
        now, digest = self._clock(), _hash_secret(secret)
        expires_at = None if expires_in is None else now + expires_in
        key = Key(name=name, digest=digest, caller=caller, created_at=now, expires_at=expires_at)
        self._store(key)
        return key, secret

    def list(self, tenant: str | None = None) -> list[Key]:
        """Return all keys, oldest first; with a tenant only theirs."""
        keys = [_read_key(name, text) for name, text in self._ledger.keys().items()]
        keys = [key for key in keys if tenant is None or key.caller.tenant == tenant]
        return sorted(keys, key=lambda key: (key.created_at, key.name))

    def revoke(self, name: str) -> Key:
        """End a key now; an ended one is left unchanged. NotFound: there is no key of this name."""
        key = self._get(name)
        if key.revoked_at is None:
            key = replace(key, revoked_at=self._clock())
            self._store(key)
        return key

    def rotate(self, name: str, *, keep: timedelta = timedelta(0)) -> tuple[Key, str]:
        """Make a key with the access of another one, which ends after ``keep``; InputError: it has ended."""
        old, now = self._get(name), self._clock()
        if reason := old.ended(now):
            raise InputError(f"the key {name} is {reason}; make a new one with: jiyi keys create")
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        caller = old.caller
        created = self.create(caller.tenant or None, caller.access, user=caller.user, expires_in=lifetime)
        self._store(replace(old, revoked_at=now + keep))
        return created

    def needed(self) -> bool:
        """Return whether requests must carry a key: once any was made."""
        read_at, needed = self._last_needed
        if not needed and time.monotonic() - read_at >= KNOWN_SECONDS:
            needed = bool(self._ledger.keys())
            self._last_needed = (time.monotonic(), needed)
        return needed

    def is_known(self, secret: str | None) -> bool:
        """Return whether `caller` can tell without asking the database."""
        fresh = time.monotonic() - KNOWN_SECONDS + _CACHE_MARGIN
        read_at, needed = self._last_needed
        if not needed:
            return read_at > fresh
        parts = None if secret is None else _SECRET.fullmatch(secret)
        return parts is None or self._cache.get(parts[1], _NEVER)[0] > fresh

    def caller(self, secret: str | None) -> Caller:
        """Return who sent a request with this key; where no key was ever made any will do."""
        if not self.needed():
            return LOCAL_CALLER
        if secret is None:
            raise Unauthorized("send an API key: Authorization: Bearer jiyi_…; /openai/v1 takes X-Jiyi-Key")
        parts = _SECRET.fullmatch(secret)
        key = None if parts is None else self._look_up(parts[1])
        matches = hmac.compare_digest(_hash_secret(secret), _NO_DIGEST if key is None else key.digest)
        if key is None or not matches:
            raise Unauthorized("this API key is not known; make one with: jiyi keys create")
        if reason := key.ended(self._clock()):
            raise Unauthorized(f"this API key is {reason}; make a new one with: jiyi keys create")
        return key.caller

    def _look_up(self, name: str) -> Key | None:
        read_at, key = self._cache.get(name, _NEVER)
        if time.monotonic() - read_at < KNOWN_SECONDS:
            return key
        text = self._ledger.key(name)
        key = None if text is None else _read_key(name, text)
        if len(self._cache) >= _MAX_CACHED_KEYS:
            self._cache.clear()
        self._cache[name] = (time.monotonic(), key)
        return key

    def _get(self, name: str) -> Key:
        text = self._ledger.key(name)
        if text is None:
            raise NotFound(f"there is no key {name!r}; jiyi keys list names all")
        return _read_key(name, text)

    def _store(self, key: Key) -> None:
        self._ledger.put_key(key.name, json.dumps({**key.to_dict(), "digest": key.digest}))
        self._cache.pop(key.name, None)
        self._last_needed = (time.monotonic(), True)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read_key(name: str, text: str) -> Key:
    row = json.loads(text)
    caller = Caller(key=name, tenant=row["tenant"], access=parse_access(row["scopes"]), user=row["user"])
    dates: dict[str, Any] = {at: row[at] and datetime.fromisoformat(row[at]) for at in _DATES}
    return Key(name=name, digest=row["digest"], caller=caller, **dates)
