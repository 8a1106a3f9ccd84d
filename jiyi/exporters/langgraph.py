"""A store of LangGraph: the file that ``SqliteStore`` of langgraph-checkpoint-sqlite 3 opens."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from jiyi.exporters.mem0 import KnownRecord, record_text
from jiyi.records import Fact, Item
from jiyi.storage.transfer.files import atomic_file, path_to_write

__all__ = ["write_langgraph"]

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
                    namespace = _namespace(record)
                    if namespace[0] == "langgraph" or any("." in label for label in namespace):
                        left_out["labels that LangGraph refuses"] += 1
                    else:
                        db.execute(_INSERT, (".".join(namespace), *_row(record)))
        finally:
            db.close()
        with path.open("rb") as source, atomic_file(file) as out:
            while chunk := source.read(_CHUNK_BYTES):
                out.write(chunk)


def _namespace(record: KnownRecord) -> tuple[str, ...]:
    if isinstance(record, Item):
        return record.namespace
    return ("memories", "facts" if isinstance(record, Fact) else "knowledge")


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


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _date(moment: datetime | None) -> str | None:
    """Return a time in the format of SQLite's functions, in UTC."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
