"""Filters: conditions on the fields and metadata of records, joined by and, or, not."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal, cast, get_args

from jiyi.clock import aware, read_moment
from jiyi.errors import BadQuery, InputError, NaiveDatetime
from jiyi.records.checks import UNSTORABLE, check_choice
from jiyi.records.experience import Outcome, TaskStatus, TriggerType
from jiyi.records.fact import FactCategory, FactMethod, FactStatus
from jiyi.records.message import Role

__all__ = ["FIELDS", "Condition", "Field", "Filter", "Junction", "Op", "Value", "matches", "read_filter"]

Op = Literal["in", "gt", "gte", "lt", "lte", "contains", "icontains", "exists"]
Value = str | int | float | bool | datetime | None

_MAX_DEPTH = 8  # levels of and, or, not
_MAX_CONDITIONS = 100  # conditions
_MAX_VALUES = 1_000  # in one list
_MAX_INTEGER = 2**63  # not every database stores larger whole numbers
_JUNCTION_WORDS = {"and": "and", "or": "or", "not": "not", "AND": "and", "OR": "or", "NOT": "not"}
_ANY_VALUE = "*"
_LOWER_ASCII = str.maketrans(ascii_uppercase, ascii_lowercase)  # as every database can


@dataclass(frozen=True, slots=True)
class Field:
    """A field that records can be filtered by."""

    type: type | tuple[str, ...]  # of its values; a tuple lists the allowed texts
    kinds: tuple[str, ...]  # the kinds of records that have it


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; a record without the field does not meet it."""

    field: str  # one of `FIELDS`, "metadata", or "value" (of an item)
    op: Op  # "in" takes any number of values, "exists" none, all others one
    values: tuple[Value, ...] = ()
    key: str = ""  # of metadata; of a value the path of keys, joined by dots


@dataclass(frozen=True, slots=True)
class Junction:
    """Several filters of which all, at least one, or none must be met."""

    word: Literal["and", "or", "not"]
    parts: "tuple[Filter, ...]"


Filter = Condition | Junction

_ALL_KINDS = ("message", "episode", "knowledge", "fact", "item", "task")
_DERIVED_KINDS = ("episode", "knowledge", "fact")
_STATUSES = tuple(dict.fromkeys([*get_args(FactStatus), *get_args(TaskStatus)]))

FIELDS: Mapping[str, Field] = {
    "kind": Field(_ALL_KINDS, _ALL_KINDS),
    "role": Field(get_args(Role), ("message",)),
    "created_at": Field(datetime, _ALL_KINDS),
    "pinned": Field(bool, (*_DERIVED_KINDS, "message", "item")),
    "id": Field(str, _ALL_KINDS),
    "session_id": Field(str, _ALL_KINDS),
    "agent_id": Field(str, _ALL_KINDS),
    "importance": Field(float, ("message", "episode")),
    "confidence": Field(float, ("knowledge", "fact")),
    "access_count": Field(float, _DERIVED_KINDS),
    "last_accessed_at": Field(datetime, _DERIVED_KINDS),
    "category": Field(get_args(FactCategory), ("fact",)),
    **dict.fromkeys(("subject", "predicate", "object"), Field(str, ("fact",))),
    "name": Field(str, ("message",)),
    "speaker": Field(str, ("fact", "message")),  # of a message its name, or without one its role
    "method": Field(get_args(FactMethod), ("fact",)),
    "status": Field(_STATUSES, ("fact", "task")),
    **dict.fromkeys(("valid_from", "valid_to"), Field(datetime, ("fact",))),
    "text": Field(str, ("knowledge", "fact")),  # knowledge's content, the clause a fact was read from
    "topic": Field(str, ("knowledge",)),
    "updated_at": Field(datetime, ("knowledge", "item", "task")),
    "expires_at": Field(datetime, ("item",)),
    "outcome": Field(get_args(Outcome), ("episode", "task")),
    "target": Field(str, ("episode", "task")),
    "trigger_type": Field(get_args(TriggerType), ("episode", "task")),
    "consolidated": Field(bool, ("episode",)),
}
"""The fields that records can be filtered by, besides metadata. A field that is None does not exist."""

_ATTRIBUTES = {("task", "created_at"): "started_at", ("knowledge", "text"): "content"}
_METADATA = Field(object, ("message", "knowledge", "fact"))
_JSON_FIELDS = ("metadata", "value")  # whose keys have conditions


def read_filter(given: object, *, within: Literal["value"] | None = None) -> Filter:
    """Return the filter that a dict describes; all its entries must hold.

    An entry is a field of `FIELDS`, ``"metadata.KEY"`` or ``"metadata": {KEY: ...}``, with a value
    it equals, a list of such values, ``"*"`` (it exists), or a dict of ``eq``, ``ne``, ``in``,
    ``nin``, ``gt``, ``gte``, ``lt``, ``lte``, ``contains`` (a text within a text), ``icontains`` (the
    same, ignoring the case of A to Z), ``exists``; or ``and``, ``or``, ``not`` with a list of filters,
    in lower or upper case; or ``since`` and ``until`` with a moment of ``created_at``.

    ``"value.a.b"`` is the "b" of the object "a" in an item's value. With ``within`` every name but
    ``and``, ``or`` and ``not`` is such a path: ``{"a.b": 1}``.

    Values are compared as in JSON: 1 equals 1.0, but neither ``True`` nor "1"; texts compare by code
    point. A missing value equals nothing and is greater than nothing, so it is ``ne`` to all.
    None as the value of a field means that it does not exist; of metadata or a value, null.

    Raises:
        BadQuery: an unknown name, a value of the wrong type, an empty filter, more than 8 levels,
            more than 100 conditions, or a list of more than 1,000 values.
        NaiveDatetime: a moment without a time zone.
    """
    return _FilterReader(within).read_mapping(given, 0)


def matches(record: object, where: Filter) -> bool:
    """Say whether a record meets a filter."""
    if isinstance(where, Junction):
        results = (matches(record, part) for part in where.parts)
        return all(results) if where.word == "and" else any(results) is (where.word == "or")
    exists, value = _read_field(record, where)
    if where.op == "exists" or not exists:
        return exists
    if where.op == "in":
        is_flag = isinstance(value, bool)
        return any(isinstance(wanted, bool) == is_flag and value == wanted for wanted in where.values)
    limit: Any = where.values[0]
    if where.op in _CONTAINS_OPERATORS:
        if isinstance(value, str):
            return limit in (value if where.op == "contains" else value.translate(_LOWER_ASCII))
        return False
    if _comparable_type(value) != _comparable_type(limit):
        return False
    less, more = bool(value < limit), bool(value > limit)
    return {"gt": more, "gte": not less, "lt": less, "lte": not more}[where.op]


def _read_field(record: Any, where: Condition) -> tuple[bool, Any]:
    kind = type(record).__name__.lower()
    if where.field == "value":
        value: Any = record.value if kind == "item" else None
        for key in where.key.split("."):
            if not isinstance(value, Mapping) or key not in value:
                return False, None
            value = value[key]
        return True, value
    if where.field == "metadata":
        labels = record.metadata if kind in _METADATA.kinds else {}
        return where.key in labels, labels.get(where.key)
    if where.field == "kind":
        return True, kind
    if kind not in FIELDS[where.field].kinds:
        return False, None
    name = _ATTRIBUTES.get((kind, where.field), where.field)
    value = getattr(record.scope if name in ("session_id", "agent_id") else record, name)
    return value is not None, value


def _comparable_type(value: object) -> type | None:
    """Return the type of the values it can be ordered with, None if it has no order."""
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else float
    return next((type_ for type_ in (str, datetime) if isinstance(value, type_)), None)


class _FilterReader:
    def __init__(self, within: str | None) -> None:
        self.count = 0
        self._within = within

    def read_mapping(self, given: object, depth: int) -> Filter:
        if not isinstance(given, Mapping):
            raise BadQuery(f'a filter is a dict such as {{"role": "user"}}, not {type(given).__name__}')
        if not given:
            raise BadQuery('a filter is empty; leave it out, or say what it asks for: {"role": "user"}')
        return _join_all([self.read_entry(name, value, depth) for name, value in given.items()])

    def read_entry(self, name: object, value: object, depth: int) -> Filter:
        if name in _JUNCTION_WORDS:
            return self.read_junction(str(name), value, depth + 1)
        if self._within:
            return self.read_condition(self._within, value, _check_key(name, self._within))
        if name in ("since", "until"):
            operator = "gte" if name == "since" else "lt"
            return self.make_condition("created_at", operator, value, where=str(name))
        field, dot, key = name.partition(".") if isinstance(name, str) else ("", "", "")
        if field in _JSON_FIELDS and dot:
            return self.read_condition(field, value, _check_key(key, field))
        if field in _JSON_FIELDS:
            if not isinstance(value, Mapping):
                kind = type(value).__name__
                raise BadQuery(f'{field} must be a dict such as {{"channel": "slack"}}, not {kind}')
            if not value:
                raise BadQuery(f"{field} is empty; name a key of it and what it must be")
            return _join_all([self.read_condition(field, v, _check_key(k, field)) for k, v in value.items()])
        if name not in FIELDS:
            names = ["role", "since", "until", "pinned", *_JSON_FIELDS, "and", "or", "not", *FIELDS]
            known = ", ".join(dict.fromkeys(names))
            own = f'labels of your own go under metadata: {{"metadata": {{"{name}": ...}}}}'
            raise BadQuery(f"no filter named {name}; there are {known}, and {own}")
        return self.read_condition(str(name), value)

    def read_junction(self, name: str, value: object, depth: int) -> Filter:
        if depth > _MAX_DEPTH:
            raise BadQuery(f"the filter is nested deeper than {_MAX_DEPTH} levels; flatten it")
        word = cast("Literal['and', 'or', 'not']", _JUNCTION_WORDS[name])
        parts = [value] if word == "not" and isinstance(value, Mapping) else value
        if not isinstance(parts, list | tuple) or not parts:
            raise BadQuery(f'{name} takes a list of filters: {{"{name}": [{{"role": "user"}}, ...]}}')
        return Junction(word, tuple(self.read_mapping(part, depth) for part in parts))

    def read_condition(self, field: str, value: object, key: str = "") -> Filter:
        if isinstance(value, Mapping):
            if not value:
                name = _full_name(field, key)
                raise BadQuery(f"{name} asks for nothing; there are {', '.join(_OPERATORS)}")
            return _join_all([self.make_condition(field, str(op), v, key) for op, v in value.items()])
        if value == _ANY_VALUE:
            return self.make_condition(field, "exists", True, key)
        is_list = isinstance(value, Sequence | Set) and not isinstance(value, str | bytes)
        return self.make_condition(field, "in" if is_list else "eq", value, key)

    def make_condition(
        self, field: str, operator: str, value: object, key: str = "", *, where: str = ""
    ) -> Filter:
        self.count += 1
        if self.count > _MAX_CONDITIONS:
            raise BadQuery(f"the filter has more than {_MAX_CONDITIONS} conditions; put values into lists")
        where = where or _full_name(field, key)
        if operator not in _OPERATORS:
            raise BadQuery(f"{where} knows no operator {operator!r}; there are {', '.join(_OPERATORS)}")
        if operator == "exists":
            if not isinstance(value, bool):
                raise BadQuery(f"exists of {where} must be True or False, not {value!r}")
            exists = Condition(field, "exists", key=key)
            return exists if value else Junction("not", (exists,))
        if operator in ("gt", "gte", "lt", "lte"):
            limit = _read_value(field, value, where)
            if _comparable_type(limit) is None or isinstance(_field_type(field), tuple):
                raise BadQuery(f"{where} has no order to compare {value!r} in; use eq, ne, in or exists")
            return Condition(field, cast("Op", operator), (limit,), key)
        if operator in _CONTAINS_OPERATORS:
            if not isinstance(value, str) or _field_type(field) in (bool, float, datetime):
                raise BadQuery(f"{operator} of {where} looks for a text in a text; use eq, in or gte")
            text = value if operator == "contains" else value.translate(_LOWER_ASCII)
            return Condition(field, cast("Op", operator), (_check_storable(text, where),), key)
        condition = _make_in_condition(field, [value] if operator in ("eq", "ne") else value, key, where)
        return Junction("not", (condition,)) if operator in ("ne", "nin") else condition


_CONTAINS_OPERATORS = ("contains", "icontains")
_OPERATORS = ("eq", "ne", "in", "nin", "gt", "gte", "lt", "lte", *_CONTAINS_OPERATORS, "exists")


def _make_in_condition(field: str, values: object, key: str, where: str) -> Filter:
    if not isinstance(values, Sequence | Set) or isinstance(values, str | bytes):
        raise BadQuery(f"in of {where} must be a list of values, not {type(values).__name__}")
    if len(values) > _MAX_VALUES:
        raise BadQuery(f"{where} is compared with {len(values):,} values, at most {_MAX_VALUES:,} are")
    nullable = field not in _JSON_FIELDS and None in values
    converted = [_read_value(field, value, where) for value in values if not nullable or value is not None]
    equal = Condition(field, "in", tuple(converted), key)
    return Junction("or", (Junction("not", (Condition(field, "exists"),)), equal)) if nullable else equal


def _join_all(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else Junction("and", tuple(parts))


def _field_type(field: str) -> type | tuple[str, ...]:
    return FIELDS.get(field, _METADATA).type


def _full_name(field: str, key: str) -> str:
    return f"{field}.{key}" if field in _JSON_FIELDS else field


def _check_key(key: object, field: str) -> str:
    if not isinstance(key, str) or not key:
        raise BadQuery(f"{field} has the key {key!r}; keys must be text")
    return _check_storable(key, f"a key of {field}")


def _check_storable(text: str, where: str) -> str:
    if UNSTORABLE.search(text):
        raise BadQuery(f"{where} holds a zero character or half of a surrogate pair; use plain text")
    return text


def _read_value(field: str, value: Any, where: str) -> Value:
    field_type = _field_type(field)
    if isinstance(field_type, tuple):
        check_choice(where, value, field_type, BadQuery)
        return cast("str", value)
    if field_type is datetime:
        return _read_datetime(value, where)
    if isinstance(value, str) and field_type in (str, object):
        return _check_storable(value, where)
    if isinstance(value, bool) and field_type in (bool, object):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and field_type in (float, object):
        if not math.isfinite(value) or (isinstance(value, int) and not -_MAX_INTEGER <= value < _MAX_INTEGER):
            raise BadQuery(f"{where} cannot be compared with {str(value)[:40]}; keep such a number as text")
        return float(value) if field_type is float else value
    if value is None and field_type is object:
        return None
    raise BadQuery(f"{where} is {type(value).__name__}; it is filtered by {_TYPE_NAMES[field_type]}")


_TYPE_NAMES: Mapping[type, str] = {
    str: "text",
    bool: "True or False",
    float: "numbers",
    object: "text, numbers, true, false or null",
}


def _read_datetime(value: object, where: str) -> datetime:
    if not isinstance(value, datetime | str):
        raise BadQuery(f"{where} must be an aware datetime or ISO 8601 text, not {type(value).__name__}")
    try:
        return aware(read_moment(value, where), where)
    except NaiveDatetime:
        raise
    except InputError as error:
        raise BadQuery(str(error)) from error
