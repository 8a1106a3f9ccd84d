"""Memories as mem0 gives them: the JSON of its ``get_all``."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from jiyi.manager import MemoryManager
from jiyi.records import Fact, FactStatus, Item, Knowledge
from jiyi.storage.transfer.files import whole_file

__all__ = ["Exported", "Known", "as_memory", "export_mem0", "text_of"]

Known = Fact | Knowledge | Item
"""What a memory knows."""

_PART = 1_000  # records read at once
_HOLDING: Sequence[FactStatus] = ("active", "unsure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written for another program."""

    path: Path  # the file
    counts: Mapping[str, int]  # records that were read, by kind
    bytes: int  # size of the file
    left_out: Mapping[str, int] = field(default_factory=dict)  # of them not written, by reason


def export_mem0(
    memory: MemoryManager,
    file: Path,
    *,
    user_id: str | None = None,
    progress: Callable[[int], object] = int,
) -> Exported:
    """Write a user's facts that hold, knowledge and items: ``{"results": [...]}``, a memory a line.

    Of several in the same words the first is written. Conversations, tasks and episodes have no place
    there; `MemoryManager.export` writes everything. The file is whole or not there.

    Args:
        memory: open on a database or a server.
        file: is replaced where it is there, unless it is a database.
        user_id: whose, where ``memory`` was not opened for one.
        progress: is told the number of records read so far.

    Raises:
        InputError: the file is a database or a device.
        StorageError: the file or the memory cannot be used.
    """
    counts, left_out, written = Counter[str](), Counter[str](), set[str]()
    with whole_file(file) as out:
        out.write(b'{"results": [')
        between = b"\n"
        for record in _known(memory, user_id, counts, progress):
            words = text_of(record).strip()
            if not words or words in written:
                left_out["in the same words as another" if words else "without words"] += 1
                continue
            written.add(words)
            out.write(between + json.dumps(as_memory(record), ensure_ascii=False).encode())
            between = b",\n"
        out.write(b"\n]}\n")
    return Exported(path=file, counts=dict(counts), bytes=file.stat().st_size, left_out=dict(left_out))


def _known(
    memory: MemoryManager, user_id: str | None, counts: Counter[str], progress: Callable[[int], object]
) -> Iterator[Known]:
    """Give facts that hold, knowledge and items, counting them by kind."""
    lists: Mapping[str, Callable[..., Any]] = {
        "fact": lambda **part: memory.facts(status=_HOLDING, **part),
        "knowledge": memory.knowledge,
        "item": memory.items,
    }
    for kind, listed in lists.items():
        after: str | None = ""
        while after is not None:
            found = listed(limit=_PART, after=after or None, user_id=user_id)
            counts[kind] += len(found)
            progress(sum(counts.values()))
            yield from found
            after = found.next


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
