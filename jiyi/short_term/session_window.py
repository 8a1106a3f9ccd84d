"""The window of one session: a value, and how it is read from the store."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from jiyi.records import Message, Query, Scope
from jiyi.records.atoms import Atom, atoms, turns
from jiyi.short_term.policies import SlidingWindow
from jiyi.short_term.policy import Candidates, Kept
from jiyi.storage.store import Store

__all__ = ["SessionWindow", "load", "refresh"]

_LOOK_BACK = 1_000  # how many messages back the call of a late result is looked for
_MOST = 10_000  # rows a query may return
_EMPTY = Kept(kept=(), dropped=())


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWindow:
    """What is held of a session: enough to go on without the older messages."""

    messages: tuple[Message, ...] = ()  # what stays, and broken atoms that may yet be mended
    last_seq: int = -1  # every message up to here has been looked at
    kept: Kept = _EMPTY  # the policy's decision about ``messages``
    joined: bool = False  # a tool call joins turns here; what follows then needs the older messages

    @classmethod
    def of(cls, messages: Sequence[Message], last_seq: int, policy: SlidingWindow) -> "SessionWindow":
        """Return the window of these messages of a session, in order; the rest is let go."""
        candidates = Candidates.of(messages)
        kept = policy(messages)
        gone = _newest_gone(candidates, kept.kept)
        mendable = {_seq(messages[i]) for a in candidates.broken if a.first > gone for i in a.indices}
        stay = {_seq(message) for message in kept.kept}
        chosen = (a.first for a in candidates.optional if _seq(messages[a.first]) in stay)
        oldest = min(chosen, default=len(messages))
        return cls(
            messages=tuple(m for m in messages if _seq(m) in stay or _seq(m) in mendable),
            last_seq=last_seq,
            kept=Kept(kept=kept.kept, dropped=tuple(d for d in kept.dropped if _seq(d.message) in mendable)),
            joined=any(atom.indices[-1] > oldest for atom in _joining(messages)),
        )

    def then(self, new: Sequence[Message], policy: SlidingWindow) -> "SessionWindow | None":
        """Return the window after these next messages of the session, which are in order.

        None where that takes older messages than are held: for a result whose call is not
        here, where a tool call reaches across turns and joins them, and for a new turn that
        opens pinned, because it counts nothing and the turn before may have been cut to fit.
        """
        if not new:
            return self
        messages, held = (*self.messages, *new), len(self.messages)
        orphan = any(a.first >= held and messages[a.first].role == "tool" for a in atoms(messages))
        joining = self.joined or any(a.indices[-1] >= held for a in _joining(messages))
        if orphan or joining or any(m.role == "user" and m.pinned for m in new):
            return None
        return SessionWindow.of(messages, _seq(new[-1]), policy)


def load(store: Store, scope: Scope, policy: SlidingWindow) -> SessionWindow:
    """Read a session's window from the store.

    Reads the newest messages until the window is settled, then system and pinned messages
    from further back. The rows read do not grow with the length of the session, except
    for the call or results of a pinned message, which are searched for until found.
    """
    limit = _page_size(policy)
    tail = _page(store, scope, newest_first=True, limit=limit)[::-1]
    whole = len(tail) < limit
    if not tail:
        return SessionWindow()
    last = _seq(tail[-1])
    pinned = [] if whole else _pinned(store, scope, tail, last)
    while not whole and not _settled(tail, pinned, policy):
        limit = min(2 * limit, _MOST)
        page = _page(store, scope, before_seq=_seq(tail[0]), newest_first=True, limit=limit)
        tail = page[::-1] + tail
        whole = len(page) < limit
    older = [message for atom in pinned for message in atom]
    if not whole:
        low = _seq(tail[0])
        older += _all(store, scope, roles=("system",), before_seq=low)
        if tail[turns(tail)[-1][0]].role != "user":  # a turn so long that its beginning is far back
            older += _opener(store, scope, low, pinned)
    found = {_seq(m): m for m in (*older, *tail)}
    return SessionWindow.of([found[seq] for seq in sorted(found)], last, policy)


def refresh(store: Store, scope: Scope, policy: SlidingWindow, window: SessionWindow) -> SessionWindow:
    """Return the window with what was saved since; the same object where nothing was."""
    limit = _page_size(policy)
    new = _page(store, scope, after_seq=window.last_seq, limit=limit)
    later = window.then(new, policy) if len(new) < limit else None
    return later if later is not None else load(store, scope, policy)


def _settled(tail: Sequence[Message], pinned: Sequence[list[Message]], policy: SlidingWindow) -> bool:
    """Say whether older messages could change nothing about what the policy keeps of these."""
    candidates, kept = Candidates.of(tail), policy(tail).kept
    oldest = _newest_gone(candidates, kept)
    if oldest < 0:
        return False
    if len(tail) >= _LOOK_BACK:
        return True
    if any(a.first > oldest and tail[a.first].role == "tool" for a in candidates.broken):
        return False  # its call may be further back
    if any(_seq(a[0]) < _seq(tail[0]) <= _seq(a[-1]) for a in pinned):
        return False
    # The oldest turn that is kept must be here from its beginning, for its size to be known;
    # a single turn too long for the window is the exception.
    free = {_seq(tail[i]) for atom in candidates.optional for i in atom.indices}
    chosen = [places for places in turns(kept) if any(_seq(kept[i]) in free for i in places)]
    known = not chosen or kept[chosen[0][0]].role == "user"
    return known or all(message.role != "user" for message in kept)


def _newest_gone(candidates: Candidates, kept: Sequence[Message]) -> int:
    """Return the place of the newest sound atom that left, -1 where all stayed."""
    stay = {_seq(message) for message in kept}
    gone = (a.first for a in candidates.optional if _seq(candidates.messages[a.first]) not in stay)
    return max(gone, default=-1)


def _opener(store: Store, scope: Scope, low: int, pinned: Sequence[list[Message]]) -> list[Message]:
    """Return the user message that opens the turn which goes on at ``low``, if there is one."""
    while found := _page(store, scope, roles=("user",), before_seq=low, newest_first=True, limit=1):
        joining = [_seq(a[0]) for a in pinned if _seq(a[0]) < _seq(found[0]) < _seq(a[-1])]
        if not joining:
            return found
        low = min(joining)
    return []


def _joining(messages: Sequence[Message]) -> list[Atom]:
    """Return the atoms that reach across the beginning of a turn."""
    users = list(accumulate(message.role == "user" for message in messages))
    return [atom for atom in atoms(messages) if users[atom.first] < users[atom.indices[-1]]]


def _pinned(store: Store, scope: Scope, tail: Sequence[Message], last: int) -> list[list[Message]]:
    """Return the atoms of the pinned messages up to ``last`` that are not whole in ``tail``.

    Broken ones are left out: among fewer messages they could take a result not theirs.
    """
    known = {_seq(tail[i]) for atom in atoms(tail) if atom.broken is None for i in atom.indices}
    found: list[list[Message]] = []
    for message in _all(store, scope, pinned=True, before_seq=last + 1):
        if _seq(message) not in known:
            alone = message.role != "tool" and not message.tool_calls
            atom = [message] if alone else _atom_of(store, scope, message, last)
            found.append(atom)
            known |= {_seq(m) for m in atom}
    return [atom for atom in found if atom]


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
    return min(max(100, 5 * (policy.k or 0)), _MOST)


def _seq(message: Message) -> int:
    assert message.seq is not None, "a saved message has its place"
    return message.seq
