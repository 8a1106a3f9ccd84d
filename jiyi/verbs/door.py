"""Guard around the verbs: any error from an argument of a wrong type becomes `InputError`.

Verbs check what they need, with errors of their own. Any other wrong type breaks something further
in; only then are the arguments checked against the verb's annotations. A call that
works costs one more Python call and nothing else.
"""

from collections.abc import Callable
from functools import wraps
from inspect import isfunction, signature
from typing import Any, TypeVar, cast, get_type_hints

from jiyi.errors import InputError, JiyiError
from jiyi.records.argument_errors import ARGUMENT_ERRORS, explain_error, short_repr

__all__ = ["guard", "guarded"]

_T = TypeVar("_T")
_Verb = TypeVar("_Verb", bound=Callable[..., Any])

_CALLED = ("progress", "policy", "compress")


def guarded(memory: type[_T]) -> type[_T]:
    """Guard every verb of a memory; see `guard`."""
    for name in dir(memory):
        if not name.startswith("_") and isfunction(verb := getattr(memory, name)):
            setattr(memory, name, guard(verb))
    return memory


def guard(verb: _Verb) -> _Verb:
    """Let a verb raise `InputError` for any error that wrong arguments caused.

    Callbacks, such as ``progress``, are checked before the work begins.
    """
    places = {name: at for at, name in enumerate(signature(verb).parameters) if name in _CALLED}

    @wraps(verb)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, at in places.items():
            called = args[at] if at < len(args) else kwargs.get(name)
            if called is not None and not callable(called):
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
            if not (said := explain_error(given, get_type_hints(verb), error)):
                raise
            raise InputError(f"{verb.__name__}: {said}") from error

    return cast("_Verb", call)
