"""Turns errors caused by arguments of a wrong type into `InputError`.

Verbs check the values they need themselves. If another wrong type makes a call fail, the arguments are
checked against the verb's annotations. A successful call costs one more Python call.
"""

from collections.abc import Callable
from functools import wraps
from inspect import isfunction, signature
from typing import Any, TypeVar, cast, get_type_hints

from jiyi.errors import InputError, JiyiError
from jiyi.records.checks import ARGUMENT_ERRORS, explain_error, short_repr

__all__ = ["guard_arguments", "guard_methods"]

_T = TypeVar("_T")
_Verb = TypeVar("_Verb", bound=Callable[..., Any])

_CALLBACKS = ("progress", "policy", "compress")


def guard_methods(memory: type[_T]) -> type[_T]:
    """Guard every public method of a class; see `guard_arguments`."""
    for name in dir(memory):
        if not name.startswith("_") and isfunction(verb := getattr(memory, name)):
            setattr(memory, name, guard_arguments(verb))
    return memory


def guard_arguments(verb: _Verb) -> _Verb:
    """Make a function raise `InputError` for any error caused by a wrong type of argument."""
    places = {name: at for at, name in enumerate(signature(verb).parameters) if name in _CALLBACKS}

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, at in places.items():
            called = args[at] if at < len(args) else kwargs.get(name)
            if isinstance(called, type) or not (called is None or callable(called)):
                raise InputError(f"{verb.__name__}: {name} must be callable, not {short_repr(called)}")
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
