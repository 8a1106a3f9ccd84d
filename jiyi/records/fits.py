"""Whether a value is what an annotation asks for, asked only where something broke, and said in words."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import get_protocol_members, is_protocol

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
_PLACE = re.compile(r"\b(?:\w+\.)+")  # of a class, in front of its name


def checked(record: type[_T]) -> type[_T]:
    """Let a dataclass raise `InputError` whatever a field of a wrong type broke as it was made."""
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
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return misfit(value, inner[0], name)
    if origin in (Union, UnionType):
        reasons = [misfit(value, one, name) for one in inner]
        if "" in reasons:
            return ""
        # one about a part of it says more than one about the whole
        return next((said for said in reasons if not said.startswith(f"{name} ")), _told(value, hint, name))
    if origin is Literal:
        return "" if isinstance(value, str) and value in inner else _told(value, hint, name)
    if not _is(value, origin or hint):
        return _told(value, hint, name)
    return next(_inside(value, inner, name), "")


def _is(value: object, of: Any) -> bool:
    if of is Any:
        return True
    if of is float and type(value) is int:
        of = int
    if of is Callable:
        return callable(value)
    if is_protocol(of):
        return all(hasattr(value, name) for name in get_protocol_members(of))
    if of is int and isinstance(value, int):
        return not isinstance(value, bool) and value.bit_length() <= _MOST_BITS
    return isinstance(value, of) and not (of is Sequence and isinstance(value, str | bytes | bytearray))


def _inside(value: Any, inner: Sequence[Any], name: str) -> Iterator[str]:
    """Yield what is wrong with the parts of a list or of a JSON object."""
    if isinstance(value, Mapping) and inner:
        try:
            plain(value, name)
        except InputError as error:
            yield str(error)
    elif isinstance(value, Sequence) and not isinstance(value, str) and inner:
        for place, part in enumerate(value):
            if said := misfit(part, inner[0], f"{name}[{place}]"):
                yield said


def _told(value: object, hint: Any, name: str) -> str:
    wanted = _PLACE.sub("", hint.__name__ if isinstance(hint, type) else str(hint)).replace(
        "NoneType", "None"
    )
    return f"{name} must be {wanted}, not {brief(value)} ({type(value).__name__})"
