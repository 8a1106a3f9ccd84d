"""The windows of the sessions in use, cached in memory and read from the store."""

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, cast

from jiyi.clock import Clock, utc_now
from jiyi.errors import BadScope, Closed, SettingsError
from jiyi.records import MAX_LIMIT, Message, Query, Scope
from jiyi.records.atoms import Atom, atoms, turns
from jiyi.short_term.policies import SlidingWindow
from jiyi.short_term.policy import Candidates, Kept, check_count
from jiyi.storage.store import Store, all_messages

__all__ = ["SessionWindow", "ShortTermMemory", "load_window", "read_messages"]

_MAX_LOOK_BACK = 1_000  # messages searched for the call of a late result
_NOTHING_KEPT = Kept(kept=(), dropped=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """The cached window of a session, which can be extended without its older messages."""

    messages: tuple[Message, ...] = ()  # what stays, and broken atoms that may still be completed
    last_seq: int = -1  # all messages up to here are taken into account
    kept: Kept = _NOTHING_KEPT  # the policy's decision about ``messages``
    joined: bool = False  # a tool call joins turns, so that extending it needs the older messages

    @classmethod
    def of(cls, messages: Sequence[Message], last_seq: int, policy: SlidingWindow) -> "SessionWindow":
        """Return the window of these messages of a session, given in order."""
        candidates = Candidates.of(messages)
        kept = candidates.without(policy.find_leaving(candidates))
        dropped_at = _find_newest_dropped(candidates, kept.kept)
        open_seqs = {_seq(messages[i]) for a in candidates.broken if a.first > dropped_at for i in a.indices}
        kept_seqs = {_seq(message) for message in kept.kept}
        chosen = (a.first for a in candidates.optional if _seq(messages[a.first]) in kept_seqs)
        oldest = min(chosen, default=len(messages))
        return cls(
            messages=tuple(m for m in messages if _seq(m) in kept_seqs or _seq(m) in open_seqs),
            last_seq=last_seq,
            kept=Kept(kept=kept.kept, dropped=tuple(d for d in kept.dropped if _seq(d.message) in open_seqs)),
            joined=any(atom.indices[-1] > oldest for atom in _find_atoms_across_turns(messages)),
        )

    def extend(self, new: Sequence[Message], policy: SlidingWindow) -> "SessionWindow | None":
        """Return the window with the next messages of the session, given in order.

        None if that needs messages older than the cached ones: for a result whose call is not here, for
        a tool call that reaches across turns and joins them, and for a turn that opens with a
        pinned message, because that is not counted and the turn before may have been cut.
        """
        if not new:
            return self
        messages, cached = (*self.messages, *new), len(self.messages)
        is_orphaned = any(a.first >= cached and messages[a.first].role == "tool" for a in atoms(messages))
        joins = self.joined or any(a.indices[-1] >= cached for a in _find_atoms_across_turns(messages))
        if is_orphaned or joins or any(m.role == "user" and m.pinned for m in new):
            return None
        return SessionWindow.of(messages, _seq(new[-1]), policy)


def load_window(store: Store, scope: Scope, policy: SlidingWindow) -> SessionWindow:
    """Read a session's window from the store.

    Reads the newest messages until the window is complete, then older system and pinned ones. The number of
    rows does not grow with the length of the session, except to find the call or results of a pinned message.
    """
    limit = _initial_page_size(policy)
    tail = read_messages(store, scope, newest_first=True, limit=limit)[::-1]
    if not tail:
        return SessionWindow()
    last, is_whole, older = _seq(tail[-1]), len(tail) < limit, list[Message]()
    if not is_whole:
        sound = {_seq(tail[i]) for atom in atoms(tail) if atom.broken is None for i in atom.indices}
        pinned = all_messages(store, scope, MAX_LIMIT, pinned=True, before_seq=last + 1)
        older = [message for message in pinned if _seq(message) not in sound]
        if any(message.role == "tool" or message.tool_calls for message in older):
            tail, is_whole = list(all_messages(store, scope, MAX_LIMIT, before_seq=last + 1)), True
    while not is_whole and not _is_complete(tail, policy):
        limit = min(2 * limit, MAX_LIMIT)
        page = read_messages(store, scope, before_seq=_seq(tail[0]), newest_first=True, limit=limit)
        tail = page[::-1] + tail
        is_whole = len(page) < limit
    if not is_whole:
        low = _seq(tail[0])
        older += all_messages(store, scope, MAX_LIMIT, roles=("system",), before_seq=low)
        if tail[turns(tail)[-1][0]].role != "user":  # a turn so long that its beginning is far back
            older += read_messages(store, scope, roles=("user",), before_seq=low, newest_first=True, limit=1)
    by_seq = {_seq(m): m for m in (*older, *tail)}
    return SessionWindow.of([by_seq[seq] for seq in sorted(by_seq)], last, policy)


def _is_complete(tail: Sequence[Message], policy: SlidingWindow) -> bool:
    """Say whether older messages cannot change what the policy keeps."""
    candidates = Candidates.of(tail)
    kept = candidates.without(policy.find_leaving(candidates)).kept
    oldest = _find_newest_dropped(candidates, kept)
    if oldest < 0:
        return False
    if len(tail) >= _MAX_LOOK_BACK:
        return True
    if any(a.first > oldest and tail[a.first].role == "tool" for a in candidates.broken):
        return False  # its call may be further back
    # The oldest kept turn must be read from its beginning to know its size, except for a single
    # turn too long for the window.
    free = {_seq(tail[i]) for atom in candidates.optional for i in atom.indices}
    chosen = [places for places in turns(kept) if any(_seq(kept[i]) in free for i in places)]
    is_known = not chosen or kept[chosen[0][0]].role == "user"
    return is_known or all(message.role != "user" for message in kept)


def _find_newest_dropped(candidates: Candidates, kept: Sequence[Message]) -> int:
    """Return the place of the newest sound atom that was dropped, -1 if none was."""
    kept_seqs = {_seq(message) for message in kept}
    dropped = (a.first for a in candidates.optional if _seq(candidates.messages[a.first]) not in kept_seqs)
    return max(dropped, default=-1)


def _find_atoms_across_turns(messages: Sequence[Message]) -> list[Atom]:
    """Return the atoms that reach into a later turn."""
    users = list(accumulate(message.role == "user" for message in messages))
    return [atom for atom in atoms(messages) if users[atom.first] < users[atom.indices[-1]]]


def read_messages(store: Store, scope: Scope, **parts: Any) -> list[Message]:
    """Return the messages of a scope; ``parts`` are further parts of the query."""
    return cast("list[Message]", store.find(Query(scope=scope, kinds=("message",), **parts)))


def _initial_page_size(policy: SlidingWindow) -> int:
    return min(max(100, 5 * (policy.k or 0)), MAX_LIMIT)


def _seq(message: Message) -> int:
    assert message.seq is not None, "a saved message has a place"
    return message.seq


_Key = tuple[str, str]  # user_id, session_id
_MAX_SESSIONS = 1_000  # in memory


@dataclass(slots=True, eq=False)
class _Session:
    last_active: datetime
    changes: int  # of the user, when the session was first read
    windows: dict[str | None, SessionWindow] = field(default_factory=dict)  # by agent_id


@dataclass(eq=False, repr=False)
class ShortTermMemory:
    """The windows of the sessions in use.

    A window holds all system and pinned messages of its session and the last ``max_turns`` turns with at most
    twice as many user and assistant messages (see `SlidingWindow`).

    - It is a cache: a window is read from the store on first use and updated on every read, so that changes
      by other threads and processes are seen; with ``changes`` also messages removed, restored, pinned or
      unpinned.
    - The cost of a read does not depend on the length of the session.
    - A session unused for ``ttl`` leaves the cache, as do the least recently used of more than 1,000; the
      next read loads it from the store.
    - Safe to use from several threads. The store is never called with a lock held.

    Raises `SettingsError`: ``max_turns`` is under 1, or ``ttl`` or ``sweep_every`` not above zero.
    """

    store: Store  # where the messages are
    _: KW_ONLY
    # `Store.changes` of the same database. Without it call `drop` after removing or pinning.
    changes: Callable[[Scope], int] = lambda _: 0
    max_turns: int = 20  # that a window keeps
    ttl: timedelta = timedelta(minutes=30)  # how long an unused session stays in memory
    clock: Clock = utc_now
    sweep_every: timedelta = timedelta(minutes=1)  # how often unused sessions are removed
    # Sessions and windows are replaced, never changed in place, so the lock is held only briefly.
    _lock: Any = field(default_factory=threading.RLock, init=False)
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

        With ``agent_id`` None the messages of all its agents, else of that agent only. Raises `BadScope` if
        the scope names no session, and `Closed` after `close`.
        """
        return list(self.window(scope).kept)

    def window(self, scope: Scope) -> Kept:
        """Return the window as `messages` does, with the broken tool calls and results within its reach."""
        if scope.session_id is None:
            raise BadScope("short-term memory is kept by session; give session_id")
        key = scope.user_id, scope.session_id
        # Read first, so that later changes are seen by the next read.
        session, old = self._touch(key, scope.agent_id, self.changes(scope))
        new = None
        if old is not None:
            limit = _initial_page_size(self._policy)
            saved = read_messages(self.store, scope, after_seq=old.last_seq, limit=limit)
            new = old.extend(saved, self._policy) if len(saved) < limit else None
        if new is None:
            new = load_window(self.store, scope, self._policy)
        with self._lock:  # unless another thread was faster, or the session was dropped
            if self._sessions.get(key) is session and session.windows.get(scope.agent_id) is old:
                session.windows[scope.agent_id] = new
        return new.kept

    def drop(self, scope: Scope) -> None:
        """Forget the windows of a session, of all agents, or of all sessions where none is named.

        A read that began before does not bring the forgotten window back.
        """
        with self._lock:
            for key in list(self._sessions):
                if key[0] == scope.user_id and scope.session_id in (None, key[1]):
                    del self._sessions[key]

    def sweep(self) -> int:
        """Remove sessions unused for longer than ``ttl`` from memory; return how many."""
        now = self.clock()
        with self._lock:
            self._last_sweep = now
            idle = [key for key, session in self._sessions.items() if now - session.last_active > self.ttl]
            for key in idle:
                del self._sessions[key]
            return len(idle)

    def close(self) -> None:
        """Clear the cache and end the background sweep; reading afterwards raises `Closed`."""
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
                self.sweep()
            session = self._sessions.pop(key, None)
            if session is None or session.changes < changes:
                session = _Session(now, changes)
                self._start_sweeper()
            self._sessions[key] = session  # used last at the end
            if len(self._sessions) > _MAX_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session.last_active = now
            return session, session.windows.get(agent_id)

    def _start_sweeper(self) -> None:
        if self._sweeper is not None:
            return
        stop = self._stop
        # The thread has only a weak reference and is woken when the memory is gone, so that a
        # memory that was not closed does not keep its thread.
        arguments = (stop, weakref.ref(self, lambda _: stop.set()), self.sweep_every.total_seconds())
        sweeper = threading.Thread(target=_sweep_until, args=arguments, name="jiyi-sweep", daemon=True)
        with suppress(RuntimeError):  # no threads at interpreter exit; reads still sweep
            sweeper.start()
            self._sweeper = sweeper


def _sweep_until(stop: threading.Event, reference: "weakref.ref[ShortTermMemory]", seconds: float) -> None:
    while not stop.wait(min(seconds, threading.TIMEOUT_MAX)):
        memory = reference()
        if memory is None:
            return
        memory.sweep()
        del memory
