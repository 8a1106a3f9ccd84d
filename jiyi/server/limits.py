"""How many requests a key may send: a bucket of tokens for each (as in RFC 2697, with one rate)."""

import math
import threading
import time
from collections.abc import Callable

from jiyi.errors import RateLimited

__all__ = ["RateLimit"]

_MAX_KEYS = 10_000  # keys whose buckets are kept


class RateLimit:
    """Limits each key to a number of requests a minute, at once or spread; 0 for no limit."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = float(per_minute)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens left, when
        self._lock = threading.Lock()

    def take(self, key: str) -> None:
        """Count a request; RateLimited: the bucket is empty."""
        if not self._capacity:
            return
        now = self._clock()
        with self._lock:
            if key not in self._buckets and len(self._buckets) >= _MAX_KEYS:
                self._buckets.clear()
            left, then = self._buckets.get(key, (self._capacity, now))
            left = min(self._capacity, left + (now - then) * self._capacity / 60)
            self._buckets[key] = (max(left - 1, 0.0) if left >= 1 else left, now)
        if left < 1:
            wait = math.ceil((1 - left) * 60 / self._capacity)
            message = f"more than {self._capacity:.0f} requests a minute; ask again in {wait} seconds"
            raise RateLimited(message, retry_after=wait)
