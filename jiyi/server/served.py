"""The state of a server: one memory shared by all tenants, keys, jobs, rate limits and monitors."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace

from jiyi.errors import Unauthorized
from jiyi.manager import MemoryManager
from jiyi.monitor import ContextMonitor
from jiyi.server.callers import Caller
from jiyi.server.jobs import Jobs
from jiyi.server.keys import Keys
from jiyi.server.limits import RateLimit
from jiyi.settings import Settings

__all__ = ["Served", "read_secret"]

_MAX_TENANTS = 1_000  # whose monitors are kept


class Served:
    """A memory as a server shares it; ``memory`` is the one of users without a tenant."""

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory
        self.settings: Settings = memory.parts.settings
        self.keys = Keys(memory.parts.ledger, clock=memory.parts.clock)
        self.jobs = Jobs()
        self.rate = RateLimit(self.settings.server_requests_per_minute)
        self._tenants: OrderedDict[str, MemoryManager] = OrderedDict()
        self._lock = threading.Lock()

    def is_known(self, headers: Mapping[str, str]) -> bool:
        """Return whether `caller` can tell without asking the database."""
        try:
            return self.keys.is_known(read_secret(headers))
        except Unauthorized:
            return True

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Return who sent a request, by its headers, and count it. May wait for the database.

        Raises:
            Unauthorized: the key is missing, unknown, expired or revoked.
            RateLimited: there were too many requests with it.
        """
        caller = self.keys.caller(read_secret(headers))
        self.rate.take(caller.key)
        return caller

    def memory_of(self, tenant: str) -> MemoryManager:
        """Return the memory of a tenant's users: the same database, its own monitor."""
        if not tenant or self.memory.monitor is None:
            return self.memory
        with self._lock:
            memory = self._tenants.pop(tenant, None)
            if memory is None:
                parts = self.memory.parts
                monitor = ContextMonitor(clock=parts.clock, counter=parts.counter)
                memory = MemoryManager(replace(parts, monitor=monitor))
            self._tenants[tenant] = memory
            if len(self._tenants) > _MAX_TENANTS:
                self._tenants.popitem(last=False)
        return memory

    def close(self) -> None:
        """Let jobs end, then release the database."""
        self.jobs.close()
        self.memory.close()


def read_secret(headers: Mapping[str, str]) -> str | None:
    """Return the key or token of a request: ``Authorization: Bearer`` or ``Token``, or ``X-API-Key``.

    Raises:
        Unauthorized: it is sent in another way.
    """
    secret = headers.get("x-jiyi-key") or headers.get("x-api-key")
    if secret is None and (authorization := headers.get("authorization")) is not None:
        scheme, _, secret = authorization.strip().partition(" ")
        if scheme.lower() not in ("bearer", "token"):
            raise Unauthorized("send the API key as Authorization: Bearer jiyi_…")
    return secret.strip() if secret else None
