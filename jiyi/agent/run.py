"""Goals and limits of a run, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jiyi.errors import InputError, SettingsError
from jiyi.prompts import Language, load_prompt, wording
from jiyi.records import Step, Window

Stopped = Literal["done", "max_steps", "budget", "interrupted", "failed"]
"""Why a run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something that an agent works towards; raises `InputError`: the name is empty."""

    name: str  # a word or a sentence
    description: str = ""  # what it means, and when it is reached
    priority: int = 0  # higher priorities are shown first

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("a goal needs a name, such as Goal(name='Keep the shop running')")

    def __str__(self) -> str:
        return f"{self.name}: {self.description}" if self.description else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run; raises `SettingsError`: a limit is not above 0."""

    max_steps: int = 20  # calls of the model
    max_tokens: int | None = 200_000  # input and output of all steps together; None: no limit
    seconds: float | None = 600.0  # no step starts after these; None: no limit

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The result of a run."""

    answer: str  # the answer; without one the last text of the model, or ""
    stopped: Stopped  # why it ended
    reason: str = ""  # an explanation, unless it is "done"
    steps: tuple[Step, ...] = ()  # in order, with complete results
    model_calls: int = 0  # calls of the model
    input_tokens: int = 0  # of all calls, counted by the endpoint, else by the window
    output_tokens: int = 0  # of all calls, counted by the endpoint, else here
    task_id: str | None = None  # the task with the steps; None without steps
    window: Window | None = None  # the last one
    notes: tuple[str, ...] = ()  # warnings


def parse_goals(given: str | Goal | Sequence[str | Goal]) -> tuple[Goal, ...]:
    """Return goals by priority, highest first; texts become goals of that name, others `InputError`."""
    items = [given] if isinstance(given, str | Goal) else list(given)
    for item in items:
        if not isinstance(item, str | Goal):
            raise InputError(f"a goal is a text or a Goal, not {type(item).__name__}")
    goals = [Goal(name=item) if isinstance(item, str) else item for item in items]
    return tuple(sorted(goals, key=lambda goal: -goal.priority))


def system_prompt(goals: Sequence[Goal], system: str, language: Language) -> str:
    """Return the system prompt, always the same for the same goals, so that prompt caches stay valid."""
    lines = "\n".join(f"- {goal}" for goal in goals) or f"- {wording('agent', language)['goal']}"
    prompt = load_prompt("agent", language).substitute(goals=lines)
    return f"{system.strip()}\n\n{prompt}" if system.strip() else prompt
