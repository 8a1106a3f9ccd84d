"""Calls that may never come back: run next to the caller, waited for so long and no longer."""

import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from jiyi.forks import free_after_fork

__all__ = ["OutOfTime", "run_within"]

_T = TypeVar("_T")

_lock = free_after_fork(threading.Lock())
_late: Counter[int] = Counter()  # by id of the owner; each late thread keeps its owner alive


class OutOfTime(Exception):
    """The call was not waited for any longer, or not begun because too many are late already."""


def run_within(call: Callable[[], _T], seconds: float, *, owner: object, most_late: int = 2) -> _T:
    """Return what `call` returns, or raise what it raises, within `seconds`.

    - `call` runs in a daemon thread, with the caller's context variables: a thread that
      never ends does not keep the process from ending.
    - A call that takes longer goes on by itself; its answer is thrown away. While
      `most_late` such calls of the same `owner` are still going, no other is begun. Callers
      that wait side by side may each leave one more running.

    Raises:
        OutOfTime: it took longer, or too many earlier calls have not come back; says which.
    """
    with _lock:
        if _late[id(owner)] >= most_late:
            raise OutOfTime(f"{_late[id(owner)]} earlier calls have not come back yet")
    run = _Run(call, owner)
    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(run.work,), name="jiyi-limited", daemon=True
    )
    thread.start()
    try:
        run.ended.wait(seconds)
    finally:
        in_time = run.give_up()
    if not in_time:
        raise OutOfTime(f"it took longer than {seconds:.3g} s")
    return run.outcome()


class _Run(Generic[_T]):
    """One call, what came of it, and whether somebody still waits for that."""

    def __init__(self, call: Callable[[], _T], owner: object) -> None:
        self.ended = threading.Event()
        self._call = call
        self._owner = owner
        self._late = False
        self._answer: list[_T] = []
        self._error: BaseException | None = None

    def work(self) -> None:
        try:
            self._answer.append(self._call())
        except BaseException as error:  # whatever it is, it is the caller's
            self._error = error
        with _lock:
            self.ended.set()
            if self._late:
                _late[id(self._owner)] -= 1
                if not _late[id(self._owner)]:
                    del _late[id(self._owner)]

    def give_up(self) -> bool:
        """Stop waiting; say whether it had ended, and count it among the late if not."""
        with _lock:
            if not self.ended.is_set():
                self._late = True
                _late[id(self._owner)] += 1
            return not self._late

    def outcome(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._answer[0]
