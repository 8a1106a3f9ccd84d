"""Whether a value is what an annotation asks for, asked only where something broke, and said in words."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from jiyi.errors import InputError, JiyiError
from jiyi.records.checks import brief, plain

__all__ = ["BREAKS", "brief", "checked", "misfit", "reason"]

_T = TypeVar("_T")

BREAKS = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, RecursionError)
"""What a value of a wrong type makes Python raise."""

_VALUES: Mapping[type[Exception], str] = {  # what a value may have that its type does not tell
    RecursionError: "nests too deep, or holds itself; flatten it",
    UnicodeEncodeError: "holds half of a surrogate pair, which no file name or UTF-8 has; use plain text",
    OverflowError: "holds a number that is too large; use one of at most 64 bits",
}
_MOST_BITS = 63  # of a number that a database holds


def checked(record: type[_T]) -> type[_T]:
    """Let a dataclass raise `InputError` for any error that a field of a wrong type caused as it was made."""
    made: Callable[[Any], None] = record.__post_init__  # type: ignore[attr-defined]

    @wraps(made)
    def make(self: Any) -> None:
        try:
            made(self)
        except JiyiError:
            raise
        except BREAKS as error:
            given = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
            if not (said := reason(given, get_type_hints(record), error)):
                raise
            raise InputError(f"{record.__name__}: {said}") from error

    record.__post_init__ = make  # type: ignore[attr-defined]
    return record


def reason(given: Mapping[str, Any], hints: Mapping[str, Any], error: Exception) -> str:
    """Say which value led to an error; "" where all are right."""
    try:
        wrong = (misfit(value, hints[name], name) for name, value in given.items() if name in hints)
        if said := next(filter(None, wrong), ""):
            return said
    except RecursionError as deep:
        error = deep
    return next((f"an argument {words}" for of, words in _VALUES.items() if isinstance(error, of)), "")


def misfit(value: object, hint: Any, name: str) -> str:
    """Say in words why a value is not of a type, as annotations name it; "" where it is."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"{name} must be a number of at most 64 bits, not {brief(value)}"
    strict = ConfigDict(strict=True, arbitrary_types_allowed=True)
    given = dict(value) if isinstance(value, Mapping) else value  # strictly, only a dict is a Mapping
    try:
        # Of a list, because the type itself may be a dataclass, which takes no config.
        TypeAdapter(list[hint], config=strict).validate_python([given])
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Mapping):
                plain(part, name)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        places = [[part for part in one["loc"][1:] if isinstance(part, int)] for one in found]
        deepest = max(places, key=len)  # one about a part of it says more than one about the whole
        here = [one for one, place in zip(found, places, strict=True) if place == deepest]
        wanted = " or ".join(dict.fromkeys(one["msg"].removeprefix("Input should be ") for one in here))
        where, given = name + "".join(f"[{part}]" for part in deepest), here[0]["input"]
        return f"{where} must be {wanted}, not {brief(given)} ({type(given).__name__})"
    except InputError as error:
        return str(error)
    return ""
