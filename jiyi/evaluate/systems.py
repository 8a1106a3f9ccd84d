"""What is evaluated: a memory filled with one conversation, asked like any other system."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from jiyi.evaluate.dataset import Conversation, Question
from jiyi.manager import MemoryManager

__all__ = ["MemorySystem", "Ranking", "Shown", "System"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a system found for one question."""

    ids: tuple[str, ...]  # of messages, best first
    nothing_relevant: float | None = None  # how sure the system is that there is no answer
    notes: tuple[str, ...] = ()  # what was not as it should be
    ranked: bool = True  # False: the system has no order of messages, and no metric of one applies


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is in a window."""

    ids: frozenset[str]  # of the messages
    made: bool = True  # False: it is that of an earlier question, and says nothing of how long it took


class System(Protocol):
    """Something that holds one conversation and can be asked about it."""

    def rank(self, question: Question, limit: int) -> Ranking:
        """Return the best ``limit`` messages, or as many as were found."""
        ...

    def window(self, question: Question, budget: int) -> Shown:
        """Return the messages in a window of ``budget`` tokens made for the question.

        Raises:
            BudgetTooSmall: the question alone is larger.
        """
        ...


class MemorySystem:
    """One conversation in a memory of jiyi."""

    def __init__(self, memory: MemoryManager, random: Random) -> None:
        self._memory = memory
        self._random = random

    def load(self, conversation: Conversation) -> None:
        """Save the messages; when this returns all are found by their words."""
        for session in conversation.sessions:
            self._memory.save_messages(session.id, session.messages)

    def finish(self, progress: Callable[[int], None]) -> None:
        """Make the vectors; ``progress`` is called with the number of messages done."""
        self._memory.flush(progress)

    def rank(self, question: Question, limit: int) -> Ranking:
        """Search as of the moment the question is asked."""
        hits = self._memory.search(question.text, limit=limit, kinds="message", asked_at=question.asked_at)
        return Ranking(
            ids=tuple(hit.id for hit in hits), nothing_relevant=hits.nothing_relevant, notes=hits.notes
        )

    def window(self, question: Question, budget: int) -> Shown:
        """Build the window of a new session; a message shown as an excerpt is in it, too."""
        session = f"{self._random.getrandbits(128):032x}"
        window = self._memory.build_context(session, question.text, budget=budget, asked_at=question.asked_at)
        return Shown(ids=frozenset(item.id for item in window.report.included))
