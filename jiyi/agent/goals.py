"""Goals: what an agent is for, and the system prompt that tells it so."""

from collections.abc import Sequence
from dataclasses import dataclass

from jiyi.errors import InputError
from jiyi.prompts import Language, load_prompt

__all__ = ["Goal", "goals_of", "system_prompt"]

_DEFAULT = {"zh": "帮助用户完成他所要求的事。", "en": "Help the user with what they ask."}


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
    lines = "\n".join(f"- {goal}" for goal in goals) or f"- {_DEFAULT[language]}"
    told = load_prompt("agent", language).substitute(goals=lines)
    return f"{system.strip()}\n\n{told}" if system.strip() else told
