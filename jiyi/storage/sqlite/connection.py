"""Named statements on one connection to a SQLite file, and the checksums of its rows."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import apsw
import apsw.ext

from jiyi.errors import Closed, DatabaseDamaged
from jiyi.records import SEARCHABLE, Kind
from jiyi.storage.damage import DamagedRecord, DamageLog, decode_text
from jiyi.storage.database import Answer, Call, Connection, Dialect, Values
from jiyi.storage.rows import CHECKSUM_COLUMNS, TABLES, Row, row_checksum
from jiyi.storage.sql import load_conditions, load_queries


def _json_path(body: str, keys: Sequence[str], test: str) -> str:
    """See `Dialect.json_path`: each key is looked up in the value of the one before, if that is an object."""
    names = [*(f"e{place}" for place in range(len(keys) - 1)), "e"]
    tables = [f"json_each({body}, '$.value') AS {names[0]}"]
    for outer, inner in pairwise(names):
        value = f"CASE {outer}.type WHEN 'object' THEN {outer}.value ELSE '{{}}' END"
        tables.append(f"json_each({value}) AS {inner}")
    found = [f"{name}.key = :{key}" for name, key in zip(names, keys, strict=True)]
    return f"EXISTS (SELECT 1 FROM {', '.join(tables)} WHERE {' AND '.join([*found, test])})"


SQLITE = Dialect(
    fragments=load_conditions("sqlite"), array=lambda values: json.dumps(list(values)), json_path=_json_path
)

_SQL = load_queries("sqlite")
_DOCUMENT_COLUMNS = ("user_id", "agent_id", "session_id", "id", "seq", "created_at")
_CHECKSUMMED = {f"put_{kind}": kind for kind in CHECKSUM_COLUMNS} | {"add_summary": "summary"}


class SqliteConnection(Connection):
    """`jiyi.storage.database.Connection` on an `apsw.Connection`."""

    dialect = SQLITE

    def __init__(self, raw: apsw.Connection, damage: DamageLog) -> None:
        self.raw = raw
        self.damage = damage

    def detach(self) -> None:
        """Make the connection unusable in a forked process."""
        self.raw = cast("apsw.Connection", _ClosedByFork())

    @property
    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    def fetch_all(self, calls: Sequence[Call]) -> list[Answer]:
        return [self._answer(call) for call in calls]

    def first(self, name: str, values: Values, **parts: str) -> tuple[Any, ...] | None:
        cursor = self._execute(name, values, parts)
        try:
            return cast("tuple[Any, ...] | None", cursor.fetchone())
        except UnicodeDecodeError as error:
            raise DatabaseDamaged(_DAMAGED_TEXT.format(name)) from error
        finally:
            cursor.close()  # at once: an open statement blocks commits of others and reads old data

    def run(self, name: str, values: Values, **parts: str) -> None:
        self._execute(name, values, parts).fetchall()

    def run_many(self, name: str, values: Iterable[Values]) -> None:
        if name in _CHECKSUMMED:
            values = ({**row, "crc": row_checksum(_CHECKSUMMED[name], row)} for row in values)
        self.raw.executemany(_SQL[name], values)

    def take_numbers(self, user_id: str, count: int) -> int:
        """See `Connection.take_numbers`; the write lock is held until the rows are written."""
        self.run("add_owner", {"user_id": user_id})
        return 1 + self.number("newest_number", {})

    def add_documents(self, kind: Kind, rows: Sequence[Row]) -> None:
        for name in ("add_document", "add_terms", f"put_{kind}"):
            self.run_many(name, rows)

    def _answer(self, call: Call) -> Answer:
        cursor = self._execute(call.name, call.values, call.parts)
        try:
            first = cursor.fetchone()
            if first is None:
                return Answer((), [])
            names = [column[0] for column in cursor.get_description()]  # available with the first row
            return Answer(names, [first, *cursor])
        except UnicodeDecodeError as error:
            cursor.close()  # the error may be kept, and this frame with it
            return self._answer_with_bytes(call, error)

    def _answer_with_bytes(self, call: Call, error: UnicodeDecodeError) -> Answer:
        """Return the result of a statement with damaged texts as bytes."""
        statement = _statement(call.name, call.parts)
        if not statement.lstrip().startswith("SELECT"):
            raise DatabaseDamaged(_DAMAGED_TEXT.format(call.name)) from error
        names = [column[0] for column in apsw.ext.query_info(self.raw, statement).description]
        plain = [f'CASE typeof("{n}") WHEN \'text\' THEN CAST("{n}" AS BLOB) ELSE "{n}" END' for n in names]
        kinds = [f'typeof("{n}")' for n in names]
        rows = self.raw.execute(f"SELECT {', '.join(plain + kinds)} FROM ({statement})", call.values)
        width = len(names)
        return Answer(names, [tuple(map(_text, row[:width], row[width:])) for row in rows])

    def _execute(self, name: str, values: Values, parts: Mapping[str, str]) -> apsw.Cursor:
        if name in _CHECKSUMMED:
            values = {**values, "crc": row_checksum(_CHECKSUMMED[name], values)}
        return self.raw.execute(_statement(name, parts), values)


_DAMAGED_TEXT = "a text that {} reads is damaged; save what is whole with: jiyi repair"


def _statement(name: str, parts: Mapping[str, str]) -> str:
    return _SQL[name].format(**parts) if parts else _SQL[name]


def _text(value: Any, kind: str) -> Any:
    """Decode a text given as bytes; a damaged one stays bytes."""
    if kind == "text":
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return value


class _ClosedByFork:
    """Replaces the connection of a parent process."""

    def __getattr__(self, name: str) -> Any:
        raise Closed("this was begun before a fork; begin it again in this process")


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
