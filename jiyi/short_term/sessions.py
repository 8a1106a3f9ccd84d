"""The sessions in hand: each one's window in memory, the store as the truth."""

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta

from jiyi.clock import Clock, utc_now
from jiyi.errors import BadScope, Closed, SettingsError
from jiyi.records import Message, Scope
from jiyi.short_term.policies import SlidingWindow
from jiyi.short_term.policy import Kept, check_count
from jiyi.short_term.session_window import SessionWindow, load, refresh
from jiyi.storage.store import Store

__all__ = ["ShortTermMemory"]

_Key = tuple[str, str]  # user_id, session_id


@dataclass(slots=True, eq=False)
class _Session:
    last_active: datetime
    changes: int  # of the user, when the session was taken up
    windows: dict[str | None, SessionWindow] = field(default_factory=dict)  # by agent_id


@dataclass(eq=False, repr=False)
class ShortTermMemory:
    """The windows of the sessions in use.

    A window holds all system and pinned messages of its session and the last ``max_turns``
    turns with at most twice as many user and assistant messages (see `SlidingWindow`).

    - The store is the truth: a window is read from it on first use and brought up to date
      on every read, so other threads and processes are seen. Nothing is kept here alone.
    - Where ``changes`` is given, what anybody removed, brought back, pinned or unpinned is
      seen too: a window older than the last such change is read again.
    - A read costs the same however long the session is.
    - A session nobody touched for ``ttl`` is let go; its messages stay in the store, and
      the next read takes it up from there.
    - Safe to use from several threads. The store is never called with a lock held.

    Raises:
        SettingsError: ``max_turns`` is under 1, or ``ttl`` or ``sweep_every`` not above zero.
    """

    store: Store  # where the messages are
    _: KW_ONLY
    # `Upkeep.changes` of the same database. Without it removals and pin changes are not seen by
    # themselves: call `drop` after them.
    changes: Callable[[Scope], int] = lambda _: 0
    max_turns: int = 20  # that a window keeps
    ttl: timedelta = timedelta(minutes=30)  # how long a session nobody touches stays in memory
    clock: Clock = utc_now
    sweep_every: timedelta = timedelta(minutes=1)  # how often such sessions are looked for
    # Sessions and windows are replaced, never changed in place, so the lock is held
    # for moments only and what was read can be used without it.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _sessions: dict[_Key, _Session] = field(default_factory=dict, init=False)
    _sweeper: threading.Thread | None = field(default=None, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)

    def __post_init__(self) -> None:
        check_count("max_turns", self.max_turns)
        for name, span in (("ttl", self.ttl), ("sweep_every", self.sweep_every)):
            if not isinstance(span, timedelta) or span <= timedelta(0):
                raise SettingsError(f"{name}={span!r} must be a timedelta above zero")
        self._policy = SlidingWindow(self.max_turns, max_messages=2 * self.max_turns)
        self._last_sweep = self.clock()

    def messages(self, scope: Scope) -> list[Message]:
        """Return the session's window, in the order of the session.

        With ``agent_id`` None the messages of all its agents, else of that agent only.

        Raises:
            BadScope: the scope names no session.
            Closed: used after `close`.
        """
        return list(self.window(scope).kept)

    def window(self, scope: Scope) -> Kept:
        """Return the window, and with it the broken tool calls and results within its reach.

        Messages older than the window are not listed. Raises as `messages` does.
        """
        key = _key(scope)
        # Asked for first: what changes after this is seen by the next read.
        session, old = self._touch(key, scope.agent_id, self.changes(scope))
        if old is None:
            new = load(self.store, scope, self._policy)
        else:
            new = refresh(self.store, scope, self._policy, old)
        with self._lock:  # unless somebody was faster, or the session was dropped
            if self._sessions.get(key) is session and session.windows.get(scope.agent_id) is old:
                session.windows[scope.agent_id] = new
        return new.kept

    def drop(self, scope: Scope) -> None:
        """Forget the windows of a session, or of all the user's sessions where none is named.

        All agents' windows of the session go, whichever agent the scope names. A read that
        began before does not bring the forgotten window back.
        """
        with self._lock:
            if scope.session_id is not None:
                self._sessions.pop(_key(scope), None)
            else:
                for key in [key for key in self._sessions if key[0] == scope.user_id]:
                    del self._sessions[key]

    def sweep(self) -> int:
        """Let go of sessions untouched for longer than ``ttl``; return how many went."""
        now = self.clock()
        with self._lock:
            return self._sweep(now)

    def close(self) -> None:
        """Let go of everything and end the background sweep; reading afterwards raises `Closed`."""
        self._stop.set()
        with self._lock:
            self._sessions.clear()
            sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None and sweeper is not threading.current_thread():
            sweeper.join()

    def _touch(self, key: _Key, agent_id: str | None, changes: int) -> tuple[_Session, SessionWindow | None]:
        now = self.clock()
        with self._lock:
            if self._stop.is_set():
                raise Closed("this memory was closed; open it again to read")
            if now - self._last_sweep >= self.sweep_every:
                self._sweep(now)
            session = self._sessions.get(key)
            if session is None or session.changes < changes:
                session = self._sessions[key] = _Session(now, changes)
                self._start_sweeper()
            session.last_active = now
            return session, session.windows.get(agent_id)

    def _sweep(self, now: datetime) -> int:
        self._last_sweep = now
        idle = [key for key, session in self._sessions.items() if now - session.last_active > self.ttl]
        for key in idle:
            del self._sessions[key]
        return len(idle)

    def _start_sweeper(self) -> None:
        if self._sweeper is not None:
            return
        stop = self._stop
        # The thread holds the memory weakly and is woken when the memory is gone, so that a
        # memory nobody closed does not keep its thread.
        memory = weakref.ref(self, lambda _: stop.set())
        sweeper = threading.Thread(
            target=_sweep_until,
            args=(stop, memory, self.sweep_every.total_seconds()),
            name="jiyi-sweep",
            daemon=True,
        )
        with suppress(RuntimeError):  # no threads at interpreter exit; reads sweep all the same
            sweeper.start()
            self._sweeper = sweeper


def _sweep_until(stop: threading.Event, memory: "weakref.ref[ShortTermMemory]", seconds: float) -> None:
    while not stop.wait(min(seconds, threading.TIMEOUT_MAX)):
        alive = memory()
        if alive is None:
            return
        alive.sweep()
        del alive


def _key(scope: Scope) -> _Key:
    if scope.session_id is None:
        raise BadScope("short-term memory is kept by session; give session_id")
    return scope.user_id, scope.session_id
