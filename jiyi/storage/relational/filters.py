"""SQL conditions for filters, with the same result on every database."""

import json
from datetime import datetime
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import FIELDS, SEARCHABLE, Condition, Filter, Kind, Op
from jiyi.storage.database import Dialect
from jiyi.storage.rows import FORMATS, TABLES

__all__ = ["DocumentFilter", "TaskFilter"]

_SIGNS = {"in": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_WITH_METADATA: tuple[Kind, ...] = ("message", "knowledge", "fact")
_DOCUMENT_COLUMNS = ("kind", "id", "session_id", "agent_id", "created_at", "pinned", "role")


class DocumentFilter:
    """Writes filters as conditions on ``documents AS d`` and adds their values to ``values``."""

    def __init__(self, dialect: Dialect, values: dict[str, Any]) -> None:
        self._dialect, self._fragments = dialect, dialect.fragments
        self._values = values

    def sql(self, where: Filter) -> str:
        """Return the condition for a filter; it is true or false, never NULL."""
        if isinstance(where, Condition):
            in_json = where.field in ("metadata", "value")
            test = self._json_test(where) if in_json else self._column_test(where)
            return f"coalesce({test}, {self._fragments['no']})"
        parts = (" AND " if where.word == "and" else " OR ").join(map(self.sql, where.parts))
        return f"NOT ({parts})" if where.word == "not" else f"({parts})"

    def column(self, field: str) -> str:
        """Return the expression for a field; it is NULL for records without the field."""
        if field in _DOCUMENT_COLUMNS:
            return f"d.{field}"
        kinds = [kind for kind in FIELDS[field].kinds if kind in SEARCHABLE]
        return self._by_kind({kind: self._kind_column(field, kind) for kind in kinds})

    def _by_kind(self, expressions: dict[Kind, str]) -> str:
        cases = " ".join(f"WHEN '{kind}' THEN {expression}" for kind, expression in expressions.items())
        return f"CASE d.kind {cases} END"

    def _kind_column(self, field: str, kind: Kind) -> str:
        table = TABLES[kind]
        name = "content" if (kind, field) == ("knowledge", "text") else field
        if kind in FORMATS and name in FORMATS[kind].body:
            return self._fragments["json_text"].format(body=self._body(kind), name=name)
        if kind == "message":
            return self._fragments["kept"].format(table=table, column=field)
        same = self._fragments["same"].format("x")
        return f"(SELECT x.{field} FROM {table} AS x WHERE {same})"

    def _body(self, kind: Kind) -> str:
        return self._fragments["kept"].format(table=TABLES[kind], column="body")

    def _json_test(self, where: Condition) -> str:
        """Return the condition on a key of metadata, or on a path into the value of an item."""
        first = where.values[0] if where.values else None
        ordered = isinstance(first, str | int | float) and not isinstance(first, bool)
        if where.op == "exists":
            test = self._fragments["yes"]
        elif where.op == "in" and not (ordered and len(where.values) == 1):
            test = self._fragments["label_in"].format(value=self._bind(json.dumps(where.values)))
        elif isinstance(first, str):  # a single value needs no list
            compared = self._comparison(self._fragments["label_words"], where.op, first)
            test = self._fragments["label_text"].format(test=compared)
        else:
            test = self._fragments["label_number"].format(sign=_SIGNS[where.op], value=self._bind(first))
        if where.field == "value":
            keys = [self._bind(key) for key in where.key.split(".")]
            return self._dialect.json_path(self._by_kind({"item": self._body("item")}), keys, test)
        body = self._by_kind({kind: self._body(kind) for kind in _WITH_METADATA})
        return self._fragments["label"].format(body=body, key=self._bind(where.key), test=test)

    def _column_test(self, where: Condition) -> str:
        column = self.column(where.field)
        if where.op == "exists":
            return f"{column} IS NOT NULL"
        values = [to_micros(value) if isinstance(value, datetime) else value for value in where.values]
        if FIELDS[where.field].type is bool:
            flags = (f"{column} = {self._fragments['yes' if value else 'no']}" for value in values)
            return " OR ".join(flags) or self._fragments["no"]
        if where.op == "in":
            listed = self._bind(self._dialect.array(values))
            return f"{column} {self._fragments['among'].format(':' + listed)}"
        return self._comparison(column, where.op, values[0])

    def _comparison(self, column: str, op: Op, value: object) -> str:
        if op not in ("contains", "icontains"):
            return f"{column} {_SIGNS[op]} :{self._bind(value)}"
        text = column if op == "contains" else f"lower({column})"  # lowers only A to Z
        return self._fragments["holds"].format(text=text, value=self._bind(value))

    def _bind(self, value: object) -> str:
        """Add a value and return the name of its parameter."""
        name = f"filter_{len(self._values)}"
        self._values[name] = value
        return name


class TaskFilter(DocumentFilter):
    """Writes filters as conditions on ``tasks AS t``."""

    def column(self, field: str) -> str:
        """See `DocumentFilter.column`."""
        if field == "kind":
            return "'task'"
        if "task" not in FIELDS[field].kinds:
            return "NULL"
        if field == "created_at":
            return "t.started_at"
        return (
            self._fragments["json_text"].format(body="t.body", name=field)
            if field in FORMATS["task"].body
            else f"t.{field}"
        )

    def _json_test(self, where: Condition) -> str:
        del where  # tasks have neither metadata nor a value
        return self._fragments["no"]
