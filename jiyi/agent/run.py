"""What a run is given, its goals and limits, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jiyi.errors import InputError, SettingsError
from jiyi.prompts import Language, load_prompt, wording
from jiyi.records import Step, Window

__all__ = ["Goal", "Limits", "Run", "Stopped", "goals_of", "system_prompt"]

Stopped = Literal["done", "max_steps", "budget", "interrupted", "failed"]
"""Why a run ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something an agent works towards.

    Raises:
        InputError: the name is empty.
    """

    name: str  # in a word or a sentence
    description: str = ""  # what it means, and when it is reached
    priority: int = 0  # higher ones are shown first

    def __post_init__(self) -> None:
        """Refuse a goal that says nothing."""
        if not self.name.strip():
            raise InputError("a goal needs a name, such as Goal(name='Keep the shop running')")

    def __str__(self) -> str:
        """The goal as one line of the prompt."""
        return f"{self.name}: {self.description}" if self.description else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a run may take.

    Raises:
        SettingsError: a limit is not above 0.
    """

    max_steps: int = 20  # questions to the model
    max_tokens: int | None = 200_000  # input and output of all steps together; None: no limit
    seconds: float | None = 600.0  # no step is begun after these; None: no limit

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing."""
        for name in ("max_steps", "max_tokens", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name} must be above 0, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of a run."""

    answer: str  # the answer; where there is none, what the model said last, or ""
    stopped: Stopped  # why it ended
    reason: str = ""  # the same in words, where it is not "done"
    steps: tuple[Step, ...] = ()  # what was done, in order, results whole
    model_calls: int = 0  # how often the model was asked
    input_tokens: int = 0  # of all calls; as the endpoint counted, else as the window was counted
    output_tokens: int = 0  # of all calls; as the endpoint counted, else counted here
    task_id: str | None = None  # the task that keeps the steps; None where nothing was done
    window: Window | None = None  # what the model saw last
    notes: tuple[str, ...] = ()  # what was not as it should be


def goals_of(given: str | Goal | Sequence[str | Goal]) -> tuple[Goal, ...]:
    """Return goals, plain texts as goals of that name, highest priority first and else as given.

    Raises:
        InputError: something is neither a text nor a `Goal`.
    """
    some = [given] if isinstance(given, str | Goal) else list(given)
    for one in some:
        if not isinstance(one, str | Goal):
            raise InputError(f"a goal is a text or a Goal, not {type(one).__name__}")
    goals = [Goal(name=one) if isinstance(one, str) else one for one in some]
    return tuple(sorted(goals, key=lambda goal: -goal.priority))


def system_prompt(goals: Sequence[Goal], system: str, language: Language) -> str:
    """Return the system prompt: the words of the caller, then the goals and how to work.

    The same goals always give the same text, so that prompt caches hold.
    """
    lines = "\n".join(f"- {goal}" for goal in goals) or f"- {wording('agent', language)['goal']}"
    prompt = load_prompt("agent", language).substitute(goals=lines)
    return f"{system.strip()}\n\n{prompt}" if system.strip() else prompt
