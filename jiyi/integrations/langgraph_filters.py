"""Filters as LangGraph writes them, as filters of the memory."""

import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from jiyi.errors import BadQuery

__all__ = ["filters_of"]

_OPERATORS = {"$eq": "eq", "$ne": "ne", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}
_ODD = re.compile(r"[\"'`\\\0-\x1f]")  # nothing here comes near SQL: such a key is a mistake or an attack
_MOST = sys.float_info.max
_LARGEST = 2**63  # whole numbers beyond are compared as floating-point numbers


def filters_of(given: Mapping[str, Any] | None, before: str = "") -> dict[str, Any] | None:
    """Return the filter of the memory that asks the same of items' values; None where nothing is asked.

    Names with dots reach into objects, and so do objects in the filter. A field that is not there is equal to
    None only, ``$ne`` to all else, and neither greater nor less than anything; nor is a text than a number.

    Args:
        given: field names with what they equal, or with operators.
        before: what names of fields begin with in the memory's filter.

    Raises:
        BadQuery: a key with quotes or control characters, or an unknown operator.
    """
    parts = [part for key, asked in (given or {}).items() for part in _of_field(before + _key(key), asked)]
    return {"and": parts} if parts else None


def _key(key: object) -> str:
    if not isinstance(key, str) or not key or _ODD.search(key):
        raise BadQuery(
            f"Invalid filter key: {key!r}; it names a field, without quotes and control characters"
        )
    return key


def _of_field(name: str, asked: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(asked, Mapping):
        yield from _compared(name, "$eq", asked)
    elif any(str(key).startswith("$") for key in asked):
        for operator, value in asked.items():
            yield from _compared(name, operator, value)
    else:
        yield {name: {"exists": True}}
        for key, inner in asked.items():
            yield from _of_field(f"{name}.{_key(key)}", inner)


def _compared(name: str, operator: str, value: Any) -> Iterator[dict[str, Any]]:
    if operator not in _OPERATORS:
        raise BadQuery(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
    if value is None and operator in ("$eq", "$ne"):
        absent = {"or": [{name: {"exists": False}}, {name: {"eq": None}}]}
        yield absent if operator == "$eq" else {"not": [absent]}
    elif isinstance(value, float) and math.isnan(value):
        if operator != "$ne":  # which holds of everything
            yield {name: {"gt": _MOST}}  # which holds of nothing
    else:
        yield {name: {_OPERATORS[operator]: _finite(value)}}


def _finite(value: Any) -> Any:
    """Return a number that every database knows; JSON has none beyond the largest, so that is as good."""
    if isinstance(value, float):
        return max(-_MOST, min(value, _MOST))
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return float(max(-int(_MOST), min(value, int(_MOST))))
    return list(value) if isinstance(value, tuple) else value
