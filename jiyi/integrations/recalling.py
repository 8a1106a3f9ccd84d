"""What the memory does for a conversation that somebody else keeps: recalls for it, and stores it."""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from hashlib import sha256
from json import loads
from typing import Any

from jiyi.errors import DatabaseLocked
from jiyi.integrations.keeping import RAW, pages
from jiyi.manager import MemoryManager
from jiyi.records import Hit, Hits, Message, ReportItem, new_id

__all__ = ["Entry", "Owner", "Recalled", "Recaller", "Saver", "digest", "key", "stored", "told", "whole"]

_KNOWN = 200  # newest messages of a session, and of a request, that are compared
_PIECE = 10_000  # messages read at once
_ASKED = 4_000  # characters at either end of a question that are searched by
_LOCKS = 64
_RUNS = 1_000  # questions whose recalled text is kept while a run goes on
_RECALLED = ("skills", "profile", "knowledge", "episodes", "recalled")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose conversation it is, and which."""

    memory: MemoryManager  # where it is kept
    user_id: str | None  # None: whom the memory was opened for
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the memory has for a question."""

    text: str = ""  # to be shown before it; "" where there is nothing
    tokens: int = 0  # it takes
    why: tuple[ReportItem, ...] = ()  # what it shows, each with its id and the reason
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    notes: tuple[str, ...] = ()  # what was not as it should be

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the records it shows."""
        return tuple(dict.fromkeys(item.id for item in self.why))


@dataclass(eq=False, repr=False, kw_only=True)
class Recaller:
    """Recalls for conversations that somebody else keeps, and stores each of their messages once."""

    tokens: int  # most that is recalled for a question

    def __post_init__(self) -> None:
        self._runs: OrderedDict[str, Recalled] = OrderedDict()
        self._guard = threading.Lock()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def recall(self, owner: Owner, talk: Sequence[Message]) -> Recalled:
        """Return what the memory has for the user's newest message, without what the talk has itself.

        While a run goes on, tool after tool, it is the same for the same question.
        """
        at = max((i for i, message in enumerate(talk) if message.role == "user"), default=None)
        if at is None or not talk[at].text.strip():
            return Recalled()
        run = digest(repr((owner.user_id, owner.session_id, [key(m) for m in talk[: at + 1]])))
        with self._guard:
            found = self._runs.get(run) if at < len(talk) - 1 else None
        if found is None:
            found = self._recalled(owner, talk, talk[at].text)
            with self._guard:
                self._runs[run] = found
                if len(self._runs) > _RUNS:
                    self._runs.popitem(last=False)
        return found

    def keep(self, owner: Owner, talk: Sequence[Message], reply: Sequence[Message], *, whole: bool) -> int:
        """Save what is new in a conversation, then the reply; return how many messages that were.

        With ``whole`` the talk is all that the client shows of the conversation, else it is new.
        """
        with self._locks[hash((owner.user_id, owner.session_id)) % _LOCKS]:
            there = stored(owner)
            fresh = _unsaved(there, talk, whole=whole)
            again = [key(m) for m in reply] == [key(m) for m in there[-len(reply) or len(there) :]]
            if not fresh and again:
                return 0
            saved = [replace(message, id=new_id()) for message in (*fresh, *reply)]
            owner.memory.save_messages(owner.session_id, saved, user_id=owner.user_id)
            return len(saved)

    def _recalled(self, owner: Owner, talk: Sequence[Message], question: str) -> Recalled:
        if len(question) > 2 * _ASKED:
            question = f"{question[:_ASKED]}\n{question[-_ASKED:]}"
        # Their ids are enough for the window to leave them out.
        sent = {key(message) for message in talk}
        there = [Message(role="user", content="", id=m.id) for m in stored(owner) if key(m) in sent]
        counter = owner.memory.counter
        window = owner.memory.build_context(
            # A session of its own: the conversation itself and its summary are somebody else's.
            f"beside:{digest(owner.session_id)}",
            question,
            self.tokens + counter.count_all([Message(role="user", content=question), *there]),
            scratch=there,
            user_id=owner.user_id,
        )
        report = window.report
        shown = tuple(item for item in report.included if item.section in _RECALLED)
        text = "\n\n".join(str(m["content"]) for m in window.messages[: -1 - len(there)]) if shown else ""
        return Recalled(
            text=text,
            tokens=counter.count(Message(role="user", content=text)) if text else 0,
            why=shown,
            nothing_relevant=report.nothing_relevant,
            notes=report.notes,
        )


def _unsaved(there: Sequence[Message], talk: Sequence[Message], *, whole: bool) -> Sequence[Message]:
    """Return the end of a talk that is not stored yet.

    Clients send what came before again, and people edit it and ask again. So what is new begins after
    the last message that is known, and with the model's last one at the earliest: what was forgotten of
    earlier turns does not come back.
    """
    known, given = [key(m) for m in there], [key(m) for m in talk[-2 * _KNOWN :]]
    if not whole:  # of a request that is sent once more nothing is new
        return [] if known[-len(given) :] == given else talk
    spoken = max((i for i, m in enumerate(talk) if m.role == "assistant"), default=-1)
    blocks = SequenceMatcher(None, known, given, autojunk=False).get_matching_blocks()
    matched = max((block.b + block.size for block in blocks if block.size), default=0)
    if matched:
        return talk[max(matched + len(talk) - len(given), spoken) :]
    return talk[spoken:] if spoken >= 0 and talk[spoken].tool_calls else talk[spoken + 1 :]


def stored(owner: Owner) -> list[Message]:
    """Return the newest messages of a conversation as the memory has them."""
    return owner.memory.session_messages(owner.session_id, _KNOWN, user_id=owner.user_id)


def whole(owner: Owner) -> list[Message]:
    """Return a whole conversation as the memory has it, oldest first."""
    memory, session, user = owner.memory, owner.session_id, owner.user_id
    found = pages(lambda after: memory.session_messages(session, _PIECE, after=after, user_id=user))
    return [message for page in reversed(list(found)) for message in page]


def key(message: Message) -> tuple[Any, ...]:
    """Return what a message is known by when it is given again."""
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    return message.role, message.text.strip(), calls, message.tool_call_id


def digest(text: str) -> str:
    """Return 24 hex digits that stand for a text."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:24]


def told(hit: Hit, found: Hits) -> dict[str, Any]:
    """Return what a framework is told of a hit besides its words, as JSON.

    ``relevance`` and ``nothing_relevant`` are from 0 to 1; ``why`` has the share of each feature.
    """
    scope, date = hit.record.scope, hit.created_at
    return {
        "id": hit.id,
        "kind": hit.kind,
        "relevance": hit.relevance,
        "created_at": date.isoformat() if date else None,
        "session_id": scope.session_id if scope else None,
        "why": dict(hit.why),
        "nothing_relevant": found.nothing_relevant,
    }


_OURS = re.compile("([0-9a-f]{24})[.]([0-9a-f]{24})")
_TRIES = 3  # a process that ends after this would take the messages along
_SESSIONS = 100  # conversations of which it is known without reading what is saved


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a framework."""

    key: str  # what the framework knows it by; stays when its content changes
    raw: str  # the whole of it as JSON
    message: Message  # what it says


class Saver:
    """Saves conversations; each time it is given one whole, what is new goes in.

    - A message is saved once, even if several processes do so at the same time.
    - A changed message takes the place of the one before, and one put between others stands there.
    - What was forgotten is not saved again: what it was given once is no longer new, and in a new
      process neither is what stands before the newest message that is saved.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str | None, str], dict[str, str]] = OrderedDict()
        self._guard = threading.Lock()

    def save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        """Save what is new or changed, all or nothing; a database in use is waited for three times as long.

        Raises:
            JiyiError: the memory cannot take it.
        """
        for left in reversed(range(_TRIES)):
            try:
                self._save(owner, entries)
                return
            except DatabaseLocked:
                if not left:
                    raise

    def _save(self, owner: Owner, entries: Sequence[Entry]) -> None:
        place = (owner.user_id, owner.session_id)
        given = {digest(f"{owner.session_id}\n{entry.key}"): entry for entry in entries}
        marks = {name: digest(entry.raw) for name, entry in given.items()}
        with self._guard:
            seen = self._seen.get(place)
        if seen is None:
            seen = dict(_marks(message.id) for message in whole(owner))
            newest = max((i for i, name in enumerate(marks) if name in seen), default=-1)
            seen = {name: mark for i, (name, mark) in enumerate(marks.items()) if i <= newest} | seen
        fresh = [name for name, mark in marks.items() if seen.get(name) != mark]
        made = {name: _stored_as(f"{name}.{marks[name]}", given[name]) for name in fresh}
        if any(name in seen for name in fresh) or fresh != list(marks)[len(marks) - len(fresh) :]:
            self._replace(owner, list(given), made)
        elif fresh:
            owner.memory.save_messages(owner.session_id, list(made.values()), user_id=owner.user_id)
        with self._guard:
            self._seen[place] = seen | marks
            self._seen.move_to_end(place)
            if len(self._seen) > _SESSIONS:
                self._seen.popitem(last=False)

    def _replace(self, owner: Owner, names: Sequence[str], made: Mapping[str, Message]) -> None:
        """Write changed messages where they were, and new ones after those that they came after."""

        def replaced() -> None:
            talk = {_marks(message.id)[0]: message for message in whole(owner)}
            order = list(talk)
            before: str | None = None
            for name in names:
                if name in made and name not in talk:
                    order.insert(0 if before is None else order.index(before) + 1, name)
                if name in made or name in talk:
                    before = name
            messages = [made.get(name) or talk[name] for name in order]
            owner.memory.replace_messages(owner.session_id, messages, user_id=owner.user_id)

        # One transaction: what another process saves meanwhile stays.
        owner.memory.parts.store.together(replaced, repeatable=True)


def _marks(record_id: str) -> tuple[str, str]:
    """Return what stands in a record's id for the message's key and for its content."""
    found = _OURS.fullmatch(record_id)
    return (found[1], found[2]) if found else (record_id, "")


def _stored_as(record_id: str, entry: Entry) -> Message:
    message = entry.message
    return replace(message, id=record_id, extra={**message.extra, RAW: loads(entry.raw, parse_constant=str)})
