"""Runs calls in threads that keep no process from ending: those that may never return with a time limit."""

import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from jiyi.forks import free_after_fork

_T = TypeVar("_T")

_lock = free_after_fork(threading.Lock())
_late_calls: Counter[int] = Counter()  # by id of the owner; each late thread keeps its owner alive


class OutOfTime(Exception):
    """The call took too long, or was not started because too many are late already."""


def start(call: Callable[[], _T], name: str) -> Future[_T]:
    """Run `call` in a daemon thread, with the caller's context variables, and return what comes of it."""
    outcome: Future[_T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # whatever it is, it is the caller's
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), name=name, daemon=True).start()
    return outcome


def run_within(call: Callable[[], _T], seconds: float, *, owner: object, most_late: int = 2) -> _T:
    """Return what `call` returns within `seconds`, or raise what it raises; else raise `OutOfTime`.

    It runs in a thread, as by `start`. A call that takes longer goes on in the background; its result is
    discarded. While `most_late` such calls of the same `owner` run, no other begins. Concurrent callers may
    each leave one more running.
    """
    with _lock:
        if _late_calls[id(owner)] >= most_late:
            raise OutOfTime(f"{_late_calls[id(owner)]} earlier calls have not come back yet")
    outcome = start(call, "jiyi-limited")
    try:
        wait([outcome], seconds)
    finally:
        if is_late := not outcome.done():
            _count_late(owner, 1)
            outcome.add_done_callback(lambda _: _count_late(owner, -1))
    if is_late:
        raise OutOfTime(f"it took longer than {seconds:.3g} s")
    return outcome.result()


def _count_late(owner: object, more: int) -> None:
    with _lock:
        _late_calls[id(owner)] += more
        if not _late_calls[id(owner)]:
            del _late_calls[id(owner)]
