"""Whether a copy holds what its source holds: counts and digests, and where they differ, what it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from jiyi.errors import CopyMismatch
from jiyi.records import Message, Scope
from jiyi.storage.backend import Backend
from jiyi.storage.copy_parts import Digest, Item, Part, key_of, look_up, pieces, text_of
from jiyi.storage.copy_records import sessions_ending

__all__ = ["Checked", "check_part"]

_NAMED = 10  # ids in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of comparing one part of a user's memory."""

    digest: Digest  # of the source's records
    changed: bool  # the source is not what was copied
    extra: int = 0  # records that only the target has


@dataclass(slots=True)
class _Apart:
    """Keys that stand on one side, or for different things; the first few are kept."""

    count: int = 0
    ids: list[str] = field(default_factory=list)

    def note(self, item: Item) -> None:
        self.count += 1
        if len(self.ids) < _NAMED:
            self.ids.append(key_of(item)[1])


def check_part(
    source: Backend,
    target: Backend,
    scope: Scope,
    part: Part,
    *,
    copied: Digest,
    refused: int,
    told: Callable[[int], None],
) -> Checked:
    """Compare one part of a user's memory on both ends, all of it.

    Args:
        source, target: the ends.
        scope: the user.
        part: which records.
        copied: what was read of the source when it was copied.
        refused: how many records were left out, as the target has something else in their place.
        told: called with the number of records of each piece that was looked at.

    Raises:
        CopyMismatch: something is missing in the target or differs; names up to ten ids.
    """
    here, sessions = Digest(), _Sessions(source, target, scope)
    for piece in pieces(source, scope, part):
        here += Digest.of(piece)
        if part == "message":
            sessions.look(cast("Sequence[Message]", piece))
        told(len(piece))
    there = sum((Digest.of(piece) for piece in pieces(target, scope, part)), Digest())
    changed = here != copied
    if here == there:
        if sessions.wrong and not changed:
            raise _mismatch(source, target, scope, "session", f"different: {', '.join(sessions.wrong)}")
        return Checked(digest=here, changed=changed)
    missing, different, extra = _differences(source, target, scope, part)
    if missing.count + different.count > refused and not changed:
        told_apart = [
            f"{what}: {apart.count} ({', '.join(apart.ids)})"
            for what, apart in (("missing", missing), ("different", different))
            if apart.count
        ]
        counts = f"{here.count} records against {there.count}; {'; '.join(told_apart)}"
        raise _mismatch(source, target, scope, part, counts)
    return Checked(digest=here, changed=changed, extra=extra.count)


class _Sessions:
    """Looks whether the sessions of both ends agree, as far as their messages do."""

    def __init__(self, source: Backend, target: Backend, scope: Scope) -> None:
        self._source, self._target, self._scope = source, target, scope
        self.wrong: list[str] = []  # the first few that do not

    def look(self, messages: Sequence[Message]) -> None:
        for session, there in sessions_ending(self._source, self._target, self._scope, messages):
            same = there is not None and (
                there.started_at == session.started_at
                and there.last_active_at == session.last_active_at
                and there.messages == session.messages
                and there.next_seq >= session.next_seq
            )
            if not same and len(self.wrong) < _NAMED:
                self.wrong.append(session.id)


def _differences(source: Backend, target: Backend, scope: Scope, part: Part) -> tuple[_Apart, _Apart, _Apart]:
    """Return what is missing in the target, what differs, and what only the target has."""
    missing, different, extra = _Apart(), _Apart(), _Apart()
    for piece in pieces(source, scope, part):
        there = look_up(target, scope, part, piece)
        for item in piece:
            other = there.get(key_of(item))
            if other is None:
                missing.note(item)
            elif text_of(other) != text_of(item):
                different.note(item)
    for piece in pieces(target, scope, part):
        here = look_up(source, scope, part, piece)
        for item in piece:
            if key_of(item) not in here:
                extra.note(item)
    return missing, different, extra


def _mismatch(source: Backend, target: Backend, scope: Scope, part: str, what: str) -> CopyMismatch:
    return CopyMismatch(
        f"{target.database.place} does not hold what {source.database.place} holds: user {scope.user_id!r}, "
        f"{part}: {what}; copy again, or copy into a fresh place"
    )
