"""The window of one session: a value, and how it is read from the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.records import Message, Query, Scope
from jiyi.short_term.candidates import Candidates
from jiyi.short_term.policy import Kept
from jiyi.short_term.sliding_window import SlidingWindow
from jiyi.short_term.turns import atoms, turns
from jiyi.storage.store import Store

__all__ = ["SessionWindow", "load", "refresh"]

_LOOK_BACK = 1_000  # how many messages back the call of a late result is looked for
_MOST = 10_000  # rows a query may return


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """What is held of a session: enough to go on without the older messages."""

    messages: tuple[Message, ...]  # what stays, and broken atoms that may yet be mended
    last_seq: int  # every message up to here has been looked at; -1 for none
    kept: Kept  # the policy's decision about ``messages``

    @classmethod
    def of(cls, messages: Sequence[Message], last_seq: int, policy: SlidingWindow) -> "SessionWindow":
        """Return the window of these messages of a session, in order; the rest is let go."""
        candidates = Candidates.of(messages)
        kept = policy(messages)
        oldest = _newest_gone(candidates, kept)
        mendable = {
            _seq(messages[i]) for atom in candidates.broken if atom.first > oldest for i in atom.indices
        }
        stay = mendable | {_seq(message) for message in kept.kept}
        return cls(
            messages=tuple(m for m in messages if _seq(m) in stay),
            last_seq=last_seq,
            kept=Kept(kept=kept.kept, dropped=tuple(d for d in kept.dropped if _seq(d.message) in mendable)),
        )

    def then(self, new: Sequence[Message], policy: SlidingWindow) -> "SessionWindow | None":
        """Return the window after these next messages of the session, which are in order.

        None where that takes older messages than are held: a result whose call is not
        here, or a tool call that reaches across turns and joins them.
        """
        if not new:
            return self
        messages = (*self.messages, *new)
        users = [0]
        for message in messages:
            users.append(users[-1] + (message.role == "user"))
        for atom in atoms(messages):
            first, last = atom.first, atom.indices[-1]
            orphan = first >= len(self.messages) and messages[first].role == "tool"
            if orphan or (first < last and users[first] < users[last]):
                return None
        return SessionWindow.of(messages, _seq(new[-1]), policy)

    def with_saved(self, saved: Sequence[Message], policy: SlidingWindow) -> "SessionWindow | None":
        """Return the window after what was just saved, as far as it follows without a gap."""
        next_seq, new = self.last_seq + 1, []
        for message in sorted(saved, key=_seq):
            if _seq(message) == next_seq:
                new.append(message)
                next_seq += 1
        return self.then(new, policy)


def load(store: Store, scope: Scope, policy: SlidingWindow) -> SessionWindow:
    """Read a session's window from the store.

    Reads the newest messages until the window is settled, then system and pinned messages
    from further back. The rows read do not grow with the length of the session, except
    for the call or results of a pinned message, which are searched for until found.
    """
    tail, whole = _tail(store, scope, policy)
    if not tail:
        return SessionWindow(messages=(), last_seq=-1, kept=Kept(kept=(), dropped=()))
    last = _seq(tail[-1])
    found = {_seq(m): m for m in tail}
    if not whole:
        low = _seq(tail[0])
        older = _all(store, scope, roles=("system",), before_seq=low)
        if tail[turns(tail)[-1][0]].role != "user":  # a turn so long that its beginning is far back
            older += _page(store, scope, roles=("user",), before_seq=low, newest_first=True, limit=1)
        older += _pinned(store, scope, tail, last)
        found |= {_seq(m): m for m in older}
    return SessionWindow.of([found[seq] for seq in sorted(found)], last, policy)


def refresh(store: Store, scope: Scope, policy: SlidingWindow, window: SessionWindow) -> SessionWindow:
    """Return the window with what was saved since; the same object where nothing was."""
    limit = _page_size(policy)
    new = _page(store, scope, after_seq=window.last_seq, limit=limit)
    later = window.then(new, policy) if len(new) < limit else None
    return later if later is not None else load(store, scope, policy)


def _tail(store: Store, scope: Scope, policy: SlidingWindow) -> tuple[list[Message], bool]:
    """Return the newest messages that settle the window, and whether they are the whole session."""
    limit = _page_size(policy)
    tail: list[Message] = []
    while True:
        before = _seq(tail[0]) if tail else None
        page = _page(store, scope, before_seq=before, newest_first=True, limit=limit)
        tail = page[::-1] + tail
        if len(page) < limit:
            return tail, True
        if _settled(tail, policy):
            return tail, False
        limit = min(2 * limit, _MOST)


def _settled(tail: Sequence[Message], policy: SlidingWindow) -> bool:
    """Say whether older messages could change nothing about what the policy keeps of these."""
    candidates = Candidates.of(tail)
    oldest = _newest_gone(candidates, policy(tail))
    if oldest < 0:
        return False
    orphans = (a for a in candidates.broken if a.first > oldest and tail[a.first].role == "tool")
    return len(tail) >= _LOOK_BACK or not any(orphans)


def _newest_gone(candidates: Candidates, kept: Kept) -> int:
    """Return the place of the newest sound atom that left, -1 where all stayed."""
    stay = {_seq(message) for message in kept.kept}
    gone = (a.first for a in candidates.optional if _seq(candidates.messages[a.first]) not in stay)
    return max(gone, default=-1)


def _pinned(store: Store, scope: Scope, tail: Sequence[Message], last: int) -> list[Message]:
    """Return the pinned messages up to ``last``, each with its whole atom; broken atoms are left out."""
    known = {_seq(tail[i]) for atom in atoms(tail) if atom.broken is None for i in atom.indices}
    found: dict[int, Message] = {}
    for message in _all(store, scope, pinned=True, before_seq=last + 1):
        if _seq(message) in known or _seq(message) in found:
            continue
        alone = message.role != "tool" and not message.tool_calls
        atom = [message] if alone else _atom_of(store, scope, message, last)
        found |= {_seq(m): m for m in atom}
    return list(found.values())


def _atom_of(store: Store, scope: Scope, message: Message, last: int) -> list[Message]:
    """Return a tool call or result with the rest of its atom; nothing where it is broken."""
    run, place, limit = [message], 0, 50
    while True:
        atom = next(a for a in atoms(run) if place in a.indices)
        if atom.broken is None:
            return [run[i] for i in atom.indices]
        if run[atom.first].role == "tool":
            more = _page(store, scope, before_seq=_seq(run[0]), newest_first=True, limit=limit)
            run, place = more[::-1] + run, place + len(more)
        else:
            more = _page(store, scope, after_seq=_seq(run[-1]), before_seq=last + 1, limit=limit)
            run = run + more
        if not more:
            return []
        limit = min(2 * limit, _MOST)


def _all(store: Store, scope: Scope, **parts: Any) -> list[Message]:
    out: list[Message] = []
    while True:
        after = _seq(out[-1]) if out else None
        page = _page(store, scope, after_seq=after, limit=_MOST, **parts)
        out += page
        if len(page) < _MOST:
            return out


def _page(store: Store, scope: Scope, **parts: Any) -> list[Message]:
    rows = store.find(Query(scope=scope, kinds=("message",), **parts))
    return [row for row in rows if isinstance(row, Message)]


def _page_size(policy: SlidingWindow) -> int:
    return min(max(100, 5 * policy.k), _MOST)


def _seq(message: Message) -> int:
    assert message.seq is not None, "a saved message has its place"
    return message.seq
