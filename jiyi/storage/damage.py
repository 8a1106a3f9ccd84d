"""The damaged records that reading found: their bytes are no longer what was written."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jiyi.records import Kind, Scope

__all__ = ["DamageLog", "DamagedRecord", "decode_text"]

_MAX_RECORDS = 10_000  # remembered

_log = logging.getLogger("jiyi")


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRecord:
    """A record that cannot be read as it was written; its columns may be damaged too."""

    user_id: str
    kind: Kind
    id: str
    session_id: str | None = None
    agent_id: str | None = None
    number: int | None = None  # of its row; None for tasks and entries of the trash

    def __str__(self) -> str:
        where = f" in session {self.session_id!r}" if self.session_id else ""
        return f"{self.kind} {self.id!r}{where} of user {self.user_id!r}"


class DamageLog:
    """The damaged records found so far; each is logged once. Safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[tuple[Kind, str, str], DamagedRecord] = {}

    def add(self, kind: Kind, row: Mapping[str, Any], why: object) -> None:
        """Note a damaged row, which the caller leaves out of its answer."""
        texts = {name: decode_text(row.get(name)) for name in ("session_id", "agent_id")}
        user_id, id_ = decode_text(row.get("user_id")) or "?", decode_text(row.get("id")) or "?"
        number = row.get("doc") if kind != "summary" else row.get("entry")
        record = DamagedRecord(user_id=user_id, kind=kind, id=id_, number=number, **texts)
        with self._lock:
            new = (kind, user_id, id_) not in self._records
            if new and len(self._records) < _MAX_RECORDS:
                self._records[kind, user_id, id_] = record
        if new:
            _log.warning("%s is damaged and left out (%s); run: jiyi doctor", record, why)

    @property
    def count(self) -> int:
        """How many were found."""
        return len(self._records)

    def in_scope(self, scope: Scope, ids: Sequence[str] | None = None) -> list[DamagedRecord]:
        """Return the records found in a scope, only those with these ids where ids are given."""
        with self._lock:
            records = list(self._records.values())
        found = [r for r in records if scope.covers(r.user_id, r.agent_id, r.session_id)]
        return found if ids is None else [record for record in found if record.id in ids]

    def forget(self, removed: Sequence[DamagedRecord]) -> None:
        """Forget records that were removed from the database."""
        with self._lock:
            for record in removed:
                self._records.pop((record.kind, record.user_id, record.id), None)

    def notes(self, scope: Scope) -> tuple[str, ...]:
        """Return a line that says how many damaged records a scope has; nothing if it has none."""
        count = len(self.in_scope(scope)) if self._records else 0
        return (f"damaged records left out: {count}; run: jiyi doctor",) if count else ()


def decode_text(value: object) -> str | None:
    """Return a column's text, with replacement characters for damaged bytes."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)
