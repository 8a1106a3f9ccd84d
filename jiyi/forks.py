"""What a forked process does not take over: locks that its parent's threads hold, and what is open there."""

import ctypes
import os
import threading
import time
from importlib import _bootstrap  # type: ignore[attr-defined,unused-ignore]
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

__all__ = ["Left", "free_after_fork", "leave_at_fork", "quiet"]

_PATIENCE = 5.0  # seconds that a fork waits for blocks to end

_Lock = TypeVar("_Lock")


class Left(Protocol):
    """What is open, and of no use after a fork."""

    def _left_behind(self, quiet: bool) -> None:
        """Begin again without it, or refuse from now on; called in the forked process, at once.

        No lock may be waited for: its holder is not here. Unless nobody was inside a `quiet` block
        nothing may be closed either: the parent goes on with what was open.
        """
        ...


class _Quiet:
    """A block that no fork comes between, unless the thread itself forks in it, or it takes long."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Condition(self.lock)
        self.forks = 0  # that wait
        self.inside: dict[int, int] = {}  # blocks by thread

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self.lock:
            if self.forks and me not in self.inside:
                self.turn.wait_for(lambda: not self.forks)
            self.inside[me] = self.inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            left = self.inside.pop(me := threading.get_ident(), 1) - 1
            if left > 0:
                self.inside[me] = left
            elif self.forks:
                self.turn.notify_all()


quiet = _Quiet()
_left: WeakSet[Left] = WeakSet()
_locks: WeakSet[Any] = WeakSet()


def leave_at_fork(left: Left) -> None:
    """Have `_left_behind` called in every process that is forked from now on; what it held stays as it is."""
    _left.add(left)


def free_after_fork(lock: _Lock) -> _Lock:
    """Return a lock of `threading` that is free in a forked process, whoever held it in the parent."""
    _locks.add(lock)
    return lock


def _before() -> None:
    me = threading.get_ident()
    quiet.turn.acquire()  # until the fork is done
    quiet.forks += 1
    until = time.monotonic() + _PATIENCE
    while (quiet.inside.keys() - {me} or _others_import(me)) and time.monotonic() < until:
        quiet.turn.wait(0.005)


def _others_import(me: int) -> bool:
    """Say whether another thread is importing: in a forked process that module could never be had."""
    locks = [ref() for ref in list(getattr(_bootstrap, "_module_locks", {}).values())]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in locks)


def _in_parent() -> None:
    quiet.forks -= 1
    quiet.turn.notify_all()
    quiet.turn.release()


def _in_child() -> None:
    alone = not quiet.inside
    quiet.begin()
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the standard library does with its own
    for left in list(_left):
        # Kept for ever: what ends with its last user would tell a server or a thread that is not here.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dict(vars(left))))
        left._left_behind(alone)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
