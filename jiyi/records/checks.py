"""What may be inside a record: ids a database can hold, plain JSON values, aware datetimes."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jiyi.clock import aware
from jiyi.errors import InputError

__all__ = ["check_id", "plain", "set_utc"]

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_DEEPEST = 100
_MOST_BITS = 14_000  # a longer whole number cannot be written as JSON by Python


def plain(value: Any, where: str, error: type[InputError] = InputError, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value.

    Raises:
        InputError: (or the class given) something in it is no JSON; says where.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MOST_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth == _DEEPEST:
        raise error(f"{where[:200]} is nested deeper than {_DEEPEST} levels; flatten it")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise error(f"{where} has the key {key!r}; keys must be text")
        return {key: plain(inner, f"{where}.{key}", error, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{where}[{i}]", error, depth + 1) for i, inner in enumerate(value)]
    shown = value if isinstance(value, float) else type(value).__name__
    raise error(
        f"{where} is {shown}, which is no JSON; use text, numbers, true, false, null, lists and dicts"
    )


def check_id(name: str, value: object, error: type[InputError] = InputError) -> None:
    """Refuse an id that could not be stored and found again."""
    if not isinstance(value, str) or not value:
        raise error(f"{name} must be non-empty text, not {value!r}")
    if _UNSTORABLE.search(value):
        raise error(f"{name}={value!r} holds characters that cannot be stored; use plain text")


def set_utc(record: object, *names: str) -> None:
    """Bring datetimes of a frozen record to UTC; None stays.

    Raises:
        InputError: one is no datetime.
        NaiveDatetime: one has no time zone.
    """
    for name in names:
        moment = getattr(record, name)
        if moment is None:
            continue
        if not isinstance(moment, datetime):
            raise InputError(f"{name} must be an aware datetime, not {type(moment).__name__}")
        if moment.tzinfo is UTC:
            continue
        try:
            object.__setattr__(record, name, aware(moment, name))
        except OverflowError as error:
            raise InputError(
                f"{name}={moment.isoformat()} lies outside the years 1 to 9999 in UTC"
            ) from error
