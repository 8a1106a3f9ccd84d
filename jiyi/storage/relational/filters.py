"""Filters to SQL, with the same answer from every database."""

import json
from datetime import datetime
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import FIELDS, SEARCHABLE, Condition, Filter, Kind, Op
from jiyi.storage.database import Dialect
from jiyi.storage.rows import FORMATS, TABLES

__all__ = ["OfDocuments", "OfTasks"]

_SIGNS = {"in": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_WITH_METADATA: tuple[Kind, ...] = ("message", "knowledge", "fact")
_OF_DOCUMENTS = ("kind", "id", "session_id", "agent_id", "created_at", "pinned", "role")


class OfDocuments:
    """Writes filters as conditions on ``documents AS d``; their values go into ``values``."""

    def __init__(self, dialect: Dialect, values: dict[str, Any]) -> None:
        self._dialect, self._words = dialect, dialect.words
        self._values = values

    def sql(self, where: Filter) -> str:
        """Return the condition that a filter is; it is true or false, never unknown."""
        if isinstance(where, Condition):
            found = self._labelled(where) if where.field in ("metadata", "value") else self._tested(where)
            return f"coalesce({found}, {self._words['no']})"
        parts = (" AND " if where.word == "and" else " OR ").join(map(self.sql, where.parts))
        return f"NOT ({parts})" if where.word == "not" else f"({parts})"

    def column(self, field: str) -> str:
        """Return the expression for a field; NULL where a record has none."""
        if field in _OF_DOCUMENTS:
            return f"d.{field}"
        kinds = [kind for kind in FIELDS[field].kinds if kind in SEARCHABLE]
        return self._by_kind({kind: self._of_kind(field, kind) for kind in kinds})

    def _by_kind(self, expressions: dict[Kind, str]) -> str:
        cases = " ".join(f"WHEN '{kind}' THEN {expression}" for kind, expression in expressions.items())
        return f"CASE d.kind {cases} END"

    def _of_kind(self, field: str, kind: Kind) -> str:
        table = TABLES[kind]
        name = "content" if (kind, field) == ("knowledge", "text") else field
        if kind in FORMATS and name in FORMATS[kind].body:
            return self._words["json_text"].format(body=self._body(kind), name=name)
        if kind == "message":
            return self._words["kept"].format(table=table, column=field)
        same = self._words["same"].format("x")
        return f"(SELECT x.{field} FROM {table} AS x WHERE {same})"

    def _body(self, kind: Kind) -> str:
        return self._words["kept"].format(table=TABLES[kind], column="body")

    def _labelled(self, where: Condition) -> str:
        """Return the condition on a key of metadata, or on what lies on a way into the value of an item."""
        first = where.values[0] if where.values else None
        ordered = isinstance(first, str | int | float) and not isinstance(first, bool)
        if where.op == "exists":
            test = self._words["yes"]
        elif where.op == "in" and not (ordered and len(where.values) == 1):
            test = self._words["label_in"].format(value=self._keep(json.dumps(where.values)))
        elif isinstance(first, str):  # one value alone needs no list
            compared = self._compared(self._words["label_words"], where.op, first)
            test = self._words["label_text"].format(test=compared)
        else:
            test = self._words["label_number"].format(sign=_SIGNS[where.op], value=self._keep(first))
        if where.field == "value":
            keys = [self._keep(key) for key in where.key.split(".")]
            return self._dialect.inside(self._by_kind({"item": self._body("item")}), keys, test)
        body = self._by_kind({kind: self._body(kind) for kind in _WITH_METADATA})
        return self._words["label"].format(body=body, key=self._keep(where.key), test=test)

    def _tested(self, where: Condition) -> str:
        column = self.column(where.field)
        if where.op == "exists":
            return f"{column} IS NOT NULL"
        values = [to_micros(value) if isinstance(value, datetime) else value for value in where.values]
        if FIELDS[where.field].type is bool:
            flags = (f"{column} = {self._words['yes' if value else 'no']}" for value in values)
            return " OR ".join(flags) or self._words["no"]
        if where.op == "in":
            return f"{column} {self._words['among'].format(':' + self._keep(self._dialect.listed(values)))}"
        return self._compared(column, where.op, values[0])

    def _compared(self, column: str, op: Op, value: object) -> str:
        if op not in ("contains", "icontains"):
            return f"{column} {_SIGNS[op]} :{self._keep(value)}"
        text = column if op == "contains" else f"lower({column})"  # of A to Z alone
        return self._words["holds"].format(text=text, value=self._keep(value))

    def _keep(self, value: object) -> str:
        """Keep a value and return the name of its parameter."""
        name = f"asked_{len(self._values)}"
        self._values[name] = value
        return name


class OfTasks(OfDocuments):
    """Writes filters as conditions on ``tasks AS t``."""

    def column(self, field: str) -> str:
        """See `OfDocuments.column`."""
        if field == "kind":
            return "'task'"
        if "task" not in FIELDS[field].kinds:
            return "NULL"
        if field == "created_at":
            return "t.started_at"
        return (
            self._words["json_text"].format(body="t.body", name=field)
            if field in FORMATS["task"].body
            else f"t.{field}"
        )

    def _labelled(self, where: Condition) -> str:
        del where  # tasks have neither metadata nor a value
        return self._words["no"]
