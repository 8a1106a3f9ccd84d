"""The formats of other programs: the JSON of mem0's ``get_all``, and LangGraph's store.

That is the file that ``SqliteStore`` of langgraph-checkpoint-sqlite 3 opens.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from jiyi.manager import MemoryManager
from jiyi.records import Fact, FactStatus, Item, Knowledge
from jiyi.storage.sql import read_statements
from jiyi.storage.store import read_pages
from jiyi.storage.transfer.files import atomic_file, path_to_write

__all__ = ["WRITERS", "Exported", "export_for", "record_text", "to_mem0_memory"]

_KnownRecord = Fact | Knowledge | Item
_SQL = read_statements(__package__, "langgraph.sql")
_PAGE_SIZE = 1_000
_VALID_STATUSES: Sequence[FactStatus] = ("active", "unsure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The receipt of an export for another program."""

    path: Path  # the file
    counts: Mapping[str, int]  # records read, by kind
    bytes: int  # size of the file
    left_out: Mapping[str, int] = field(default_factory=dict)  # records not written, by reason


def export_for(
    program: str,
    memory: MemoryManager,
    file: Path | str,
    *,
    user_id: str | None = None,
    progress: Callable[[int], object] = int,
) -> Exported:
    """Write the valid facts, knowledge and items of a user into a file for another program.

    ``program`` is a name of `WRITERS`. Conversations, tasks and episodes are left out; `MemoryManager.export`
    writes everything. The file is complete or not written at all; an older one is replaced. ``progress`` is
    called with the number of records read so far.

    Raises `InputError` if the file is a database or a device, `StorageError` if it or the memory is unusable.
    """
    counts, left_out, path = Counter[str](), Counter[str](), Path(file)
    WRITERS[program](path, _iter_records(memory, user_id, counts, progress), left_out)
    return Exported(path=path, counts=dict(counts), bytes=path.stat().st_size, left_out=dict(left_out))


def _iter_records(
    memory: MemoryManager, user_id: str | None, counts: "Counter[str]", progress: Callable[[int], object]
) -> Iterator[_KnownRecord]:
    verbs: Mapping[str, Callable[..., Any]] = {
        "fact": partial(memory.facts, status=_VALID_STATUSES),
        "knowledge": memory.knowledge,
        "item": memory.items,
    }
    for kind, verb in verbs.items():
        for page in read_pages(partial(verb, limit=_PAGE_SIZE, user_id=user_id)):
            counts[kind] += len(page)
            progress(sum(counts.values()))
            yield from page


def _write_mem0(file: Path, records: Iterator[_KnownRecord], left_out: "Counter[str]") -> None:
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


def to_mem0_memory(record: _KnownRecord) -> dict[str, Any]:
    """Return a record as a memory of mem0."""
    expires = getattr(record, "valid_to", None) or getattr(record, "expires_at", None)
    metadata: dict[str, Any] = dict(getattr(record, "metadata", {}))
    if isinstance(record, Item):
        metadata = {"namespace": list(record.namespace), "key": record.key, "value": record.value}
    category = getattr(record, "category", "item" if isinstance(record, Item) else "knowledge")
    scope, updated = record.scope, getattr(record, "updated_at", record.created_at)
    owner = {"user_id": scope.user_id, "agent_id": scope.agent_id, "run_id": scope.session_id}
    content = {"id": record.id, "memory": record_text(record), **owner, "metadata": metadata}
    dates = {"created_at": _iso(record.created_at), "updated_at": _iso(updated)}
    end = expires and (expires - timedelta.resolution).date().isoformat()
    return {**content, "categories": [category], **dates, "expiration_date": end}


def record_text(record: _KnownRecord) -> str:
    """Return the text of a record."""
    if isinstance(record, Fact):
        return record.object if record.predicate == "note" else record.text
    return record.text if isinstance(record, Item) else record.content


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


_json = partial(json.dumps, ensure_ascii=False)


def _write_langgraph(file: Path, records: Iterator[_KnownRecord], left_out: "Counter[str]") -> None:
    """Write items under their namespace, facts and knowledge below ``memories``.

    Items are left out if LangGraph refuses their labels: any with a dot, and "langgraph" as the first.
    """
    path_to_write(file)
    with TemporaryDirectory(dir=file.resolve().parent, prefix=".jiyi-") as folder:
        path = Path(folder) / "store.db"
        with closing(apsw.Connection(str(path))) as db, db:
            db.execute(_SQL["schema"])
            for record in records:
                kind = "facts" if isinstance(record, Fact) else "knowledge"
                namespace = record.namespace if isinstance(record, Item) else ("memories", kind)
                if namespace[0] == "langgraph" or any("." in label for label in namespace):
                    left_out["labels that LangGraph refuses"] += 1
                else:
                    db.execute(_SQL["put"], (".".join(namespace), *_row(record)))
        with path.open("rb") as source, atomic_file(file) as out:
            shutil.copyfileobj(source, out)


def _row(record: _KnownRecord) -> tuple[Any, ...]:
    """Return key, value, created_at, updated_at, expires_at and ttl in minutes."""
    dates = _date(record.created_at), _date(getattr(record, "updated_at", record.created_at))
    if isinstance(record, Item):
        ttl = None if record.ttl is None else record.ttl / 60
        return (record.key, _json(record.value), *dates, _date(record.expires_at), ttl)
    value: dict[str, Any] = {"content": record_text(record), "user_id": record.scope.user_id}
    value["metadata"] = dict(record.metadata)
    if isinstance(record, Fact):
        value |= {"subject": record.subject, "predicate": record.predicate, "object": record.object}
        value |= {name: _date(getattr(record, name)) for name in ("valid_from", "valid_to")}
    else:
        value |= {"topic": record.topic, "key_points": list(record.key_points)}
    return (record.id, _json(value), *dates, None, None)


def _date(moment: datetime | None) -> str | None:
    """Return a time in the format of SQLite's functions, in UTC."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


WRITERS: Mapping[str, Callable[[Path, Iterator[_KnownRecord], "Counter[str]"], None]] = {
    "langgraph": _write_langgraph,
    "mem0": _write_mem0,
}
"""Writers by the name of the program."""
