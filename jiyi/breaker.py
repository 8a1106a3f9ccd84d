"""A circuit breaker: skips endpoints that kept failing, and tries them again without delaying callers."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from jiyi.errors import JiyiError
from jiyi.forks import free_after_fork
from jiyi.time_limit import OutOfTime, run_within

_T = TypeVar("_T")

_FIRST_SKIP, _MAX_SKIP = 1.0, 300.0  # seconds, doubled after each failure
_MAX_LOST = 0.05  # seconds that failures in a row may cost before the endpoint is skipped
_MAX_LOST_ALONE = 1.0  # the same for callers without a fallback
_PROBE_WAIT_SECONDS = 0.02  # that a caller waits for the call that tries it again
_MAX_LATE_CALLS = 4  # abandoned calls that may still be running


class Breaker:
    """Skips an endpoint that kept failing: for a second, doubled after each failure, at most 5 minutes.

    Only failures that cost 50 ms, alone or in a row, count, unless the endpoint asked for a pause. After the
    pause a single call tries the endpoint; the others skip it until that call succeeds. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = free_after_fork(threading.Lock())
        self._failures = 0  # in a row
        self._lost_seconds = 0.0  # seconds that failures have cost since the last answer
        self._skip_until = 0.0  # when the pause is over, by the monotonic clock
        self._error_class: type[JiyiError] = JiyiError  # what the last failure was
        self._words = ""  # what it said

    def run(
        self,
        call: Callable[[bool], _T],
        seconds: float,
        *,
        late: Callable[[str], JiyiError],
        probe_aside: bool = True,
    ) -> _T:
        """Return what `call` returns within `seconds`, or raise what it raises.

        `call` runs in a thread, is told whether it probes a failed endpoint, and reports its outcome by
        `record_failure` or `record_answer`. With `probe_aside` a probe delays no caller. Without an answer it
        raises what `late` makes of the reason, and `JiyiError` if the endpoint is skipped.
        """
        probing = self.enter(alone=not probe_aside)
        aside = probing and probe_aside
        wait = _PROBE_WAIT_SECONDS if aside else seconds
        try:
            return run_within(lambda: call(probing), wait, owner=self, most_late=_MAX_LATE_CALLS)
        except OutOfTime as out:
            if aside:
                raise self._error_class(f"{self._words} (being tried again now)") from None
            error = late(str(out))
            self.record_failure(error, seconds=seconds, probing=probing)
        raise error

    def enter(self, *, alone: bool = False) -> bool:
        """Return whether this call is the single one that tries a failed endpoint again; else raise.

        A caller who is `alone`, without a fallback, tries it at once until failures cost a second.
        """
        with self._lock:
            if self._failures == 0:
                return False
            if (skipped := self._describe_skip()) and not (alone and self._lost_seconds < _MAX_LOST_ALONE):
                raise self._error_class(skipped)
            self._skip_until = time.monotonic() + self._skip_seconds()
            return True

    def record_failure(
        self, error: JiyiError, *, seconds: float, probing: bool = False, after: float | None = None
    ) -> None:
        """Record that the endpoint failed for `seconds`; it asked for a pause of `after` seconds."""
        with self._lock:
            self._lost_seconds += seconds
            if (self._lost_seconds < _MAX_LOST and not after) or (self._failures and not probing):
                return  # calls that fail side by side count once
            self._failures += 1
            self._error_class, self._words = type(error), str(error)
            self._skip_until = time.monotonic() + min(max(self._skip_seconds(), after or 0.0), _MAX_SKIP)

    def record_answer(self, seconds: float, time_limit: float, *, probing: bool = False) -> None:
        """Record an answer after `seconds`, if only a refusal; nobody waited for one after `time_limit`."""
        with self._lock:
            if seconds <= time_limit:
                self._failures, self._lost_seconds = 0, 0.0
            elif probing:
                self._failures += 1
                self._skip_until = time.monotonic() + self._skip_seconds()

    @property
    def skipped(self) -> str:
        """Why and for how long the endpoint is skipped now; "" where it is not."""
        with self._lock:
            return self._describe_skip()

    def _describe_skip(self) -> str:
        left = self._skip_until - time.monotonic()
        if self._failures == 0 or left <= 0:
            return ""
        skip = f"not asked for another {left:.1f} s, after {self._failures} failure(s) in a row"
        return f"{self._words} ({skip})"

    def _skip_seconds(self) -> float:
        return min(_FIRST_SKIP * 2.0 ** min(self._failures - 1, 30), _MAX_SKIP)
