"""Actions made of functions: schema, description, types; and where they are carried out."""

import enum
import threading
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from refusing import raises, refused
from tables import literals, read_tables

from jiyi.agent import Action, Environment, action
from jiyi.errors import InputError, SettingsError
from jiyi.testing import ManualClock

TABLES = read_tables(__file__)


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Box:
    title: str
    size: Size = Size.SMALL


def everything(
    name: str,
    count: int = 3,
    level: Literal["low", "high"] = "low",
    tags: list[str] | None = None,
    day: date | None = None,
    box: Box | None = None,
    *,
    ratio: Annotated[float, Field(description="From 0 to 1.", ge=0, le=1)] = 0.5,
) -> Any:
    """Put things into a box.

    More about it.
    """
    return name, count, level, tags, day, box, ratio


def test_the_signature_is_the_schema_and_what_is_sent_becomes_what_the_function_takes():
    made = action(everything)
    assert made.description == "Put things into a box.\n\nMore about it."
    assert (made.name, made.terminal) == ("everything", False)
    schema = made.parameters
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["name"], False)
    told = schema["properties"]
    assert (told["name"], told["count"]) == ({"type": "string"}, {"type": "integer", "default": 3})
    assert told["level"] == {"type": "string", "enum": ["low", "high"], "default": "low"}
    assert told["ratio"]["description"] == "From 0 to 1."
    assert "title" in schema["$defs"]["Box"]["properties"], "a property called title stays"
    assert "title" not in told["day"]
    assert list(told) == ["name", "count", "level", "tags", "day", "box", "ratio"]
    assert made.to_openai() == action(everything).to_openai()
    args = {"name": "x", "day": "2026-03-02", "box": {"title": "t", "size": "l"}, "tags": ["a"]}
    assert made.function(**args) == ("x", 3, "low", ["a"], date(2026, 3, 2), Box("t", Size.LARGE), 0.5)
    refused(ValueError, "valid date", made.function, name="x", day="soon")


def test_as_a_decorator_with_options_it_is_still_a_function():
    @action(name="end-it", description="End.", terminal=True)
    def finish(text: str) -> str:
        """Say the last words."""
        return text.upper()

    assert (finish.name, finish.description, finish.terminal) == ("end-it", "End.", True)
    assert finish(text="bye") == "BYE"


def test_methods_and_functions_without_hints_or_words():
    class Shop:
        def open(self, door):
            return f"{door} open"

    made = action(Shop().open)
    assert (made.description, made.parameters["properties"]) == ("", {"door": {}})
    assert made.function(door=1) == "1 open"


def bare(*args: int) -> None: ...


def named(**kwargs: int) -> None: ...


def positional(a: int, /) -> None: ...


def opaque(a: Environment) -> None: ...


def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [bare, named, positional, opaque, unknown])
def test_functions_that_no_model_can_call_are_refused(function):
    refused(InputError, function.__name__, action, function)


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        *literals(TABLES["actions no api would take are refused"]),
        ("x" * 65, {"type": "object"}, "at most 64"),
    ],
)
def test_actions_no_api_would_take_are_refused(name, parameters, says):
    refused(InputError, says, Action, name=name, description="", parameters=parameters, function=print)


# --- the environment


def of(function: Any) -> Action:
    return Action(name="a", description="", parameters={"type": "object"}, function=function)


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        *literals(TABLES["what an action returns is text"]),
        (datetime(2026, 3, 2, tzinfo=UTC), '"2026-03-02 00:00:00+00:00"'),
    ],
)
def test_what_an_action_returns_is_text(returned, text):
    clock = ManualClock()
    seen = Environment(clock=clock).execute(of(lambda: returned), {})
    assert (seen.text, seen.ok, seen.at) == (text, True, clock())


@pytest.mark.parametrize("error", [ValueError("bad port"), SystemExit(3), RecursionError(), MemoryError()])
def test_what_an_action_raises_is_an_observation(error):
    def fail() -> None:
        raise error

    seen = Environment().execute(of(fail), {})
    assert not seen.ok
    assert seen.text == f"{type(error).__name__}: {error}"


def test_a_result_that_is_no_json_is_observed_and_an_interrupt_goes_through():
    round: list[Any] = []
    round.append(round)
    seen = Environment().execute(of(lambda: round), {})
    assert (seen.ok, seen.text.split(":")[0]) == (False, "ValueError")

    def interrupt() -> None:
        raise KeyboardInterrupt

    raises(KeyboardInterrupt, Environment().execute, of(interrupt), {})


def test_an_action_that_hangs_is_not_waited_for():
    forever, started = threading.Event(), time.monotonic()
    seen = Environment(seconds=0.1).execute(of(lambda: forever.wait(60)), {})
    assert time.monotonic() - started < 20
    forever.set()
    assert (seen.ok, "was not waited for" in seen.text) == (False, True)
    assert seen.seconds >= 0.1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_impossible_times_are_refused(seconds):
    refused(SettingsError, "seconds", Environment, seconds=seconds)
