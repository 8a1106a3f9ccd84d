"""A store of LangGraph: the file that ``SqliteStore`` of langgraph-checkpoint-sqlite 3 opens."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from jiyi.exporters.mem0 import Known, text_of
from jiyi.records import Fact, Item
from jiyi.storage.transfer.files import atomic_file, path_to_write

__all__ = ["write_langgraph"]

# Its own first five changes of the schema, so that it has none of them to do again.
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
_ADD = "INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, ?)"
_PIECE = 1 << 20


def write_langgraph(file: Path, records: Iterator[Known], left_out: "Counter[str]") -> None:
    """Write items under their own namespace, facts and knowledge below ``memories``.

    Left out are items whose labels LangGraph refuses: those with a dot, and "langgraph" as the first.
    """
    path_to_write(file)
    with TemporaryDirectory(dir=file.resolve().parent, prefix=".jiyi-") as folder:
        made = Path(folder) / "store.db"
        db = apsw.Connection(str(made))
        try:
            db.execute(_SCHEMA)
            with db:
                for record in records:
                    namespace = _namespace(record)
                    if namespace[0] == "langgraph" or any("." in label for label in namespace):
                        left_out["labels that LangGraph refuses"] += 1
                    else:
                        db.execute(_ADD, (".".join(namespace), *_row(record)))
        finally:
            db.close()
        with made.open("rb") as source, atomic_file(file) as out:
            while piece := source.read(_PIECE):
                out.write(piece)


def _namespace(record: Known) -> tuple[str, ...]:
    if isinstance(record, Item):
        return record.namespace
    return ("memories", "facts" if isinstance(record, Fact) else "knowledge")


def _row(record: Known) -> tuple[Any, ...]:
    """Return key, value, created, updated, end and minutes to live."""
    dates = _date(record.created_at), _date(getattr(record, "updated_at", record.created_at))
    if isinstance(record, Item):
        ttl = None if record.ttl is None else record.ttl / 60
        return (record.key, _json(record.value), *dates, _date(record.expires_at), ttl)
    value: dict[str, Any] = {"content": text_of(record), "user_id": record.scope.user_id}
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
    """Return a time as SQLite's own functions write it, in UTC."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
