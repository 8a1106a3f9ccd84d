"""The checksums of all rows of a file: filled in where an older schema had none, and compared."""

from collections.abc import Iterator, Mapping
from typing import Any

import apsw

from jiyi.records import SEARCHABLE
from jiyi.storage.damage import Damaged
from jiyi.storage.seals import SEALED, seal

__all__ = ["damaged_records", "fill_checksums"]

_TABLES: Mapping[str, str] = {
    "message": "messages",
    "episode": "episodes",
    "knowledge": "knowledge",
    "fact": "facts",
    "item": "items",
    "task": "tasks",
    "step": "steps",
    "summary": "summaries",
    "trash": "trash",
}
_OF_DOCUMENTS = ("user_id", "agent_id", "session_id", "id", "seq", "created_at")


def fill_checksums(connection: apsw.Connection) -> None:
    """Give every row its checksum; 0 to one whose text is damaged already."""
    connection.create_scalar_function("seal", _seal)
    for kind, table in _TABLES.items():
        found = f"SELECT {_sealed(kind)} FROM documents AS d WHERE d.doc = t.doc"
        value = f"({found})" if kind in SEARCHABLE else _sealed(kind)
        connection.execute(f"UPDATE {table} AS t SET crc = coalesce({value}, 0)")


def damaged_records(connection: apsw.Connection) -> Iterator[Damaged]:
    """Give the records whose rows are not what was written; steps are named by their task's user."""
    connection.create_scalar_function("seal", _seal)
    for kind, table in _TABLES.items():
        names = [_column(kind, name) for name in ("user_id", "id", "session_id", "agent_id")]
        if kind == "step":
            names[2:] = ["NULL", "NULL"]
        shown = ", ".join([f"CAST({name} AS BLOB)" for name in names])
        number = {"task": "NULL", "step": "NULL", "summary": "t.entry", "trash": "NULL"}.get(kind, "t.doc")
        real = "CAST(t.kind AS BLOB)" if kind == "trash" else f"'{kind}'"
        joined = " JOIN documents AS d USING (doc)" if kind in SEARCHABLE else ""
        rows = connection.execute(
            f"SELECT {shown}, {number}, {real} FROM {table} AS t{joined} WHERE t.crc IS NOT {_sealed(kind)}"
        )
        for *texts, row, of in rows:
            user_id, id_, session_id, agent_id = map(_readable, texts)
            named: Any = _readable(of) if isinstance(of, bytes) else of
            yield Damaged(
                user_id=user_id or "?",
                kind=named,
                id=id_ or "?",
                session_id=session_id,
                agent_id=agent_id,
                number=row,
            )


def _sealed(kind: str) -> str:
    """Return the expression for the checksum of a row t, with its row d of documents; texts as bytes."""
    columns = ", ".join(f"CAST({_column(kind, name)} AS BLOB)" for name in (*SEALED[kind], "body"))
    return f"seal('{kind}', {columns})"


def _column(kind: str, name: str) -> str:
    if kind in SEARCHABLE and name in _OF_DOCUMENTS:
        return f"d.{name}"
    return f"nullif(t.{name}, '')" if (kind, name) == ("summary", "agent_id") else f"t.{name}"


def _seal(*given: Any) -> int:
    kind, *columns = given
    try:
        texts = [None if value is None else value.decode() for value in columns]
        return seal(kind, dict(zip((*SEALED[kind], "body"), texts, strict=True)))
    except (UnicodeDecodeError, AttributeError):
        return 0


def _readable(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")
