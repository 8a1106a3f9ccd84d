"""What is evaluated: a fresh memory filled with one conversation, asked like any other system."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Protocol

from jiyi.databases import database_exists, list_users
from jiyi.embeddings import Embedder
from jiyi.errors import SettingsError, StorageError, WrongState
from jiyi.evaluate.dataset import Conversation, Question
from jiyi.manager import MemoryManager
from jiyi.storage.place import Place, locate
from jiyi.telling import mask, plural
from jiyi.wiring import open as open_memory

__all__ = [
    "SQLITE", "InWindow", "MemorySystem", "Opener", "Ranking", "System", "open_sqlite", "opener_for",
    "openers_for",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What a system found for one question."""

    ids: tuple[str, ...]  # of messages, best first
    nothing_relevant: float | None = None  # how sure the system is that there is no answer
    notes: tuple[str, ...] = ()  # what was not as it should be
    ranked: bool = True  # False: the system has no order of messages, and no metric of one applies


@dataclass(frozen=True, slots=True, kw_only=True)
class InWindow:
    """The messages in a window."""

    ids: frozenset[str]  # of the messages
    is_new: bool = True  # False: it was made for an earlier question, so its time is not counted


class System(Protocol):
    """Something that holds one conversation and can be asked about it."""

    def rank(self, question: Question, limit: int) -> Ranking:
        """Return the best ``limit`` messages, or as many as were found."""

    def window(self, question: Question, budget: int) -> InWindow:
        """Return the messages in a window of ``budget`` tokens; BudgetTooSmall: the question is larger."""


@dataclass(frozen=True, slots=True, eq=False)
class MemorySystem:
    """One conversation in a memory of jiyi."""

    memory: MemoryManager
    random: Random

    def load(self, conversation: Conversation) -> None:
        """Save the messages; when this returns all are found by their words."""
        for session in conversation.sessions:
            self.memory.save_messages(session.id, session.messages)

    def finish(self, progress: Callable[[int], None]) -> None:
        """Make the vectors; ``progress`` is called with the number of messages done."""
        self.memory.flush(progress)

    def rank(self, question: Question, limit: int) -> Ranking:
        """Search as of the moment the question is asked."""
        hits = self.memory.search(question.text, limit=limit, kinds="message", asked_at=question.asked_at)
        ids = tuple(hit.id for hit in hits)
        return Ranking(ids=ids, nothing_relevant=hits.nothing_relevant, notes=hits.notes)

    def window(self, question: Question, budget: int) -> InWindow:
        """Build the window of a new session; a message shown as an excerpt is in it, too."""
        session = f"{self.random.getrandbits(128):032x}"
        window = self.memory.build_context(session, question.text, budget=budget, asked_at=question.asked_at)
        return InWindow(ids=frozenset(item.id for item in window.report.included))


Opener = Callable[[Embedder], AbstractContextManager[MemoryManager]]
"""Opens an empty memory of a new user without a worker; leaving the context removes what it wrote."""

SQLITE = "sqlite"
"""The name of the embedded backend."""

_POSTGRES = "postgresql"
_PREFIX = "jiyi-evaluate-"  # of every user of an evaluation on a server


@contextmanager
def open_sqlite(embedder: Embedder) -> Iterator[MemoryManager]:
    """Open an empty memory in a temporary folder that goes with it; StorageError: none can be made."""
    try:
        folder = TemporaryDirectory(prefix="jiyi-evaluate-")
    except OSError as error:
        why = f"no temporary folder can be made: {error.strerror}"
        raise StorageError(f"{why}; set TMPDIR to a folder with room") from error
    user_id = secrets.token_hex(16)
    with folder as path:
        file = Path(path) / "memory.db"
        with open_memory(file, user_id=user_id, embedder=embedder, background=False) as memory:
            yield memory


def openers_for(backends: list[str]) -> dict[str, Opener]:
    """Return the openers of several backends, by their names in results; raises as `opener_for`."""
    openers: dict[str, Opener] = {}
    for name, opener in map(opener_for, dict.fromkeys(backends)):
        number = sum(known.split()[0] == name for known in openers)
        openers[f"{name} {number + 1}" if number else name] = opener
    return openers


def opener_for(backend: str) -> tuple[str, Opener]:
    """Return the name of a backend, "sqlite" or a database ``postgresql://…``, and what opens memories on it.

    Raises:
        SettingsError: jiyi has no such backend.
        WrongState: a server's database holds memories of somebody.
        StorageError: it cannot be reached.
    """
    if backend == SQLITE:
        return SQLITE, open_sqlite
    place = locate(backend) if "://" in backend else Place()
    if place.url is None:
        known = f"{SQLITE}, with one file a conversation, and {_POSTGRES}://…, a database of nothing else"
        raise SettingsError(f"no backend {mask(backend)!r} to evaluate on; there are {known}")
    # An evaluation fills the database, and its vectors are of one embedder.
    others = [u for u in list_users(place) if not u.startswith(_PREFIX)] if database_exists(place) else []
    if others:
        held = f"{place} holds memories of {plural(len(others), 'user')}, such as {others[0]!r}"
        advice = "make one with createdb and CREATE EXTENSION vector, or with: jiyi serve-db FOLDER"
        raise WrongState(f"{held}; an evaluation needs a database of its own: {advice}")
    return _POSTGRES, lambda embedder: _open_on_server(place, embedder)


@contextmanager
def _open_on_server(place: Place, embedder: Embedder) -> Iterator[MemoryManager]:
    """Open the memory of a new user; nothing of it stays but the user's random name."""
    user_id = _PREFIX + secrets.token_hex(16)
    with open_memory(place, user_id=user_id, embedder=embedder, background=False) as memory:
        try:
            yield memory
        finally:
            memory.forget(everything=True, purge=True)
