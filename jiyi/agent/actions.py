"""Actions: what an agent can do, as tools a model may call, and the environment that carries them out."""

import inspect
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_type_hints, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError, SettingsError
from jiyi.llm import checker
from jiyi.time_limit import OutOfTime, run_within

__all__ = ["Action", "Environment", "Observation", "action"]

_MOST_LATE = 8  # actions not waited for any more that may still be going on
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something an agent can do; calling it calls its function.

    Raises:
        InputError: a name that chat APIs do not take, or parameters that are no JSON schema
            of an object.
    """

    name: str  # letters, digits, "_" and "-", at most 64
    description: str  # what it does and when to use it, for the model
    parameters: Mapping[str, Any]  # a JSON schema of its arguments, an object
    function: Callable[..., Any]  # called with the arguments by name
    terminal: bool = False  # its result is the answer, and ends the run

    def __post_init__(self) -> None:
        """Refuse what no model could call."""
        if not _NAME.fullmatch(self.name):
            raise InputError(f"action name {self.name!r}: use letters, digits, _ and -, at most 64")
        checker(self.parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def to_openai(self) -> dict[str, Any]:
        """Return the tool definition; the same action always gives the same one."""
        definition = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": definition}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What came of an action."""

    text: str  # what it returned, whole, or what went wrong
    ok: bool  # False where it raised or took too long
    at: datetime  # when it was begun
    seconds: float  # how long it was waited for


class Environment:
    """Carries out actions; subclass it to do so elsewhere, such as in a container.

    - `execute` never raises what an action raises: that is an observation, too.
    - Each action runs in a thread of its own and is waited for no longer than `seconds`;
      one that takes longer goes on by itself, and its result is thrown away.

    Args:
        seconds: most seconds an action is waited for.
        clock: where "now" comes from.

    Raises:
        SettingsError: seconds is not above 0.
    """

    def __init__(self, *, seconds: float = 60.0, clock: Clock = utc_now) -> None:
        if not 0 < seconds < float("inf"):
            raise SettingsError(f"seconds must be a number above 0, not {seconds}")
        self._seconds = seconds
        self._clock = clock

    def execute(self, action: Action, args: Mapping[str, Any]) -> Observation:
        """Carry out an action and return what came of it.

        KeyboardInterrupt is raised at once; the action may go on.
        """
        at, started = self._clock(), time.monotonic()
        try:
            returned = run_within(
                lambda: action.function(**args), self._seconds, owner=self, most_late=_MOST_LATE
            )
            text, ok = _as_text(returned), True
        except OutOfTime as late:
            text, ok = f"{action.name} was not waited for: {late}; it may still be going on", False
        except (Exception, SystemExit) as error:
            text, ok = f"{type(error).__name__}: {error}", False
        return Observation(text=text, ok=ok, at=at, seconds=time.monotonic() - started)


@overload
def action(function: Callable[..., Any]) -> Action: ...
@overload
def action(
    *, name: str | None = None, description: str | None = None, terminal: bool = False
) -> Callable[[Callable[..., Any]], Action]: ...
def action(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    terminal: bool = False,
) -> Action | Callable[[Callable[..., Any]], Action]:
    """Make an action of a function: as a decorator, with or without options, or by a call.

    The schema comes from the type hints, with pydantic's ``Field(description=...)``; the description
    is the docstring. What the model sends is turned into the types of the hints (dates, enums, ...).

    Raises:
        InputError: the function takes arguments that cannot be named or described as JSON.
    """

    def made(given: Callable[..., Any]) -> Action:
        adapters, parameters = _described(given)

        def converted(**args: Any) -> Any:
            return given(**{key: adapters[key].validate_python(value) for key, value in args.items()})

        return Action(
            name=name or given.__name__,
            description=description or inspect.getdoc(given) or "",
            parameters=parameters,
            function=converted,
            terminal=terminal,
        )

    return made if function is None else made(function)


def _as_text(returned: Any) -> str:
    if isinstance(returned, str):
        return returned
    if returned is None:
        return "ok"
    return json.dumps(returned, ensure_ascii=False, default=str)


def _described(function: Callable[..., Any]) -> tuple[dict[str, TypeAdapter[Any]], dict[str, Any]]:
    """Return how each argument is read, and the JSON schema of all."""
    where = getattr(function, "__name__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InputError(f"the type hints of {where} cannot be read: {error}") from error
    adapters: dict[str, TypeAdapter[Any]] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    shared: dict[str, Any] = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(f"{where} takes {parameter}; an action takes arguments by their names")
        try:
            adapters[key] = TypeAdapter(hints.get(key, Any))
            schema = adapters[key].json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise InputError(f"{key} of {where} cannot be described as JSON: {error.message}") from error
        shared |= schema.pop("$defs", {})
        if parameter.default is parameter.empty:
            required.append(key)
        elif isinstance(parameter.default, str | int | float | bool):
            schema.setdefault("default", parameter.default)
        properties[key] = schema
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    whole |= {"required": required} if required else {}
    whole |= {"additionalProperties": False} | ({"$defs": shared} if shared else {})
    plain: dict[str, Any] = _without_titles(whole)
    return adapters, plain


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles pydantic gives everything: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    # A property may itself be called "title"; then it is no text.
    kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    literal = ("default", "enum", "const", "examples")
    return {key: value if key in literal else _without_titles(value) for key, value in kept.items()}
