"""Which messages of a conversation a model is shown, and what the memory adds to them."""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from jiyi.errors import BudgetTooSmall
from jiyi.integrations.recalling import Owner, Recalled, Recaller
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.records.atoms import atoms, turns
from jiyi.short_term import TokenBudget
from jiyi.text import TokenCounter
from jiyi.time_limit import run_within

_DROP_STEPS = 4  # history is dropped in such steps, so that the beginning stays for several turns
_RECALL_DIVISOR = 4  # recalled text takes at most the budget divided by this
_MAX_LATE_CALLS = 8  # slow recalls that may run before further ones are skipped

_T = TypeVar("_T")

_log = logging.getLogger("jiyi.integrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What a model is shown."""

    kept: tuple[int, ...]  # indices of the messages that are shown, ascending
    at: int | None = None  # index of the newest user message; recalled text goes before it
    recalled: Recalled = field(default_factory=Recalled)
    tokens: int = 0  # of system prompt, tools, messages and recalled text

    def select(self, messages: Sequence[_T], make_question: Callable[[str], _T]) -> Iterator[_T]:
        """Yield the framework's messages that are shown, with the recalled text as a user message.

        A user message, so that recalled words have no more authority than when they were said. A
        question that is not among the messages yet is left to the caller.
        """
        for index in self.kept:
            if index == self.at and self.recalled.text:
                yield make_question(self.recalled.text)
            if index < len(messages):
                yield messages[index]


class Fitting:
    """Fits conversations into a token budget. If the memory fails, the conversation goes on without it.

    - No tool call is shown without all its results and no result without its call.
    - Turns that do not fit are dropped, the oldest first, several at a time: the beginning stays the
      same for several turns, so that a provider's prompt cache works. The newest question stays.
    - Recalled text goes directly before the newest user message; it stays the same during a run.

    ``budget`` is of input tokens: system prompt, tools, messages and recalled text; by default that of
    the memory's settings. Of it a quarter may be recalled, or ``recall_tokens``, within ``seconds``.
    """

    def __init__(
        self,
        memory: MemoryManager,
        budget: int | None = None,
        recall_tokens: int | None = None,
        seconds: float = 3.0,
    ) -> None:
        self._budget = memory.parts.settings.limits[0] if budget is None else budget
        tokens = max(self._budget // _RECALL_DIVISOR, 1) if recall_tokens is None else recall_tokens
        self._seconds = seconds
        self.recaller = Recaller(tokens=tokens)

    def fit(
        self,
        owner: Owner,
        talk: Sequence[Message],
        *,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        reserved: int = 0,
    ) -> Fitted:
        """Return which messages are shown, and what the memory recalls for the newest question.

        ``reserved`` tokens of the budget are left to others.
        """
        budget = self._budget - reserved
        counter = owner.memory.counter
        question_at = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
        recalled = self.recall(owner, talk)
        system_messages = [Message(role="system", content=system)] if system else []
        fixed_tokens = counter.count_all(system_messages) + (counter.count_tools(tools) if tools else 0)
        # Reserve the whole allowance: else the length of recalled text would move the beginning.
        room = budget - fixed_tokens - self.recaller.tokens
        shown = _select_fitting(talk, room, counter)
        shown_tokens = fixed_tokens + sum(counter.count(talk[i]) for i in shown)
        if shown_tokens + recalled.tokens > budget:
            recalled = replace(recalled, text="", tokens=0, why=(), notes=(*recalled.notes, "no room"))
        return Fitted(kept=shown, at=question_at, recalled=recalled, tokens=shown_tokens + recalled.tokens)

    def recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory recalls for the newest question; if it fails, nothing and a note."""
        try:
            recall = partial(self.recaller.recall, owner, talk)
            return run_within(recall, self._seconds, owner=self.recaller, most_late=_MAX_LATE_CALLS)
        except Exception as error:
            _log.warning("the memory had nothing for a question: %s", type(error).__name__)
            return Recalled(notes=(f"without memory: {type(error).__name__}: {error}",))


def with_tokens(message: Message, parts: Iterable[Mapping[str, Any]], counter: TokenCounter) -> Message:
    """Return a message with its tokens and those of ``parts``, such as pictures, which it does not have.

    Parts are in the form of Chat Completions and counted one by one: each counts the same in any message.
    """
    tokens = sum(counter.count(Message(role="user", content=(part,))) for part in parts)
    return replace(message, tokens=counter.count(message) + tokens, tokens_by=counter.name)


def _select_fitting(talk: Sequence[Message], room: int, counter: TokenCounter) -> tuple[int, ...]:
    """Return the indices of what is shown: system messages, and the newest turns that fit."""
    usable = sorted(i for atom in atoms(talk) if atom.broken is None for i in atom.indices)
    messages = [counter.counted(talk[i]) for i in usable]
    turn_indices = turns(messages)
    sizes = [sum(counter.count(messages[i]) for i in indices) for indices in turn_indices]
    system = [i for i, message in enumerate(messages) if message.role == "system"]
    room -= sum(counter.count(messages[i]) for i in system)
    dropped = _count_dropped_turns(sizes, room)
    shown: Sequence[int] = [i for indices in turn_indices[dropped:] for i in indices]
    if turn_indices and dropped == len(turn_indices) - 1 and sizes[-1] > room:
        shown = _trim_turn(messages, shown, room, counter)
    return tuple(usable[i] for i in sorted([*system, *shown]))


def _count_dropped_turns(sizes: Sequence[int], room: int) -> int:
    """Return how many of the oldest turns are dropped, in whole steps of the room."""
    total, step = sum(sizes), max(room // _DROP_STEPS, 1)
    if total <= room or not sizes:
        return 0
    to_drop = -(-(total - room) // step) * step
    return min(bisect_left(list(accumulate(sizes)), to_drop) + 1, len(sizes) - 1)


def _trim_turn(
    messages: Sequence[Message], indices: Sequence[int], room: int, counter: TokenCounter
) -> Sequence[int]:
    """Return the question and newest messages of a too large turn that fit; all if even these do not."""
    turn = [replace(messages[i], pinned=messages[i].role == "user") for i in indices]
    limit = TokenBudget(max_tokens=max(room, 1), counter=counter, keep_last=True)
    try:
        kept_ids = {id(message) for message in limit(turn, max(room, 1) + counter.count_all(())).kept}
    except BudgetTooSmall:
        return indices
    return [index for index, message in zip(indices, turn, strict=True) if id(message) in kept_ids]
