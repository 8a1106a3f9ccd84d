"""Filters as LangGraph writes them, as filters of the memory."""

import math
import re
import sys
from collections.abc import Mapping
from typing import Any

from jiyi.errors import BadQuery
from jiyi.records.checks import UNSTORABLE

__all__ = ["Asked"]

_OPERATORS = {"$eq": "eq", "$ne": "ne", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_ODD = re.compile(r"[\"'`\\\0-\x1f]")  # nothing here comes near SQL: such a key is a mistake or an attack
_MOST = sys.float_info.max
_LARGEST = 2**63  # whole numbers beyond are compared as floating-point numbers


class Asked:
    """What a filter of LangGraph asks of the values of items.

    Names with dots reach into objects, and so do objects in the filter. A field that is not there is equal to
    None only, ``$ne`` to all else, and neither greater nor less than anything; nor is a text than a number.

    Args:
        given: field names with what they equal, or with operators.

    Raises:
        BadQuery: a key with quotes or control characters, or an unknown operator.
    """

    def __init__(self, given: Mapping[str, Any] | None) -> None:
        self._said: list[dict[str, Any]] = []
        self._left: list[tuple[str, bool, Any]] = []
        for key, asked in (given or {}).items():
            self._field(_key(key), asked)

    @property
    def exact(self) -> bool:
        """Whether `filters` say all of it."""
        return not self._left

    def filters(self, before: str = "") -> dict[str, Any] | None:
        """Return as much of it as the memory's filters say; ``before`` is what names begin with there."""
        parts = [{before + name: asked for name, asked in part.items()} for part in self._said]
        return {"and": parts} if parts else None

    def holds(self, value: Any) -> bool:
        """Say whether a value meets the rest: lists and objects compared as a whole, and None."""
        return all((_at(value, name) == wanted) is equal for name, equal, wanted in self._left)

    def _field(self, name: str, asked: Any) -> None:
        if not isinstance(asked, Mapping):
            self._compare(name, "$eq", asked)
        elif any(str(key).startswith("$") for key in asked):
            for operator, value in asked.items():
                self._compare(name, operator, value)
        else:
            self._said.append({name: {"exists": True}})
            for key, inner in asked.items():
                self._field(f"{name}.{_key(key)}", inner)

    def _compare(self, name: str, operator: str, value: Any) -> None:
        if operator not in _OPERATORS:
            raise BadQuery(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
        if operator in ("$eq", "$ne") and (value is None or isinstance(value, list | tuple | Mapping)):
            self._left.append((name, operator == "$eq", list(value) if isinstance(value, tuple) else value))
        elif not _equals_nothing(value):
            self._said.append({name: {_OPERATORS[operator]: _finite(value)}})
        elif operator != "$ne":  # which holds of everything
            self._said.append({name: {"gt": _MOST}})  # which holds of nothing


def _key(key: object) -> str:
    if not isinstance(key, str) or not key or _ODD.search(key):
        raise BadQuery(
            f"Invalid filter key: {key!r}; it names a field, without quotes and control characters"
        )
    return key


def _equals_nothing(value: Any) -> bool:
    """Say whether no value in JSON, or in a database, is the same."""
    if isinstance(value, float):
        return math.isnan(value)
    return isinstance(value, str) and UNSTORABLE.search(value) is not None


def _at(value: Any, name: str) -> Any:
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _finite(value: Any) -> Any:
    """Return a number that every database knows; JSON has none beyond the largest, so that is as good."""
    if isinstance(value, float):
        return max(-_MOST, min(value, _MOST))
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return float(max(-int(_MOST), min(value, int(_MOST))))
    return value
