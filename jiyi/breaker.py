"""A circuit breaker: skips endpoints that kept failing, and tries them again without delaying callers."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from jiyi.errors import JiyiError
from jiyi.forks import free_after_fork
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Breaker"]

_T = TypeVar("_T")

_FIRST_SKIP, _LONGEST_SKIP = 1.0, 300.0  # seconds for which what failed is skipped, doubled each time
_BEARABLE = 0.05  # seconds that failures may cost in a row before that
_BEARABLE_ALONE = 1.0  # the same for callers who have no other way
_ASIDE = 0.02  # seconds that a caller waits for the call that tries it again
_MOST_LATE = 4  # calls not waited for any more that may still be on their way


class Breaker:
    """Skips an endpoint that kept failing: for a second, doubled after each failure, at most 5 minutes.

    Only failures that cost 50 ms, alone or in a row, count, unless the endpoint asked for a pause.
    After the pause a single call tries the endpoint; the others skip it until that call succeeds.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = free_after_fork(threading.Lock())
        self._failures = 0  # in a row
        self._lost = 0.0  # seconds that failures have cost since the last answer
        self._until = 0.0  # when the pause is over, by the monotonic clock
        self._error: type[JiyiError] = JiyiError  # what the last failure was
        self._words = ""  # what it said

    def run(
        self,
        call: Callable[[bool], _T],
        seconds: float,
        *,
        late: Callable[[str], JiyiError],
        aside: bool = True,
    ) -> _T:
        """Return what `call` returns within `seconds`, or raise what it raises.

        `call` runs in a thread, is told whether it probes a failed endpoint, and reports its outcome
        by `failed` or `ended`. A longer call counts as failed; with `aside` a probe delays no caller.

        Raises:
            JiyiError: the endpoint is skipped; or what `late` makes of why there was no answer.
        """
        probing = self.enter(alone=not aside)
        try:
            return run_within(
                lambda: call(probing),
                _ASIDE if probing and aside else seconds,
                owner=self,
                most_late=_MOST_LATE,
            )
        except OutOfTime as out:
            if probing and aside:
                raise self._error(f"{self._words} (being tried again now)") from None
            error = late(str(out))
            self.failed(error, seconds=seconds, probing=probing)
        raise error

    def enter(self, *, alone: bool = False) -> bool:
        """Return whether this call is the single one that tries a failed endpoint again.

        A caller who is `alone`, with no other way, tries it at once until failures cost a second.

        Raises:
            JiyiError: the endpoint is skipped; of the same class as its last failure.
        """
        with self._lock:
            if self._failures == 0:
                return False
            if (skipped := self._skipped()) and not (alone and self._lost < _BEARABLE_ALONE):
                raise self._error(skipped)
            self._until = time.monotonic() + self._pause()
            return True

    def failed(
        self, error: JiyiError, *, seconds: float, probing: bool = False, after: float | None = None
    ) -> None:
        """Note that the endpoint kept failing for `seconds`; it asked to be left alone for `after` more."""
        with self._lock:
            self._lost += seconds
            if (self._lost < _BEARABLE and not after) or (self._failures and not probing):
                return  # calls that fail side by side count once
            self._failures += 1
            self._error, self._words = type(error), str(error)
            self._until = time.monotonic() + min(max(self._pause(), after or 0.0), _LONGEST_SKIP)

    def ended(self, seconds: float, time_limit: float, *, probing: bool = False) -> None:
        """Note that the endpoint gave an answer, if only a refusal, after so many `seconds`.

        One that came after `time_limit` counts as none: nobody waited for it.
        """
        with self._lock:
            if seconds <= time_limit:
                self._failures, self._lost = 0, 0.0
            elif probing:
                self._failures += 1
                self._until = time.monotonic() + self._pause()

    @property
    def skipped(self) -> str:
        """Why and for how long the endpoint is skipped now; "" where it is not."""
        with self._lock:
            return self._skipped()

    def _skipped(self) -> str:
        left = self._until - time.monotonic()
        if self._failures == 0 or left <= 0:
            return ""
        return (
            f"{self._words} (not asked for another {left:.1f} s, after {self._failures} failure(s) in a row)"
        )

    def _pause(self) -> float:
        return min(_FIRST_SKIP * 2.0 ** min(self._failures - 1, 30), _LONGEST_SKIP)
