"""What the memory does for a conversation that passes by: recalls for it, and keeps it."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any

from jiyi.manager import MemoryManager
from jiyi.records import Message, new_id

__all__ = ["Owner", "Recalled", "Talk", "session_of"]

_KNOWN = 200  # newest messages of a session among which those of a request are looked for
_ASKED = 4_000  # characters at either end of a question that are searched by
_LOCKS = 64
_RUNS = 1_000  # questions whose recalled text is kept while a run goes on
_RECALLED = ("skills", "profile", "knowledge", "episodes", "recalled")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose conversation it is, and which."""

    memory: MemoryManager  # where it is kept
    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the memory has for a question."""

    text: str = ""  # to be shown before it; "" where there is nothing
    tokens: int = 0  # it takes
    ids: tuple[str, ...] = ()  # of the records it shows
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: tuple[str, ...] = ()  # what was not as it should be


def session_of(talk: Sequence[Message]) -> str:
    """Return a session id made of a conversation's first words, which the client sends each time."""
    first = next((message.text for message in talk if message.role == "user"), "")
    return f"openai:{_digest(first.strip())}"


class Talk:
    """Recalls for conversations, and keeps each of their messages once.

    Args:
        tokens: most that is recalled for a question.
    """

    def __init__(self, *, tokens: int) -> None:
        self._tokens = tokens
        self._runs: OrderedDict[str, Recalled] = OrderedDict()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory has for the user's newest message, without what the talk has itself.

        While a run goes on, tool after tool, it is the same for the same question.
        """
        at = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
        if at is None:
            return Recalled()
        run = _digest(repr((owner.user_id, owner.session_id, [_key(m) for m in talk[: at + 1]])))
        found = self._runs.get(run) if at < len(talk) - 1 else None
        if found is None:
            found = self._runs[run] = self._recalled(owner, talk, talk[at].text)
            if len(self._runs) > _RUNS:
                self._runs.popitem(last=False)
        return found

    def _recalled(self, owner: Owner, talk: Sequence[Message], question: str) -> Recalled:
        if len(question) > 2 * _ASKED:
            question = f"{question[:_ASKED]}\n{question[-_ASKED:]}"
        # Their ids are enough for the window to leave them out.
        sent = {_key(message) for message in talk}
        there = [Message(role="user", content="", id=m.id) for m in _stored(owner) if _key(m) in sent]
        counter = owner.memory.counter
        window = owner.memory.build_context(
            # A session of its own: the conversation itself and its summary are the client's.
            f"proxy:{_digest(owner.session_id)}",
            question,
            self._tokens + counter.count_all([Message(role="user", content=question), *there]),
            scratch=there,
            user_id=owner.user_id,
        )
        report = window.report
        ids = tuple(dict.fromkeys(item.id for item in report.included if item.section in _RECALLED))
        shown = "\n\n".join(str(m["content"]) for m in window.messages[: -1 - len(there)]) if ids else ""
        return Recalled(
            text=shown,
            tokens=counter.count(Message(role="user", content=shown)) if shown else 0,
            ids=ids,
            nothing_relevant=report.nothing_relevant,
            notes=report.notes,
        )

    def keep(self, owner: Owner, talk: Sequence[Message], reply: Sequence[Message], *, whole: bool) -> int:
        """Save what is new in a conversation, then the reply; return how many messages that were.

        With ``whole`` the talk is all that the client shows of the conversation, else it is new.
        """
        with self._locks[hash((owner.user_id, owner.session_id)) % _LOCKS]:
            stored = _stored(owner)
            fresh = _unsaved(stored, talk, whole=whole)
            again = [_key(m) for m in reply] == [_key(m) for m in stored[-len(reply) or len(stored) :]]
            if not fresh and again:
                return 0
            saved = [replace(message, id=new_id()) for message in (*fresh, *reply)]
            owner.memory.save_messages(owner.session_id, saved, user_id=owner.user_id)
            return len(saved)


def _stored(owner: Owner) -> list[Message]:
    return owner.memory.session_messages(owner.session_id, _KNOWN, user_id=owner.user_id)


def _unsaved(stored: Sequence[Message], talk: Sequence[Message], *, whole: bool) -> Sequence[Message]:
    """Return the end of a talk that is not stored yet.

    Clients send what came before again, or the newest of it, and people edit it and ask again. So
    what is new begins after the last message that is known, and with the model's last one at the
    earliest: what was forgotten of earlier turns does not come back.
    """
    known, given = [_key(m) for m in stored], [_key(m) for m in talk[-2 * _KNOWN :]]
    if not whole:  # of a request that is sent once more nothing is new
        return [] if known[-len(given) :] == given else talk
    spoken = max((i for i, m in enumerate(talk) if m.role == "assistant"), default=-1)
    blocks = SequenceMatcher(None, known, given, autojunk=False).get_matching_blocks()
    matched = max((block.b + block.size for block in blocks if block.size), default=0)
    if matched:
        return talk[max(matched + len(talk) - len(given), spoken) :]
    return talk[spoken:] if spoken >= 0 and talk[spoken].tool_calls else talk[spoken + 1 :]


def _key(message: Message) -> tuple[Any, ...]:
    """Return what a message is known by when the client sends it again."""
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return message.role, message.text.strip(), calls, message.tool_call_id


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]
