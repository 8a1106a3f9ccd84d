"""Ids, JSON values, datetimes and metadata of records: their validation, and explained errors about types."""

import hashlib
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from reprlib import Repr
from typing import Any, TypeVar, cast, get_type_hints

from jiyi.clock import aware
from jiyi.errors import BadMessage, InputError, JiyiError

__all__ = [
    "ARGUMENT_ERRORS", "UNSTORABLE", "check_choice", "check_id", "check_metadata", "check_tokens",
    "copy_json", "copy_object", "explain_error", "explain_mismatch", "explain_type_errors", "in_utc",
    "iter_strings", "new_id", "set_utc", "short_repr", "stable_id",
]  # fmt: skip

_T = TypeVar("_T")

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that a database cannot hold."""

_MAX_DEPTH = 100
_MAX_METADATA_BYTES = 16_384  # of metadata
_MAX_INTEGER_BITS = 14_000  # Python cannot write longer whole numbers as JSON


def copy_json(value: Any, where: str, error: type[InputError] = InputError, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value; raises ``error`` with the place of what is not JSON."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_INTEGER_BITS:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth == _MAX_DEPTH:
        raise error(f"{where[:200]} is nested deeper than {_MAX_DEPTH} levels; flatten it")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise error(f"{where} has the key {key!r}; keys must be text")
        return {key: copy_json(inner, f"{where}.{key}", error, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copy_json(inner, f"{where}[{i}]", error, depth + 1) for i, inner in enumerate(value)]
    shown = value if isinstance(value, float) else type(value).__name__
    values = "text, numbers, true, false, null, lists and dicts"
    raise error(f"{where} is {shown}, which is no JSON; use {values}")


class _ShortRepr(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxstring = self.maxother = 60

    def repr_int(self, x: int, level: int) -> str:  # Python writes none of more than 4,300 digits
        return super().repr_int(x, level) if x.bit_length() < 200 else f"a number of {x.bit_length()} bits"


short_repr = _ShortRepr().repr
"""Returns the ``repr`` of any value, shortened, without ever raising."""


def check_id(name: str, value: object, error: type[InputError] = InputError) -> None:
    """Raise ``error`` for an id that cannot be stored."""
    if not isinstance(value, str) or not value:
        raise error(f"{name} must be non-empty text, not {short_repr(value)}")
    if UNSTORABLE.search(value):
        raise error(f"{name}={value!r} holds characters that cannot be stored; use plain text")


def set_utc(record: object, *names: str, error: type[InputError] = InputError) -> None:
    """Convert datetimes of a frozen record to UTC, as `in_utc` does; None stays."""
    for name in names:
        moment = getattr(record, name)
        if moment is not None and not (isinstance(moment, datetime) and moment.tzinfo is UTC):
            object.__setattr__(record, name, in_utc(moment, name, error))


def in_utc(moment: object, name: str, error: type[InputError] = InputError) -> datetime:
    """Return a datetime in UTC; raises `NaiveDatetime`, or ``error`` outside the years 1 to 9999."""
    if not isinstance(moment, datetime):
        raise error(f"{name} must be an aware datetime, not {type(moment).__name__}")
    if moment.tzinfo is UTC:
        return moment
    try:
        return aware(moment, name)
    except OverflowError as overflow:
        raise error(f"{name}={moment.isoformat()} lies outside the years 1 to 9999 in UTC") from overflow


def new_id() -> str:
    """Return a new id of 32 hex digits that sorts by creation time: UUIDv7's method 3 (RFC 9562, 6.2)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    return f"{milliseconds:012x}{nanoseconds:05x}{secrets.token_hex(8)[1:]}"


def stable_id(*parts: str) -> str:
    """Return the same 32 hex digits for the same parts, on every machine."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def check_choice(
    name: str, value: object, choices: Sequence[str], error: type[InputError] = InputError
) -> None:
    """Raise ``error`` for a value that is not one of the choices."""
    if value not in choices:
        raise error(f"{name} {value!r} is not one of {', '.join(choices)}")


def check_tokens(name: str, value: object, least: int = 1, error: type[InputError] = InputError) -> None:
    """Raise ``error`` for a value that is no whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise error(f"{name}={short_repr(value)} must be a whole number of tokens, at least {least:,}")


def check_metadata(value: object, error: type[InputError] = BadMessage) -> dict[str, Any]:
    """Return a copy of the metadata of a message, or of another record; see `copy_object`."""
    advice = "with a record; keep large data elsewhere and its id here"
    kind = 'dict such as {"channel": "slack"}'
    return copy_object("metadata", value, kind, most=_MAX_METADATA_BYTES, advice=advice, error=error)


def copy_object(
    name: str, value: object, kind: str, *, most: int, advice: str, error: type[InputError] = InputError
) -> dict[str, Any]:
    """Return a copy of a JSON object of at most ``most`` bytes that can be stored, or raise ``error``."""
    if not isinstance(value, Mapping):
        raise error(f"{name} must be a {kind}, not {type(value).__name__}")
    copied = cast("dict[str, Any]", copy_json(value, name, error))
    if any(map(UNSTORABLE.search, iter_strings(copied))):
        raise error(f"{name} holds a zero character or half of a surrogate pair; use plain text")
    if (size := len(json.dumps(copied, ensure_ascii=False).encode())) > most:
        raise error(f"{name} takes {size:,} bytes as JSON, at most {most:,} are kept {advice}")
    return copied


def iter_strings(value: object, *, keys: bool = True) -> Iterator[str]:
    """Yield the texts in a JSON value, in order, with or without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if keys:
                yield key
            yield from iter_strings(inner, keys=keys)
    elif isinstance(value, list):
        for inner in value:
            yield from iter_strings(inner, keys=keys)


ARGUMENT_ERRORS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""The errors that a value of a wrong type makes Python raise."""

_PROBLEMS: Mapping[type[Exception], str] = {  # of values whose type is right
    RecursionError: "nests too deep, or holds itself; flatten it",
    UnicodeEncodeError: "holds half of a surrogate pair, which no file name or UTF-8 has; use plain text",
    OverflowError: "holds a number that is too large; use one of at most 64 bits",
}
_MAX_BITS = 63  # of a number that a database holds


def explain_type_errors(record: type[_T]) -> type[_T]:
    """Make the constructor of a dataclass raise `InputError` for errors caused by a wrong type."""
    post_init: Callable[[Any], None] = record.__post_init__  # type: ignore[attr-defined]

    @wraps(post_init)
    def checked(self: Any) -> None:
        try:
            post_init(self)
        except JiyiError:
            raise
        except ARGUMENT_ERRORS as error:
            arguments = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
            if not (explanation := explain_error(arguments, get_type_hints(record), error)):
                raise
            raise InputError(f"{record.__name__}: {explanation}") from error

    record.__post_init__ = checked  # type: ignore[attr-defined]
    return record


def explain_error(given: Mapping[str, Any], hints: Mapping[str, Any], error: Exception) -> str:
    """Return which argument caused an error, in words; "" if all have the right type."""
    try:
        wrong = (explain_mismatch(value, hints[name], name) for name, value in given.items() if name in hints)
        if explanation := next(filter(None, wrong), ""):
            return explanation
    except RecursionError as nested:
        error = nested
    return next((f"an argument {words}" for kind, words in _PROBLEMS.items() if isinstance(error, kind)), "")


def explain_mismatch(value: object, hint: Any, name: str) -> str:
    """Return in words why a value does not match an annotation; "" if it does."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"{name} must be a number of at most 64 bits, not {short_repr(value)}"
    strict = ConfigDict(strict=True, arbitrary_types_allowed=True)
    checked = dict(value) if isinstance(value, Mapping) else value  # strictly, only a dict is a Mapping
    try:
        # Of a list, because the type itself may be a dataclass, which takes no config.
        TypeAdapter(list[hint], config=strict).validate_python([checked])
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Mapping):
                copy_json(part, name)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        places = [[part for part in detail["loc"][1:] if isinstance(part, int)] for detail in details]
        deepest = max(places, key=len)  # an error about a part says more than one about the value
        relevant = [detail for detail, place in zip(details, places, strict=True) if place == deepest]
        words = [detail["msg"].removeprefix("Input should be ") for detail in relevant]
        expected = " or ".join(dict.fromkeys("a list" if "Sequence" in word else word for word in words))
        where, wrong = name + "".join(f"[{part}]" for part in deepest), relevant[0]["input"]
        return f"{where} must be {expected}, not {short_repr(wrong)} ({type(wrong).__name__})"
    except InputError as error:
        return str(error)
    return ""
