"""How many requests a key may send: a bucket of tokens for each (as in RFC 2697, with one rate)."""

import math
import threading
import time
from collections.abc import Callable

from jiyi.errors import RateLimited

__all__ = ["RateLimit"]

_MAX_KEYS = 10_000  # keys whose buckets are kept


class RateLimit:
    """Lets each key send so many requests a minute, at once or spread; 0 lets all through."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(per_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, when
        self._lock = threading.Lock()

    def take(self, key: str) -> None:
        """Count a request; RateLimited: the bucket is empty."""
        if not self._most:
            return
        now = self._clock()
        with self._lock:
            if key not in self._buckets and len(self._buckets) >= _MAX_KEYS:
                self._buckets.clear()
            left, then = self._buckets.get(key, (self._most, now))
            left = min(self._most, left + (now - then) * self._most / 60)
            self._buckets[key] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self._most)
            told = f"more than {self._most:.0f} requests a minute; ask again in {wait} seconds"
            raise RateLimited(told, retry_after=wait)
