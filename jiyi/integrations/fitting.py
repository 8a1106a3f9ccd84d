"""Which messages of a conversation a model is shown, and what the memory adds to them."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jiyi.errors import BudgetTooSmall
from jiyi.integrations.recalling import Owner, Recalled, Recaller
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.records.atoms import atoms, turns
from jiyi.short_term import TokenBudget
from jiyi.text import TokenCounter
from jiyi.time_limit import run_within

__all__ = ["Fitted", "Fitting"]

_STEPS = 4  # history leaves by this part of the room, so that the beginning stays for several turns
_SHARE = 4  # what is recalled takes at most this part of the budget
_LATE = 8  # slow calls of the memory that may be under way before it is not asked

_T = TypeVar("_T")

_log = logging.getLogger("jiyi.integrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What a model is shown."""

    kept: tuple[int, ...]  # places of the messages that stay, ascending
    at: int | None = None  # the place of the newest user message, which what is recalled stands before
    recalled: Recalled = field(default_factory=Recalled)
    tokens: int = 0  # of all: system prompt, tools, messages, what is recalled

    def shown(self, given: Sequence[_T], asked: Callable[[str], _T]) -> Iterator[_T]:
        """Give those of a framework's messages that stay, and what is recalled as a message of the user.

        Of the user: what was said once has no more authority now than it had then. A question that is
        not among the messages yet is left to the caller.
        """
        for place in self.kept:
            if place == self.at and self.recalled.text:
                yield asked(self.recalled.text)
            if place < len(given):
                yield given[place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """Fits conversations into a budget. Whatever goes wrong in the memory, the conversation stays.

    - No tool call is shown without all its results and no result without its call.
    - What is too much leaves by turns, the oldest first, several at a time: the beginning is the same
      for several turns, and so is a provider's cache of it. The newest turn's question stays.
    - What is recalled belongs directly before the newest user message; it is the same while a run
      goes on.
    """

    recaller: Recaller  # what the memory has
    budget: int  # input tokens: system prompt, tools, messages and what is recalled
    seconds: float = 3.0  # the memory may take; then the model is asked without it

    @classmethod
    def of(
        cls,
        memory: MemoryManager,
        budget: int | None = None,
        recall_tokens: int | None = None,
        seconds: float = 3.0,
    ) -> "Fitting":
        """Return what fits into ``budget``, by default the settings' one; a quarter may be recalled."""
        budget = memory.parts.settings.limits[0] if budget is None else budget
        tokens = max(budget // _SHARE, 1) if recall_tokens is None else recall_tokens
        return cls(recaller=Recaller(tokens=tokens), budget=budget, seconds=seconds)

    def fit(
        self,
        owner: Owner,
        talk: Sequence[Message],
        *,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Fitted:
        """Return what of a conversation is shown, and what the memory has for its newest question."""
        counter = owner.memory.counter
        at = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
        recalled = self.recalled(owner, talk)
        first = [Message(role="system", content=system)] if system else []
        fixed = counter.count_all(first) + (counter.count_tools(tools) if tools else 0)
        # The allowance stands whatever is found, or what is found would move the beginning.
        room = self.budget - fixed - self.recaller.tokens
        kept = _that_fit(talk, room, counter)
        taken = fixed + sum(counter.count(talk[i]) for i in kept)
        if taken + recalled.tokens > self.budget:
            recalled = replace(recalled, text="", tokens=0, why=(), notes=(*recalled.notes, "no room"))
        return Fitted(kept=kept, at=at, recalled=recalled, tokens=taken + recalled.tokens)

    def recalled(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory has for the newest question; where it fails, nothing and a note of it."""
        try:
            return run_within(
                lambda: self.recaller.recall(owner, talk), self.seconds, owner=self.recaller, most_late=_LATE
            )
        except Exception as error:
            _log.warning("the memory had nothing for a question: %s", type(error).__name__)
            return Recalled(notes=(f"without memory: {type(error).__name__}: {error}",))


def _that_fit(talk: Sequence[Message], room: int, counter: TokenCounter) -> tuple[int, ...]:
    """Return the places of what stays: system messages, and the newest turns that fit."""
    sound = sorted(i for atom in atoms(talk) if atom.broken is None for i in atom.indices)
    left = [counter.counted(talk[i]) for i in sound]
    rounds = turns(left)
    sizes = [sum(counter.count(left[i]) for i in places) for places in rounds]
    system = [i for i, message in enumerate(left) if message.role == "system"]
    room -= sum(counter.count(left[i]) for i in system)
    gone = _gone(sizes, room)
    shown: Sequence[int] = [i for places in rounds[gone:] for i in places]
    if rounds and gone == len(rounds) - 1 and sizes[-1] > room:
        shown = _newest(left, shown, room, counter)
    return tuple(sound[i] for i in sorted([*system, *shown]))


def _gone(sizes: Sequence[int], room: int) -> int:
    """Return how many of the oldest turns leave: all that begin before the first step that is enough."""
    total, step = sum(sizes), max(room // _STEPS, 1)
    if total <= room:
        return 0
    mark = -(-(total - room) // step) * step
    gone = before = 0
    while gone < len(sizes) - 1 and before < mark:
        before += sizes[gone]
        gone += 1
    return gone


def _newest(
    left: Sequence[Message], places: Sequence[int], room: int, counter: TokenCounter
) -> Sequence[int]:
    """Return of too large a turn its question and the newest that fits; all where that is too large."""
    own = [replace(left[i], pinned=left[i].role == "user") for i in places]
    fits = TokenBudget(max_tokens=max(room, 1), counter=counter, keep_last=True)
    try:
        stay = {id(message) for message in fits(own, max(room, 1) + counter.count_all(())).kept}
    except BudgetTooSmall:
        return places
    return [place for place, message in zip(places, own, strict=True) if id(message) in stay]
