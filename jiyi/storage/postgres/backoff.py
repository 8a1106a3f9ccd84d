"""Doing something again while a connection breaks or other writers come between."""

import time
from collections.abc import Callable
from random import SystemRandom
from typing import TypeVar

from jiyi.storage.postgres.errors import Conflict, ConnectionLost

__all__ = ["repeat"]

_CONFLICTS = 10  # how often a transaction that the server undid is begun anew
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between two tries
_RANDOM = SystemRandom()  # forked processes do not pause alike, a program's own seed stays untouched

_T = TypeVar("_T")


def repeat(verb: Callable[[], _T], *, seconds: float, repeatable: bool) -> _T:
    """Do something until it is done, fails for a reason that stays, or the time is over.

    Pauses double from 0.05 to 1 s, each shortened at random so that many clients do not
    come back at one moment.

    Args:
        verb: what to do, in transactions of its own.
        seconds: how long a server that is away is waited for.
        repeatable: doing it twice is the same as doing it once. Else it is not done again
            where its COMMIT may have arrived.
    """
    until, pause = time.monotonic() + seconds, _FIRST_PAUSE
    conflicts, maybe_done = 0, False
    while True:
        try:
            return verb()
        except ConnectionLost as error:
            maybe_done = maybe_done or error.maybe_done
            if (maybe_done and not repeatable) or time.monotonic() >= until:
                if error.maybe_done or not maybe_done:
                    raise
                raise error.after_one_that_may_be_done() from error
        except Conflict:
            conflicts += 1
            if conflicts > _CONFLICTS:
                raise
        time.sleep(min(_RANDOM.uniform(pause / 2, pause), max(until - time.monotonic(), 0)))
        pause = min(pause * 2, _LONGEST_PAUSE)
