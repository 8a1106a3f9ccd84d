"""SQL conditions for queries, which begin with the user, and for their filters."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from jiyi.clock import to_micros
from jiyi.records import FIELDS, SEARCHABLE, Condition, Filter, Kind, Op, Query, path_of
from jiyi.storage.database import Dialect
from jiyi.storage.rows import FORMATS, TABLES, is_storable
from jiyi.text.keys import entity_key, predicate_key

Conditions = tuple[str, dict[str, Any]]
"""A WHERE clause and the values of its named parameters."""

NOT_OF_ALL = (
    *("roles", "where", "after_seq", "before_seq", "stretches", "after", "target", "consolidated"),
    *("entity", "subject", "predicate", "as_of", "fact_status", "sources", "namespace", "task_id", "status"),
)
"""Conditions of a query that some kinds of records lack: a query with one finds none of these kinds."""

_OF_ALL = ("agent_id", "session_id", "ids", "without", "since", "until")
_OF_DOCUMENTS = (
    *("after_seq", "before_seq", "task_id", "status", "sources"),
    *("entity", "subject", "as_of", "there_at"),
)
_CURSORS = {"task": ("t.started_at", "t.id"), "session": ("s.started_at", "s.session_id")}

_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("since", "until", "as_of", "there_at"), to_micros),
    **dict.fromkeys(("entity", "subject", "target"), entity_key),
    "predicate": lambda given: [predicate_key(p) for p in ((given,) if isinstance(given, str) else given)],
}
"""Functions that convert values of a query to what columns hold."""

_SIGNS = {"in": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_WITH_METADATA: tuple[Kind, ...] = ("message", "knowledge", "fact")
_DOCUMENT_COLUMNS = ("kind", "id", "session_id", "agent_id", "created_at", "pinned", "role")


class Where:
    """Builds the conditions of a query on rows of one kind, from ``sql/conditions.sql``."""

    def __init__(self, of: str, query: Query, dialect: Dialect, *, no_index: str = "") -> None:
        self.query = query
        self.dialect = dialect
        self.no_index = no_index  # prefix of columns whose index must not be used
        self._of = of
        self.parts = [self.fragment("user")]
        self.values: dict[str, Any] = {"user_id": query.scope.user_id}

    def fragment(self, part: str, **words: str) -> str:
        """Return the SQL of a condition."""
        text = self.dialect.fragments[f"{self._of}_{part}"]
        return text.format(no_index=self.no_index, **words) if "{" in text else text

    def add(self, condition: str, **values: object) -> None:
        """Add a condition and the values of its parameters."""
        self.parts.append(condition)
        for name, value in values.items():
            self.values[name] = self.dialect.array(value) if isinstance(value, list | tuple) else value

    def add_from_query(self, *parts: str, suffix: str = "") -> None:
        """Add the conditions of those query fields that are set; ``suffix`` selects other fragments."""
        for part in parts:
            source = self.query.scope if part in ("agent_id", "session_id") else self.query
            value = getattr(source, part)
            if value is not None and (value or part != "without"):
                converted = _CONVERTERS[part](value) if part in _CONVERTERS else value
                self.add(self.fragment(part + suffix), **{part: converted})

    def boolean(self, value: bool) -> str:
        """Return a boolean constant in the dialect."""
        return self.dialect.fragments["yes" if value else "no"]

    def add_cursor(self, moment: str, id_: str) -> None:
        """Add the condition that a row comes after the query's cursor; the columns are those it sorts by."""
        if self.query.after is not None:
            time, last = self.query.after
            sign = "<" if self.query.newest_first else ">"
            self.add(f"({moment}, {id_}) {sign} (:after_moment, :after_id)", after_moment=time, after_id=last)

    def one_of(self, column: str, names: Sequence[str]) -> str:
        """Return a comparison with constants, without which SQLite cannot use a partial index.

        The names come from the fixed lists that `Query` checks against, never from a caller's text.
        """
        if not names:
            return self.boolean(False)
        if len(names) == 1:
            return f"{column} = '{names[0]}'"
        return f"{column} IN ({', '.join(repr(name) for name in names)})"

    def build(self) -> Conditions:
        """Return the conditions and their values."""
        return " AND ".join(self.parts), self.values


def kind_conditions(kind: Kind, query: Query, dialect: Dialect) -> Conditions:
    """Return the conditions for one kind of record, with the table alias of its statements."""
    if kind in SEARCHABLE:
        return document_conditions(query, dialect, (kind,))
    # If few summaries are named, SQLite must not scan all of a session or of a user.
    no_index = dialect.fragments["no_index"]
    where = Where(kind, query, dialect, no_index="" if query.sources is None else no_index)
    if query.ids is not None:
        where.no_index = no_index
    where.add_from_query(*_OF_ALL)
    for name in NOT_OF_ALL:
        if getattr(query, name) is None:
            continue
        if f"{kind}_{name}" in dialect.fragments:
            where.add_from_query(name)
        elif name == "after" and kind in _CURSORS:
            where.add_cursor(*_CURSORS[kind])
        elif query.where is not None and (name, kind) == ("where", "task"):
            where.add(_TaskFilter(dialect, where.values).sql(query.where))
        else:
            where.add(where.boolean(False))
    if query.pinned:
        where.add(where.boolean(False))
    return where.build()


def document_conditions(query: Query, dialect: Dialect, kinds: Sequence[Kind] = ()) -> Conditions:
    """Return the conditions of a query on ``documents AS d``; ``kinds`` replace those of the query."""
    # A condition with its own index (so has one predicate) must not let SQLite scan all records.
    few = bool(query.sources or query.target or query.entity or query.subject or query.namespace)
    no_index, has_index = dialect.fragments["no_index"], few or isinstance(query.predicate, str)
    # Each of the stretches names the user itself.
    no_user_index = no_index if has_index or query.stretches is not None else ""
    where = Where("document", query, dialect, no_index=no_user_index)
    kinds = [kind for kind in kinds or query.kinds if kind in SEARCHABLE]
    if set(kinds) != set(SEARCHABLE):
        # Pinned records are few, too, and have an index by user.
        where.add(where.one_of(f"{no_index if has_index or query.pinned else ''}d.kind", kinds))
    where.add_from_query(*_OF_ALL, *_OF_DOCUMENTS)
    if query.roles is not None:
        where.add(where.one_of("d.role", query.roles))
    where.add_cursor("i.updated_at" if kinds == ["item"] else "d.created_at", "d.id")
    if query.pinned is not None:
        where.add(f"d.pinned = {where.boolean(query.pinned)}")
    if query.where is not None:
        where.add(_DocumentFilter(dialect, where.values).sql(query.where))
    _add_stretches(where)
    where.add_from_query("target", suffix="" if query.target else "_none")  # many may have no target
    if query.consolidated is not None:
        where.add(where.fragment("consolidated", flag=where.boolean(query.consolidated)))
    where.add_from_query("predicate", suffix="_of_few" if few else "")
    if query.fact_status is not None:
        where.add(where.fragment("fact_status", one_of=where.one_of("f.status", query.fact_status)))
    if query.namespace:
        path = path_of(query.namespace)
        where.add(where.fragment("namespace"), path=path, path_end=path[:-1] + chr(ord("/") + 1))
    elif query.namespace is not None:
        where.add("d.kind = 'item'")
    return where.build()


def _add_stretches(where: Where) -> None:
    if where.query.stretches is None:
        return
    parts = []
    for number, (session, first, last) in enumerate(where.query.stretches):
        names = (f"in_{number}", f"from_{number}", f"to_{number}")
        if is_storable(session):  # otherwise no session has this id
            place = "d.session_id = :{} AND d.seq BETWEEN :{} AND :{}".format(*names)
            parts.append(f"(d.{where.dialect.fragments['user']} = :user_id AND {place})")
            where.values |= dict(zip(names, (session, first, last), strict=True))
    where.add(f"({' OR '.join(parts or [where.boolean(False)])})")  # only messages have a place


class _DocumentFilter:
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
        if (kind, field) == ("message", "speaker"):
            return f"coalesce(nullif({self._kind_column('name', kind)}, ''), d.role)"
        name = "content" if (kind, field) == ("knowledge", "text") else field
        if name == "name" or (kind in FORMATS and name in FORMATS[kind].body):  # messages alone have a name
            return self._fragments["json_text"].format(body=self._body(kind), name=name)
        if kind == "message":
            return self._fragments["record_column"].format(table=TABLES[kind], column=field)
        return f"(SELECT x.{field} FROM {TABLES[kind]} AS x WHERE {self._fragments['same'].format('x')})"

    def _body(self, kind: Kind) -> str:
        return self._fragments["record_column"].format(table=TABLES[kind], column="body")

    def _json_test(self, where: Condition) -> str:
        """Return the condition on a key of metadata, or on a path into the value of an item."""
        first = where.values[0] if where.values else None
        ordered = isinstance(first, str | int | float) and not isinstance(first, bool)
        if where.op == "exists":
            test = self._fragments["yes"]
        elif where.op == "in" and not (ordered and len(where.values) == 1):
            test = self._fragments["value_in_list"].format(value=self._bind(json.dumps(where.values)))
        elif isinstance(first, str):  # a single value needs no list
            compared = self._comparison(self._fragments["value_text"], where.op, first)
            test = self._fragments["text_test"].format(test=compared)
        else:
            test = self._fragments["number_test"].format(sign=_SIGNS[where.op], value=self._bind(first))
        if where.field == "value":
            keys = [self._bind(key) for key in where.key.split(".")]
            return self._dialect.json_path(self._by_kind({"item": self._body("item")}), keys, test)
        body = self._by_kind({kind: self._body(kind) for kind in _WITH_METADATA})
        return self._fragments["metadata_test"].format(body=body, key=self._bind(where.key), test=test)

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
        return self._fragments["contains"].format(text=text, value=self._bind(value))

    def _bind(self, value: object) -> str:
        """Add a value and return the name of its parameter."""
        name = f"filter_{len(self._values)}"
        self._values[name] = value
        return name


class _TaskFilter(_DocumentFilter):
    """Writes filters as conditions on ``tasks AS t``."""

    def column(self, field: str) -> str:
        """See `_DocumentFilter.column`."""
        if field == "kind":
            return "'task'"
        if "task" not in FIELDS[field].kinds:
            return "NULL"
        if field in FORMATS["task"].body:
            return self._fragments["json_text"].format(body="t.body", name=field)
        return "t.started_at" if field == "created_at" else f"t.{field}"

    def _json_test(self, where: Condition) -> str:
        del where  # tasks have neither metadata nor a value
        return self._fragments["no"]
