"""Records whose bytes are no longer what was written: those that were met, for notes and reports."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.records import Kind, Scope

__all__ = ["Damage", "Damaged", "readable"]

_MOST = 10_000  # kept

_log = logging.getLogger("jiyi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A record that cannot be given back as it was; its columns may be damaged too."""

    user_id: str
    kind: Kind
    id: str
    session_id: str | None = None
    agent_id: str | None = None
    number: int | None = None  # of its row; None for tasks and what lies in the trash

    def __str__(self) -> str:
        where = f" in session {self.session_id!r}" if self.session_id else ""
        return f"{self.kind} {self.id!r}{where} of user {self.user_id!r}"


class Damage:
    """What reading met so far; each record is told to the log once. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[tuple[Kind, str, str], Damaged] = {}

    def add(self, kind: Kind, row: Mapping[str, Any], why: object) -> None:
        """Take in a row that is damaged; it is left out of what is being read."""
        texts = {name: readable(row.get(name)) for name in ("session_id", "agent_id")}
        user_id, id_ = readable(row.get("user_id")) or "?", readable(row.get("id")) or "?"
        number = row.get("doc") if kind != "summary" else row.get("entry")
        one = Damaged(user_id=user_id, kind=kind, id=id_, number=number, **texts)
        with self._lock:
            new = (kind, user_id, id_) not in self._met
            if new and len(self._met) < _MOST:
                self._met[kind, user_id, id_] = one
        if new:
            _log.warning("%s is damaged and left out (%s); run: jiyi doctor", one, why)

    @property
    def count(self) -> int:
        """How many were met."""
        return len(self._met)

    def of(self, scope: Scope, ids: Sequence[str] | None = None) -> list[Damaged]:
        """Return what was met in a scope, of these ids where they are given."""
        with self._lock:
            met = list(self._met.values())
        return [
            one
            for one in met
            if one.user_id == scope.user_id
            and scope.session_id in (None, one.session_id)
            and scope.agent_id in (None, one.agent_id)
            and (ids is None or one.id in ids)
        ]

    def gone(self, some: Sequence[Damaged]) -> None:
        """Forget what was removed since."""
        with self._lock:
            for one in some:
                self._met.pop((one.kind, one.user_id, one.id), None)

    def notes(self, scope: Scope) -> tuple[str, ...]:
        """Return what a reader of a scope should know: nothing, or one line."""
        count = len(self.of(scope)) if self._met else 0
        return (f"damaged records left out: {count}; run: jiyi doctor",) if count else ()


def readable(value: object) -> str | None:
    """Return a text, with signs in place of damaged bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)
