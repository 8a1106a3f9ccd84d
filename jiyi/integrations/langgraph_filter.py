"""Filters of LangGraph's stores as filters of a memory."""

import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from jiyi.errors import BadQuery
from jiyi.integrations.common import get_by_path
from jiyi.records.checks import UNSTORABLE

_OPERATORS = {"$eq": "eq", "$ne": "ne", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_INVALID_KEY = re.compile(r"[\"'`\\\0-\x1f]")  # never reaches SQL: such a key is a mistake or an attack
_MAX_FLOAT = sys.float_info.max
_MAX_INT = 2**63  # whole numbers beyond are compared as floating-point numbers


class StoreFilter:
    """What a filter of LangGraph, field names with values or operators, asks of the values of items.

    Names with dots reach into objects, and so do objects in the filter. A field that is not there is equal to
    None only, ``$ne`` to all else, and neither greater nor less than anything; nor is a text than a number.

    Raises `BadQuery`: a key with quotes or control characters, or an unknown operator.
    """

    def __init__(self, fields: Mapping[str, Any] | None) -> None:
        self._conditions: list[dict[str, Any]] = []  # what the memory's filters can say
        self.rest: list[tuple[str, bool, Any]] = []  # what they cannot: path, whether equal, value
        for key, wanted in (fields or {}).items():
            self._add_field(_check_key(key), wanted)

    def build(self, prefix: str = "") -> dict[str, Any] | None:
        """Return as much of it as the memory's filters can say; there names begin with ``prefix``."""
        parts = [{prefix + name: wanted for name, wanted in part.items()} for part in self._conditions]
        return {"and": parts} if parts else None

    def matches_rest(self, value: Any) -> bool:
        """Say whether a value meets the rest: lists and objects compared as a whole, and None."""
        return all((get_by_path(value, path) == wanted) is equal for path, equal, wanted in self.rest)

    def _add_field(self, name: str, wanted: Any) -> None:
        if not isinstance(wanted, Mapping):
            self._add_condition(name, "$eq", wanted)
        elif any(str(key).startswith("$") for key in wanted):
            for operator, value in wanted.items():
                self._add_condition(name, operator, value)
        else:
            self._conditions.append({name: {"exists": True}})
            for key, inner in wanted.items():
                self._add_field(f"{name}.{_check_key(key)}", inner)

    def _add_condition(self, name: str, operator: str, value: Any) -> None:
        if operator not in _OPERATORS:
            raise BadQuery(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
        if operator in ("$eq", "$ne") and (value is None or isinstance(value, list | tuple | Mapping)):
            self.rest.append((name, operator == "$eq", list(value) if isinstance(value, tuple) else value))
        elif not _equals_nothing(value):
            self._conditions.append({name: {_OPERATORS[operator]: _to_finite(value)}})
        elif operator != "$ne":  # which holds of everything
            self._conditions.append({name: {"gt": _MAX_FLOAT}})  # which holds of nothing


def _check_key(key: object) -> str:
    if isinstance(key, str) and key and not _INVALID_KEY.search(key):
        return key
    raise BadQuery(f"Invalid filter key: {key!r}; it names a field, without quotes and control characters")


def _equals_nothing(value: Any) -> bool:
    """Say whether no value in JSON, or in a database, is the same."""
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and UNSTORABLE.search(value) is not None


def _to_finite(value: Any) -> Any:
    """Return a number that every database knows; JSON has none beyond the largest, so that is as good."""
    if isinstance(value, float):
        return max(-_MAX_FLOAT, min(value, _MAX_FLOAT))
    if isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT:
        return float(max(-int(_MAX_FLOAT), min(value, int(_MAX_FLOAT))))
    return value
