"""The formats of other programs: the JSON of mem0's ``get_all``, and LangGraph's store.

That is the file that ``SqliteStore`` of langgraph-checkpoint-sqlite 3 opens.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from jiyi.records import Fact, Item, Knowledge
from jiyi.storage.transfer.files import atomic_file, path_to_write

__all__ = ["KnownRecord", "record_text", "to_mem0_memory", "write_langgraph", "write_mem0"]

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
    category = getattr(record, "category", "item" if isinstance(record, Item) else "knowledge")
    scope, updated = record.scope, getattr(record, "updated_at", record.created_at)
    owner = {"user_id": scope.user_id, "agent_id": scope.agent_id, "run_id": scope.session_id}
    content = {"id": record.id, "memory": record_text(record), **owner, "metadata": metadata}
    dates = {"created_at": _iso(record.created_at), "updated_at": _iso(updated)}
    end = expires and (expires - timedelta.resolution).date().isoformat()
    return {**content, "categories": [category], **dates, "expiration_date": end}


def record_text(record: KnownRecord) -> str:
    """Return the text of a record."""
    if isinstance(record, Fact):
        return record.object if record.predicate == "note" else record.text
    return record.text if isinstance(record, Item) else record.content


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


# As after the first five migrations of LangGraph, so that it has none of them to run.
_SCHEMA = """
CREATE TABLE store (
  prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
CREATE INDEX store_prefix_idx ON store (prefix);
CREATE INDEX idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE store_migrations (v INTEGER PRIMARY KEY);
INSERT INTO store_migrations VALUES (0), (1), (2), (3), (4);
"""
_INSERT = "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)"
_CHUNK_BYTES = 1 << 20
_json = partial(json.dumps, ensure_ascii=False)


def write_langgraph(file: Path, records: Iterator[KnownRecord], left_out: "Counter[str]") -> None:
    """Write items under their namespace, facts and knowledge below ``memories``.

    Items are left out if LangGraph refuses their labels: any with a dot, and "langgraph" as the first.
    """
    path_to_write(file)
    with TemporaryDirectory(dir=file.resolve().parent, prefix=".jiyi-") as folder:
        path = Path(folder) / "store.db"
        db = apsw.Connection(str(path))
        try:
            db.execute(_SCHEMA)
            with db:
                for record in records:
                    kind = "facts" if isinstance(record, Fact) else "knowledge"
                    namespace = record.namespace if isinstance(record, Item) else ("memories", kind)
                    if namespace[0] == "langgraph" or any("." in label for label in namespace):
                        left_out["labels that LangGraph refuses"] += 1
                    else:
                        db.execute(_INSERT, (".".join(namespace), *_row(record)))
        finally:
            db.close()
        with path.open("rb") as source, atomic_file(file) as out:
            while chunk := source.read(_CHUNK_BYTES):
                out.write(chunk)


def _row(record: KnownRecord) -> tuple[Any, ...]:
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
