"""What records share: ids, plain JSON values, aware datetimes, metadata."""

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from jiyi.clock import aware
from jiyi.errors import BadMessage, BadQuery, InputError

__all__ = [
    "UNSTORABLE",
    "Label",
    "Labels",
    "check_id",
    "check_metadata",
    "has_labels",
    "new_id",
    "plain",
    "read_labels",
    "set_utc",
    "stable_id",
]

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that a database cannot hold."""

_DEEPEST = 100
_MOST_BITS = 14_000  # a longer whole number cannot be written as JSON by Python

Label = str | int | float | bool | None
"""A value that metadata can be filtered by."""

Labels = tuple[tuple[str, Label], ...]
"""Keys of metadata, each with the value it must have."""

_MOST_BYTES = 16_384


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
    if UNSTORABLE.search(value):
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


def check_metadata(value: object) -> dict[str, Any]:
    """Return a copy of a message's metadata.

    Raises:
        BadMessage: it is no dict with text keys, holds what is no JSON or a character that
            databases cannot filter by, or takes more than 16,384 bytes as JSON.
    """
    if not isinstance(value, Mapping):
        raise BadMessage(
            f'metadata must be a dict such as {{"channel": "slack"}}, not {type(value).__name__}'
        )
    copied = cast("dict[str, Any]", plain(value, "metadata", BadMessage))
    if any(map(UNSTORABLE.search, _texts(copied))):
        raise BadMessage("metadata holds a zero character or half of a surrogate pair; use plain text")
    size = len(json.dumps(copied, ensure_ascii=False).encode())
    if size > _MOST_BYTES:
        raise BadMessage(
            f"metadata takes {size:,} bytes as JSON, at most {_MOST_BYTES:,} are kept with a message; "
            "keep large data elsewhere and its id here"
        )
    return copied


def read_labels(value: object) -> Labels:
    """Return what a filter asks of metadata, in the order of its keys.

    Raises:
        BadQuery: it is no dict of text keys and texts, numbers, true, false or null.
    """
    if isinstance(value, tuple):
        value = dict(value)
    if not isinstance(value, Mapping):
        raise BadQuery(f'metadata must be a dict such as {{"channel": "slack"}}, not {type(value).__name__}')
    for key, label in value.items():
        if not isinstance(key, str):
            raise BadQuery(f"metadata has the key {key!r}; keys must be text")
        if not isinstance(label, Label):
            raise BadQuery(
                f"metadata is filtered by text, numbers, true, false or null; {key} is {type(label).__name__}"
            )
        if any(map(UNSTORABLE.search, _texts({key: label}))):
            raise BadQuery("metadata holds a zero character or half of a surrogate pair; use plain text")
        plain(label, f"metadata.{key}", BadQuery)
    return tuple(sorted(value.items()))


def has_labels(metadata: Mapping[str, Any], labels: Labels) -> bool:
    """Say whether metadata has each of these keys with an equal JSON value; 1 and 1.0 are equal."""
    return all(key in metadata and _same(metadata[key], label) for key, label in labels)


def _same(value: object, label: Label) -> bool:
    return isinstance(value, bool) == isinstance(label, bool) and value == label


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
