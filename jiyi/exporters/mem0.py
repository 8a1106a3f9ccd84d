"""Memories as mem0 gives them: the JSON of its ``get_all``."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jiyi.records import Fact, Item, Knowledge
from jiyi.storage.transfer.files import atomic_file

__all__ = ["Known", "as_memory", "text_of", "write_mem0"]

Known = Fact | Knowledge | Item
"""What a memory knows."""


def write_mem0(file: Path, records: Iterator[Known], left_out: "Counter[str]") -> None:
    """Write ``{"results": [...]}``, a memory a line; of several in the same words the first."""
    written: set[str] = set()
    with atomic_file(file) as out:
        out.write(b'{"results": [')
        between = b"\n"
        for record in records:
            words = text_of(record).strip()
            if not words or words in written:
                left_out["in the same words as another" if words else "without words"] += 1
                continue
            written.add(words)
            out.write(between + json.dumps(as_memory(record), ensure_ascii=False).encode())
            between = b",\n"
        out.write(b"\n]}\n")


def as_memory(record: Known) -> dict[str, Any]:
    """Return a record as one of mem0's memories."""
    ends = getattr(record, "valid_to", None) or getattr(record, "expires_at", None)
    labels: dict[str, Any] = dict(getattr(record, "metadata", {}))
    if isinstance(record, Item):
        labels = {"namespace": list(record.namespace), "key": record.key, "value": record.value}
    return {
        "id": record.id,
        "memory": text_of(record),
        "user_id": record.scope.user_id,
        "agent_id": record.scope.agent_id,
        "run_id": record.scope.session_id,
        "metadata": labels,
        "categories": [getattr(record, "category", "item" if isinstance(record, Item) else "knowledge")],
        "created_at": _iso(record.created_at),
        "updated_at": _iso(getattr(record, "updated_at", record.created_at)),
        "expiration_date": ends and (ends - timedelta.resolution).date().isoformat(),
    }


def text_of(record: Known) -> str:
    """Return a record's words, as they were said."""
    if isinstance(record, Fact):
        return record.object if record.category == "note" else record.text
    return record.text if isinstance(record, Item) else record.content


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()
