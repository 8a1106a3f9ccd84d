"""What records share: ids, plain JSON values, aware datetimes, metadata."""

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from reprlib import Repr
from typing import Any, cast

from jiyi.clock import aware
from jiyi.errors import BadMessage, InputError

__all__ = [
    "UNSTORABLE",
    "brief",
    "check_id",
    "check_metadata",
    "in_utc",
    "new_id",
    "plain",
    "set_utc",
    "stable_id",
    "texts_in",
]

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that a database cannot hold."""

_DEEPEST = 100
_MOST_BYTES = 16_384  # of metadata
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


class _Brief(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:  # Python writes none of more than 4,300 digits
        return super().repr_int(x, level) if x.bit_length() < 200 else f"a number of {x.bit_length()} bits"


brief = _Brief().repr
"""Returns a short word for any value: ``repr`` cut, and never an error."""


def check_id(name: str, value: object, error: type[InputError] = InputError) -> None:
    """Refuse an id that could not be stored and found again."""
    if not isinstance(value, str) or not value:
        raise error(f"{name} must be non-empty text, not {brief(value)}")
    if UNSTORABLE.search(value):
        raise error(f"{name}={value!r} holds characters that cannot be stored; use plain text")


def set_utc(record: object, *names: str, error: type[InputError] = InputError) -> None:
    """Bring datetimes of a frozen record to UTC, as `in_utc` does; None stays."""
    for name in names:
        moment = getattr(record, name)
        if moment is not None and not (isinstance(moment, datetime) and moment.tzinfo is UTC):
            object.__setattr__(record, name, in_utc(moment, name, error))


def in_utc(moment: object, name: str, error: type[InputError] = InputError) -> datetime:
    """Return a datetime in UTC.

    Raises:
        InputError: as ``error``: it is no datetime, or lies outside the years 1 to 9999.
        NaiveDatetime: it has no time zone.
    """
    if not isinstance(moment, datetime):
        raise error(f"{name} must be an aware datetime, not {type(moment).__name__}")
    if moment.tzinfo is UTC:
        return moment
    try:
        return aware(moment, name)
    except OverflowError as over:
        raise error(f"{name}={moment.isoformat()} lies outside the years 1 to 9999 in UTC") from over


def new_id() -> str:
    """Return a new id of 32 hex digits that sorts by time of making (the idea of UUIDv7, RFC 9562)."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def stable_id(*parts: str) -> str:
    """Return the same 32 hex digits for the same parts, on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def check_metadata(value: object, error: type[InputError] = BadMessage) -> dict[str, Any]:
    """Return a copy of the metadata of a message, or of another record.

    Raises:
        InputError: as ``error``: it is no dict with text keys, holds what is no JSON or a character
            that databases cannot filter by, or takes more than 16,384 bytes as JSON.
    """
    if not isinstance(value, Mapping):
        raise error(f'metadata must be a dict such as {{"channel": "slack"}}, not {type(value).__name__}')
    copied = cast("dict[str, Any]", plain(value, "metadata", error))
    if any(map(UNSTORABLE.search, texts_in(copied))):
        raise error("metadata holds a zero character or half of a surrogate pair; use plain text")
    size = len(json.dumps(copied, ensure_ascii=False).encode())
    if size > _MOST_BYTES:
        raise error(
            f"metadata takes {size:,} bytes as JSON, at most {_MOST_BYTES:,} are kept with a record; "
            "keep large data elsewhere and its id here"
        )
    return copied


def texts_in(value: object, *, keys: bool = True) -> Iterator[str]:
    """Give the texts in a JSON value, in its order, with or without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if keys:
                yield key
            yield from texts_in(inner, keys=keys)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner, keys=keys)
