"""Explains errors caused by arguments of a wrong type, by checking them against their annotations."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, get_type_hints

from jiyi.errors import InputError, JiyiError
from jiyi.records.checks import copy_json, short_repr

__all__ = ["ARGUMENT_ERRORS", "explain_error", "explain_mismatch", "explain_type_errors", "short_repr"]

_T = TypeVar("_T")

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
        expected = " or ".join(dict.fromkeys(d["msg"].removeprefix("Input should be ") for d in relevant))
        where, checked = name + "".join(f"[{part}]" for part in deepest), relevant[0]["input"]
        return f"{where} must be {expected}, not {short_repr(checked)} ({type(checked).__name__})"
    except InputError as error:
        return str(error)
    return ""
