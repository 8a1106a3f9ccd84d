"""Arguments of verbs: their types, checks, and errors about wrong ones.

Verbs check the values they need themselves. If another wrong type makes a call fail, the arguments are
checked against the verb's annotations. A successful call costs one more Python call.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_type_hints

from jiyi.errors import BadQuery, InputError, JiyiError
from jiyi.records import check_labels, in_utc
from jiyi.records.checks import ARGUMENT_ERRORS, explain_error, short_repr

_T = TypeVar("_T")
_Verb = TypeVar("_Verb", bound=Callable[..., Any])

Id: TypeAlias = str | None
"""The id of a user or an agent, by default that given to `jiyi.open`; of a session, by default any."""

Names: TypeAlias = Sequence[str] | str
"""Ids, or the labels of a namespace from the outermost on; a text is one of them."""

Filters: TypeAlias = Mapping[str, Any] | None
"""Conditions that `jiyi.records.read_filter` reads."""

_METHODS: Mapping[str, str] = {  # that an argument must have, unless it is None or the name of a model
    **dict.fromkeys(("progress", "policy", "compress", "clock"), "__call__"),
    **{"embedder": "embed", "reranker": "score", "llm": "complete"},
}


def guard_methods(memory: type[_T]) -> type[_T]:
    """Guard every public method of a class; see `guard_arguments`."""
    for name in dir(memory):
        if not name.startswith("_") and isfunction(verb := getattr(memory, name)):
            setattr(memory, name, guard_arguments(verb))
    return memory


def guard_arguments(verb: _Verb) -> _Verb:
    """Make a function raise `InputError` for any error caused by a wrong type of argument."""
    places = {name: at for at, name in enumerate(signature(verb).parameters) if name in _METHODS}

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, at in places.items():
            value, method = args[at] if at < len(args) else kwargs.get(name), _METHODS[name]
            is_named = value is None or (isinstance(value, str) and method != "__call__")
            if isinstance(value, type) or not (is_named or callable(getattr(value, method, None))):
                wanted = "callable" if method == "__call__" else f"a name or an object with {method}()"
                raise InputError(f"{verb.__name__}: {name} must be {wanted}, not {short_repr(value)}")
        try:
            return verb(*args, **kwargs)
        except JiyiError:
            raise
        except ARGUMENT_ERRORS as error:
            try:
                given = signature(verb).bind(*args, **kwargs).arguments
            except TypeError:  # it has no such argument
                raise error from None
            if not (explanation := explain_error(given, get_type_hints(verb), error)):
                raise
            raise InputError(f"{verb.__name__}: {explanation}") from error

    return cast("_Verb", call)


def as_ids(ids: Iterable[str] | str) -> tuple[str, ...]:
    """Return one id or several as a tuple, in order, without duplicates; `BadQuery` if they are not ids."""
    if isinstance(ids, bytes | bytearray) or not isinstance(ids, Iterable):
        raise BadQuery(f"ids is an id or a list of ids, not {type(ids).__name__}")
    names = (ids,) if isinstance(ids, str) else tuple(dict.fromkeys(ids))
    for name in names:
        if not isinstance(name, str) or not name:
            raise BadQuery(f"an id must be non-empty text, not {name!r}")
    return names


def as_labels(given: object, name: str = "namespace") -> tuple[str, ...]:
    """Return labels as a tuple, a text as one label; `InputError` if they are not labels."""
    if not isinstance(given, str | Sequence) or isinstance(given, bytes | bytearray):
        raise InputError(f'{name} must be labels such as ("users", "ana"), not {type(given).__name__}')
    labels = (given,) if isinstance(given, str) else tuple(given)
    check_labels(labels, name)
    return labels


def check_text(**words: object) -> None:
    """Raise `BadQuery` for what is not text, or blank; None means not given."""
    for name, value in words.items():
        if not isinstance(value, str | None):
            raise BadQuery(f"{name} must be text, not {type(value).__name__}")
        if value is not None and not value.strip():
            raise BadQuery(f"{name} is empty; give words")


def check_flags(**flags: object) -> None:
    """Raise `BadQuery` for anything but True and False, because "no" is true in Python."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise BadQuery(f"{name} must be True or False, not {value!r}")


def as_utc(moment: datetime | None, name: str) -> datetime | None:
    """Return a datetime in UTC, as `jiyi.records.in_utc` with `BadQuery`; None stays."""
    return None if moment is None else in_utc(moment, name, BadQuery)


def as_path(path: object) -> Path:
    """Return the path of a file; `InputError` if it is not a path or cannot name a file."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"a file is named by text or a Path, not {type(path).__name__}")
    if not os.fspath(path) or "\0" in str(path):
        raise InputError(f"{str(path)!r} names no file; give a path such as memory.jsonl")
    return Path(path)
