"""The neutral evaluation file: conversations, and questions with the ids of what answers them."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

from jiyi.clock import aware
from jiyi.errors import ImportFailed, InputError
from jiyi.records import Message
from jiyi.records.checks import short_repr
from jiyi.text import language

__all__ = ["Conversation", "Dataset", "Question", "SessionLog", "hide_ids", "load_dataset", "read_dataset"]

_MESSAGE_INTERVAL = timedelta(seconds=30)  # between messages that name no date
_MESSAGE_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
_NO_CATEGORY = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, and what would be a good answer to it."""

    id: str  # unique within its conversation
    text: str  # the question itself
    asked_at: datetime  # when it is asked, UTC
    answer: str = ""  # in words; no metric reads it
    evidence: tuple[str, ...] = ()  # ids of the messages that hold the answer
    one_is_enough: bool = False  # evidence_mode "any": each evidence message alone answers it
    stale: tuple[str, ...] = ()  # ids of messages that say what does not hold at the time asked about
    category: str = _NO_CATEGORY  # how results are grouped; the kind where the file has no category
    kind: str = ""  # "current", "as_of", ... in files about change
    abstain: bool = False  # the conversation holds no answer

    @property
    def answerable(self) -> bool:
        """Whether there is evidence that could be found."""
        return bool(self.evidence) and not self.abstain


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLog:
    """One session of a conversation."""

    id: str  # unique within its conversation
    messages: tuple[Message, ...]  # in order, each with a date


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The sessions of one memory, and the questions asked to it."""

    id: str  # unique within its file
    sessions: tuple[SessionLog, ...]
    questions: tuple[Question, ...]

    @property
    def messages(self) -> list[Message]:
        """All messages, session by session."""
        return [message for session in self.sessions for message in session.messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A file's conversations."""

    file: str  # the file's name, without its folder
    language: str  # "zh", "en", as the file says, else as its questions are
    conversations: tuple[Conversation, ...]

    @property
    def questions(self) -> list[Question]:
        """All questions."""
        return [question for talk in self.conversations for question in talk.questions]

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return sum(len(session.messages) for talk in self.conversations for session in talk.sessions)


def load_dataset(path: str | Path) -> Dataset:
    """Read a file of the neutral format; raises as `read_dataset`, also where the file cannot be read."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ImportFailed(f"{file} cannot be read: {error.strerror}; name a file of JSON") from error
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{file} is not UTF-8 (byte {error.start}); convert it first") from error
    except ValueError as error:  # a NUL in the path
        raise ImportFailed(f"{str(file)!r} is no path: {error}") from error
    if not text.strip():
        raise ImportFailed(f"{file} is empty; it needs conversations with questions")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"{file} is not JSON: {error}; evaluation reads one JSON object a file") from error
    return read_dataset(data, file=file.name)


def read_dataset(data: Mapping[str, Any], *, file: str = "data") -> Dataset:
    """Read the content of the ``file`` in the neutral format; ImportFailed: it has another shape."""
    if not isinstance(data, Mapping):
        raise ImportFailed(f"{file} holds {_describe(data)}, not an object with conversations")
    entries = _Entry(data, file).read_entries("conversations", "conversation_id", ": ")
    conversations = tuple(map(_read_conversation, entries))
    if not any(conversation.questions for conversation in conversations):
        raise ImportFailed(f"{file} holds no questions; give at least one conversation some questions")
    asked = (question.text for conversation in conversations for question in conversation.questions)
    stated = data.get("language")
    spoken = stated if isinstance(stated, str) and stated else language(" ".join(asked))
    return Dataset(file=file, language=spoken, conversations=conversations)


def hide_ids(conversation: Conversation, random: Random) -> Conversation:
    """Return the conversation with random ids, which reveal nothing, its sessions in the order of time."""
    names = _make_ids([message.id for message in conversation.messages], random, bits=128)
    # Short ones, because a window shows session ids, and they take tokens.
    homes = _make_ids([session.id for session in conversation.sessions], random, bits=32)
    sessions = [
        SessionLog(id=homes[session.id], messages=tuple(replace(m, id=names[m.id]) for m in session.messages))
        for session in conversation.sessions
        if session.messages
    ]
    sessions.sort(key=lambda session: (cast("datetime", session.messages[0].created_at), session.id))
    hide = names.__getitem__
    questions = [
        replace(q, evidence=tuple(map(hide, q.evidence)), stale=tuple(map(hide, q.stale)))
        for q in conversation.questions
    ]
    return replace(conversation, sessions=tuple(sessions), questions=tuple(questions))


def _make_ids(ids: Sequence[str], random: Random, *, bits: int) -> dict[str, str]:
    """Return a new name for each id, none twice."""
    opaque: dict[str, None] = {}
    while len(opaque) < len(ids):
        opaque[f"{random.getrandbits(bits):0{bits // 4}x}"] = None
    return dict(zip(ids, opaque, strict=True))


@dataclass(frozen=True, slots=True)
class _Entry:
    data: Mapping[str, Any]
    where: str  # for errors
    id: str = ""

    def refuse(self, problem: str) -> ImportFailed:
        return ImportFailed(f"{self.where} {problem}")

    def read_list(self, field: str) -> list[Any]:
        value = self.data.get(field)
        if not isinstance(value, list | tuple):
            raise self.refuse(f"needs a list {field}, not {_shown(value)}")
        return list(value)

    def read_text(self, field: str, *, optional: bool = False) -> str:
        value = self.data.get(field)
        if value is None and optional:
            return ""
        if not isinstance(value, str):
            raise self.refuse(f"needs {field} as text, not {_shown(value)}")
        return value

    def read_moment(self, field: str) -> datetime:
        """Read an ISO 8601 date; one without a zone is in UTC."""
        value = self.data.get(field)
        try:
            if not isinstance(value, str):
                raise ValueError
            moment = datetime.fromisoformat(value)
            return aware(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            example = "an ISO 8601 date such as 2026-03-02T09:00:00"
            raise self.refuse(f"needs {field} as {example}, not {_shown(value)}") from None

    def read_entries(self, field: str, id_field: str, separator: str = " ") -> "list[_Entry]":
        entries = []
        for place, data in enumerate(self.read_list(field)):
            where = f"{self.where}{separator}{field}[{place}]"
            if not isinstance(data, Mapping):
                raise ImportFailed(f"{where} is {_describe(data)}, not an object; see docs/evaluate.md")
            id_ = data.get(id_field)
            if not isinstance(id_, str) or not id_.strip():
                raise ImportFailed(f"{where} needs {id_field}, text that no other has, not {_shown(id_)}")
            entries.append(_Entry(data, f"{where} ({_shown(id_)})", id_))
        self.check_ids(f"{field[:-1]} id" if id_field == "id" else id_field, [entry.id for entry in entries])
        return entries

    def check_ids(self, name: str, ids: Sequence[str]) -> None:
        for id_, count in Counter(ids).items():
            if count > 1:
                raise self.refuse(f"has the {name} {_shown(id_)} twice; give each its own")


def _read_conversation(entry: _Entry) -> Conversation:
    sessions = tuple(map(_read_session, entry.read_entries("sessions", "session_id")))
    ids = [message.id for session in sessions for message in session.messages]
    if not ids:
        raise entry.refuse("has no messages; there is nothing to ask about, leave it out")
    entry.check_ids("message id", ids)
    known = set(ids)
    questions = tuple(_read_question(asked, known) for asked in entry.read_entries("questions", "id"))
    return Conversation(id=entry.id, sessions=sessions, questions=questions)


def _read_session(entry: _Entry) -> SessionLog:
    started = entry.read_moment("started_at") if entry.data.get("started_at") is not None else None
    messages = enumerate(entry.read_entries("messages", "id"))
    return SessionLog(id=entry.id, messages=tuple(_read_message(m, started, i) for i, m in messages))


def _read_message(entry: _Entry, started: datetime | None, place: int) -> Message:
    body = {field: entry.data[field] for field in _MESSAGE_FIELDS if entry.data.get(field) is not None}
    try:
        if entry.data.get("created_at") is not None:
            created_at = entry.read_moment("created_at")
        elif started is not None:
            created_at = started + place * _MESSAGE_INTERVAL
        else:
            raise entry.refuse("has no created_at and its session no started_at; add one of them")
        if "content" not in body and "tool_calls" not in body:
            raise entry.refuse("has no content; add the words, or leave the message out")
        return Message.from_openai(body, id=entry.id, created_at=created_at)
    except (InputError, OverflowError) as error:
        raise ImportFailed(f"{entry.where}: {error}") from error


def _read_question(entry: _Entry, message_ids: set[str]) -> Question:
    text = entry.read_text("question")
    if not text.strip():
        raise entry.refuse("has no question; say what is asked")
    mode, abstain = entry.data.get("evidence_mode") or "all", entry.data.get("abstain") or False
    if mode not in ("any", "all"):
        raise entry.refuse(f'has evidence_mode {_shown(mode)}; it is "any", "all" or left out')
    if not isinstance(abstain, bool):
        raise entry.refuse(f"has abstain {_shown(abstain)}; it is true, false or left out")
    kind = entry.read_text("kind", optional=True)
    return Question(
        id=entry.id,
        text=text,
        asked_at=entry.read_moment("asked_at"),
        answer=entry.read_text("answer", optional=True),
        evidence=_read_message_ids(entry, "evidence", message_ids),
        one_is_enough=mode == "any",
        stale=_read_message_ids(entry, "stale", message_ids),
        category=entry.read_text("category", optional=True) or kind or _NO_CATEGORY,
        kind=kind,
        abstain=abstain,
    )


def _read_message_ids(entry: _Entry, field: str, message_ids: set[str]) -> tuple[str, ...]:
    ids = entry.read_list(field) if entry.data.get(field) is not None else []
    for id_ in ids:
        if not isinstance(id_, str) or id_ not in message_ids:
            unknown = f"names {_shown(id_)} as {field}, which is no message of its conversation"
            raise entry.refuse(f"{unknown}; name ids of messages there")
    return tuple(dict.fromkeys(ids))


def _shown(value: object) -> str:
    return "nothing" if value is None else short_repr(value)


def _describe(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = {str: "text", list: "a list", Mapping: "an object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "a number")
