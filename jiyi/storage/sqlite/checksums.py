"""The rows of a file one by one: computing their checksums, and reading what is left of a damaged file."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import apsw

from jiyi.errors import DatabaseDamaged
from jiyi.records import SEARCHABLE
from jiyi.storage.damage import DamagedRecord, decode_text
from jiyi.storage.rows import CHECKSUM_COLUMNS, TABLES, Row, row_checksum
from jiyi.storage.sqlite.connection import SqliteConnection

__all__ = ["damaged_records", "fill_checksums", "readable_rows"]

_DOCUMENT_COLUMNS = ("user_id", "agent_id", "session_id", "id", "seq", "created_at")
_BATCH_SIZE = 1_000  # rows read at once
_ASSUMED = 100_000  # newest number if the file does not have it

_ReadRange = Callable[[int, int], list[Row]]


def fill_checksums(connection: apsw.Connection) -> None:
    """Set the checksum of every row, 0 if its text is damaged already."""
    connection.create_scalar_function("row_checksum", _checksum_of_bytes)
    for kind, table in TABLES.items():
        found = f"SELECT {_checksum_sql(kind)} FROM documents AS d WHERE d.doc = t.doc"
        value = f"({found})" if kind in SEARCHABLE else _checksum_sql(kind)
        connection.execute(f"UPDATE {table} AS t SET crc = coalesce({value}, 0)")


def damaged_records(connection: apsw.Connection) -> Iterator[DamagedRecord]:
    """Yield the records whose checksums do not match."""
    connection.create_scalar_function("row_checksum", _checksum_of_bytes)
    for kind, table in TABLES.items():
        names = [_column(kind, name) for name in ("user_id", "id", "session_id", "agent_id")]
        if kind == "step":
            names[2:] = ["NULL", "NULL"]
        shown = ", ".join([f"CAST({name} AS BLOB)" for name in names])
        number = {"task": "NULL", "step": "NULL", "summary": "t.entry", "trash": "NULL"}.get(kind, "t.doc")
        real = "CAST(t.kind AS BLOB)" if kind == "trash" else f"'{kind}'"
        joined = " JOIN documents AS d USING (doc)" if kind in SEARCHABLE else ""
        found = f"SELECT {shown}, {number}, {real} FROM {table} AS t{joined}"
        for *texts, row, stored in connection.execute(f"{found} WHERE t.crc IS NOT {_checksum_sql(kind)}"):
            user_id, id_, *within = map(decode_text, texts)
            where = dict(zip(("session_id", "agent_id"), within, strict=True))
            kind_: Any = decode_text(stored) if isinstance(stored, bytes) else stored
            yield DamagedRecord(user_id=user_id or "?", kind=kind_, id=id_ or "?", number=row, **where)


def _checksum_sql(kind: str) -> str:
    """Return the SQL for the checksum of a row t with its row d of documents; texts are passed as bytes."""
    columns = ", ".join(f"CAST({_column(kind, name)} AS BLOB)" for name in (*CHECKSUM_COLUMNS[kind], "body"))
    return f"row_checksum('{kind}', {columns})"


def _column(kind: str, name: str) -> str:
    if kind in SEARCHABLE and name in _DOCUMENT_COLUMNS:
        return f"d.{name}"
    return f"nullif(t.{name}, '')" if (kind, name) == ("summary", "agent_id") else f"t.{name}"


def _checksum_of_bytes(*given: Any) -> int:
    kind, *columns = given
    try:
        texts = [None if value is None else value.decode() for value in columns]
        return row_checksum(kind, dict(zip((*CHECKSUM_COLUMNS[kind], "body"), texts, strict=True)))
    except (UnicodeDecodeError, AttributeError):
        return 0


def readable_rows(db: SqliteConnection, part: str) -> Iterator[list[Row] | None]:
    """Yield the rows of one kind of records, or of the trash, of all users; None for what cannot be read.

    Tables are read by row numbers, without indexes, and ranges that cannot be read by their halves.
    """
    if part == "task":
        yield from _tasks(db)
        return
    number = {"summary": "s.entry", "trash": "t.entry"}.get(part, "d.doc")

    def ask(first: int, last: int) -> list[Row]:
        values: dict[str, Any] = {"first": first, "last": last, "limit": _BATCH_SIZE}
        where = f"{number} BETWEEN :first AND :last"
        try:
            return db.records(f"find_{part}", values, where=where, order="ASC", by=number)
        except apsw.Error as error:
            raise DatabaseDamaged(str(error)) from error

    table = {"s.entry": "summaries", "t.entry": "trash"}.get(number, "documents")
    newest = _read_number(db, f"SELECT max({number[2:]}) FROM {table}")
    numbered = _read_number(db, "SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
    # A damaged page may hold any number.
    assumed = numbered or _ASSUMED
    last = newest if newest is not None and newest <= 2 * assumed else assumed
    yield from _read_range(ask, number[2:], 1, last)


def _read_range(ask: _ReadRange, name: str, first: int, last: int) -> Iterator[list[Row] | None]:
    while first <= last:
        try:
            rows = ask(first, last)
        except DatabaseDamaged:
            if first == last:
                yield None
                return
            middle = (first + last) // 2
            yield from _read_range(ask, name, first, middle)
            first = middle + 1
            continue
        yield rows
        first = rows[-1][name] + 1 if len(rows) == _BATCH_SIZE else last + 1


def _read_number(db: SqliteConnection, sql: str) -> int | None:
    try:
        row = db.raw.execute(sql).fetchone()
    except apsw.Error:
        return None
    return row[0] if row and type(row[0]) is int else None


def _tasks(db: SqliteConnection) -> Iterator[list[Row] | None]:
    """Yield tasks by their keys, which are read from both ends of the table up to a damaged page."""
    names: dict[tuple[str, str], None] = {}
    broken = False
    for order in ("ASC", "DESC"):
        try:
            by = f"user_id {order}, id {order}"
            for pair in db.raw.execute(
                f"SELECT CAST(user_id AS BLOB), CAST(id AS BLOB) FROM tasks ORDER BY {by}"
            ):
                user_id, id_ = map(partial(bytes.decode, errors="replace"), pair)
                names[user_id, id_] = None
        except apsw.Error:
            broken = True
    if broken:
        yield None
    for user_id, id_ in names:
        values = {"user_id": user_id, "id": id_, "limit": 1}
        try:
            yield db.records("find_task", values, where="t.user_id = :user_id AND t.id = :id", order="ASC")
        except (apsw.Error, DatabaseDamaged):
            yield None
