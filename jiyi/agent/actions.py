"""Actions that a model may call as tools, and the environment that executes them."""

import inspect
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, get_type_hints, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError, SettingsError
from jiyi.llm import checker
from jiyi.time_limit import OutOfTime, run_within

_MAX_LATE = 8  # timed-out actions that may still be running
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that an agent can do, with a name that chat APIs accept; calling it calls its function."""

    name: str  # letters, digits, "_" and "-", at most 64
    description: str  # what it does and when to use it, for the model
    parameters: Mapping[str, Any]  # a JSON schema of its arguments, an object
    function: Callable[..., Any]  # called with the arguments by name
    terminal: bool = False  # its result is the answer and ends the run

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"action name {self.name!r}: use letters, digits, _ and -, at most 64")
        checker(self.parameters)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def to_openai(self) -> dict[str, Any]:
        """Return the tool definition, always the same one for the same action."""
        definition = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": definition}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The outcome of an action."""

    text: str  # the complete result, or the error
    ok: bool  # False if it raised or took too long
    at: datetime  # when it started
    seconds: float  # until it ended or timed out


@dataclass(eq=False, repr=False, kw_only=True)
class Environment:
    """Executes actions; subclass it to do so elsewhere, such as in a container.

    Each runs in a thread and times out after `seconds`; it may go on running, but its result is discarded.
    Raises `SettingsError`: seconds is not above 0.
    """

    seconds: float = 60.0
    clock: Clock = utc_now

    def __post_init__(self) -> None:
        if not 0 < self.seconds < float("inf"):
            raise SettingsError(f"seconds must be a number above 0, not {self.seconds}")

    def execute(self, action: Action, args: Mapping[str, Any]) -> Observation:
        """Execute an action and return its outcome, also an error; KeyboardInterrupt is raised at once."""
        at, started = self.clock(), time.monotonic()
        try:
            call = partial(action.function, **args)
            result = run_within(call, self.seconds, owner=self, most_late=_MAX_LATE)
            text, ok = ("ok" if result is None else result), True
            if not isinstance(text, str):
                text = json.dumps(text, ensure_ascii=False, default=str)
        except OutOfTime as error:
            text, ok = f"{action.name} was not waited for: {error}; it may still be going on", False
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
    """Make an action from a function: as a decorator, with or without options, or by a call.

    The schema comes from the type hints, with pydantic's ``Field(description=...)``; the description is the
    docstring. Arguments of the model are converted to the types of the hints (dates, enums, ...). Raises
    `InputError` for arguments that cannot be named or described as JSON.
    """

    def make_action(wrapped: Callable[..., Any]) -> Action:
        adapters, parameters = _argument_schema(wrapped)

        def call_converted(**args: Any) -> Any:
            return wrapped(**{key: adapters[key].validate_python(value) for key, value in args.items()})

        return Action(
            name=name or wrapped.__name__,
            description=description or inspect.getdoc(wrapped) or "",
            parameters=parameters,
            function=call_converted,
            terminal=terminal,
        )

    return make_action if function is None else make_action(function)


def _argument_schema(function: Callable[..., Any]) -> tuple[dict[str, TypeAdapter[Any]], dict[str, Any]]:
    name = getattr(function, "__name__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InputError(f"the type hints of {name} cannot be read: {error}") from error
    adapters: dict[str, TypeAdapter[Any]] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    definitions: dict[str, Any] = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(f"{name} takes {parameter}; an action takes arguments by their names")
        try:
            adapters[key] = TypeAdapter(hints.get(key, Any))
            schema = adapters[key].json_schema()
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise InputError(f"{key} of {name} cannot be described as JSON: {error.message}") from error
        definitions |= schema.pop("$defs", {})
        if parameter.default is parameter.empty:
            required.append(key)
        elif isinstance(parameter.default, str | int | float | bool):
            schema.setdefault("default", parameter.default)
        properties[key] = schema
    combined = {"type": "object", "properties": properties, "additionalProperties": False}
    combined |= {"required": required} if required else {}
    combined |= {"$defs": definitions} if definitions else {}
    return adapters, _strip_titles(combined)


def _strip_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic adds: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_strip_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # A property may itself be called "title"; then its value is no text.
    fields = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    literal = ("default", "enum", "const", "examples")
    return {key: value if key in literal else _strip_titles(value) for key, value in fields.items()}
