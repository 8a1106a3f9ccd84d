"""Memories in the format of mem0: the JSON of its ``get_all``."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jiyi.records import Fact, Item, Knowledge
from jiyi.storage.transfer.files import atomic_file

__all__ = ["KnownRecord", "record_text", "to_mem0_memory", "write_mem0"]

KnownRecord = Fact | Knowledge | Item
"""Records that are exported."""


def write_mem0(file: Path, records: Iterator[KnownRecord], left_out: "Counter[str]") -> None:
    """Write ``{"results": [...]}`` with a memory per line; of those with the same text only the first."""
    written: set[str] = set()
    with atomic_file(file) as out:
        out.write(b'{"results": [')
        separator = b"\n"
        for record in records:
            text = record_text(record).strip()
            if not text or text in written:
                left_out["in the same words as another" if text else "without words"] += 1
                continue
            written.add(text)
            out.write(separator + json.dumps(to_mem0_memory(record), ensure_ascii=False).encode())
            separator = b",\n"
        out.write(b"\n]}\n")


def to_mem0_memory(record: KnownRecord) -> dict[str, Any]:
    """Return a record as a memory of mem0."""
    expires = getattr(record, "valid_to", None) or getattr(record, "expires_at", None)
    metadata: dict[str, Any] = dict(getattr(record, "metadata", {}))
    if isinstance(record, Item):
        metadata = {"namespace": list(record.namespace), "key": record.key, "value": record.value}
    return {
        "id": record.id,
        "memory": record_text(record),
        "user_id": record.scope.user_id,
        "agent_id": record.scope.agent_id,
        "run_id": record.scope.session_id,
        "metadata": metadata,
        "categories": [getattr(record, "category", "item" if isinstance(record, Item) else "knowledge")],
        "created_at": _iso(record.created_at),
        "updated_at": _iso(getattr(record, "updated_at", record.created_at)),
        "expiration_date": expires and (expires - timedelta.resolution).date().isoformat(),
    }


def record_text(record: KnownRecord) -> str:
    """Return the text of a record."""
    if isinstance(record, Fact):
        return record.object if record.predicate == "note" else record.text
    return record.text if isinstance(record, Item) else record.content


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
