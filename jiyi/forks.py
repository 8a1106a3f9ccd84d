"""Forks: a forked process must not use locks held by its parent's threads, nor what is open there."""

import ctypes
import os
import threading
import time
from importlib import _bootstrap  # type: ignore[attr-defined,unused-ignore]
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

_MAX_WAIT_SECONDS = 5.0  # seconds that a fork waits for blocks to end

_Lock = TypeVar("_Lock")


class LeftAtFork(Protocol):
    """An object with something open that is useless after a fork."""

    def _left_behind(self, quiet: bool) -> None:
        """Start over without it, or refuse from now on; called in the forked process at once.

        No lock may be waited for: its holder is not in this process. Unless no thread was inside a `quiet`
        block nothing may be closed either: the parent goes on using it.
        """


class _QuietBlock:
    """A block during which no fork happens, unless its own thread forks, or it takes long."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Condition(self.lock)
        self.forks = 0  # that are waiting
        self.inside: dict[int, int] = {}  # blocks by thread

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self.lock:
            if self.forks and me not in self.inside:
                self.turn.wait_for(lambda: not self.forks)
            self.inside[me] = self.inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            depth = self.inside.pop(me := threading.get_ident(), 1) - 1
            if depth > 0:
                self.inside[me] = depth
            elif self.forks:
                self.turn.notify_all()


quiet = _QuietBlock()
_open_objects: WeakSet[LeftAtFork] = WeakSet()
_locks: WeakSet[Any] = WeakSet()


def leave_at_fork(holder: LeftAtFork) -> None:
    """Have `_left_behind` called in every process forked from now on; what it held is never freed there."""
    _open_objects.add(holder)


def free_after_fork(lock: _Lock) -> _Lock:
    """Return the lock, made free in a forked process, whoever held it in the parent."""
    _locks.add(lock)
    return lock


def _before_fork() -> None:
    me = threading.get_ident()
    quiet.turn.acquire()  # until the fork is done
    quiet.forks += 1
    deadline = time.monotonic() + _MAX_WAIT_SECONDS
    while (quiet.inside.keys() - {me} or _is_other_importing(me)) and time.monotonic() < deadline:
        quiet.turn.wait(0.005)


def _is_other_importing(me: int) -> bool:
    """Say whether another thread is importing: a forked process could never import that module."""
    locks = [ref() for ref in list(getattr(_bootstrap, "_module_locks", {}).values())]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in locks)


def _after_in_parent() -> None:
    quiet.forks -= 1
    quiet.turn.notify_all()
    quiet.turn.release()


def _after_in_child() -> None:
    was_quiet = not quiet.inside
    quiet.begin()
    for lock in list(_locks):
        lock._at_fork_reinit()  # as the standard library does with its own
    for holder in list(_open_objects):
        # Never freed: finalizers would talk to a server or a thread that this process does not have.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dict(vars(holder))))
        holder._left_behind(was_quiet)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
