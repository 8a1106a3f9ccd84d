"""Reading conversations by a language model, and by patterns where it fails."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal

from jiyi.errors import BadReply, LLMError
from jiyi.extraction.reading import extract
from jiyi.extraction.statement import Statement
from jiyi.llm import LLM, ask_json
from jiyi.prompts import Language, load_prompt, quote
from jiyi.records import FactCategory, Message
from jiyi.text import analyse, counter_for
from jiyi.text import language as language_of

__all__ = ["Reading", "extract_with"]

_BATCH = 20  # messages in one prompt
_MESSAGE_TOKENS = 250  # of each of them that are shown
_MOST_CHARS = 20_000  # of a message that are looked at before its tokens are counted
_CONFIDENCE = 0.7
_CATEGORIES: tuple[FactCategory, ...] = (
    "profile",
    "preference",
    "attribute",
    "decision",
    "relation",
    "plan",
)
_SELF = frozenset(
    {"i", "me", "myself", "user", "the user", "speaker", "the speaker", "我", "用户", "说话人", "本人"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read in a conversation, and how."""

    statements: tuple[Statement, ...] = ()  # in the order they were said
    topics: tuple[str, ...] = ()  # what it is about; only a model tells
    conclusions: tuple[str, ...] = ()  # what was agreed; only a model tells
    method: Literal["llm", "patterns"] = "patterns"  # "llm" where the model read at least a part
    notes: tuple[str, ...] = ()  # why the model did not read all of it


def extract_with(
    llm: LLM | None,
    messages: Sequence[Message],
    language: Language | Literal["auto"] = "auto",
    *,
    zone: tzinfo = UTC,
    answer_tokens: int = 2_000,
) -> Reading:
    """Return what messages of a conversation state, read by a model.

    - Messages are quoted as data; what they say is no instruction to the model.
    - The model answers by a JSON schema, checked, with one try to mend. What an answer
      holds that the messages do not is left out.
    - Costs one call for every 20 messages of users and assistants. Where it fails, those messages
      are read by `extract`, and a note says why; a model that cannot be reached is asked once.

    Args:
        llm: the model; None: `extract` reads all.
        messages: saved messages, oldest first; those without a date are passed over.
        language: of the prompt; "auto": as most of the text.
        zone: the days of the calendar are days there.
        answer_tokens: most tokens of an answer of the model.
    """
    dated = [message for message in messages if message.created_at and message.text.strip()]
    talk = [message for message in dated if message.role in ("user", "assistant")]
    rest = [message for message in dated if message.role == "tool"]
    read = [_by_patterns(rest, zone)]
    reason = "" if llm is not None else "no language model is set"
    for start in range(0, len(talk), _BATCH):
        batch = talk[start : start + _BATCH]
        if llm is None or reason:
            read.append(_by_patterns(batch, zone, reason))
            continue
        try:
            read.append(_by_llm(llm, batch, language, zone, answer_tokens))
        except LLMError as error:
            note = f"the language model read nothing: {error}"
            read.append(_by_patterns(batch, zone, note))
            reason = "" if isinstance(error, BadReply) else note
    return Reading(
        statements=tuple(
            sorted((one for part in read for one in part.statements), key=lambda one: one.said_at)
        ),
        topics=tuple(dict.fromkeys(topic for part in read for topic in part.topics)),
        conclusions=tuple(dict.fromkeys(one for part in read for one in part.conclusions)),
        method="llm" if any(part.method == "llm" for part in read) else "patterns",
        notes=tuple(dict.fromkeys(note for part in read for note in part.notes)),
    )


def _by_patterns(messages: Sequence[Message], zone: tzinfo, reason: str = "") -> Reading:
    found = [
        replace(statement, source=message.id)
        for message in messages
        for statement in extract(
            message.text,
            speaker=message.name,
            role=message.role,
            said_at=message.created_at or datetime.now(UTC),
            zone=zone,
        )
    ]
    return Reading(statements=tuple(found), notes=(reason,) if reason and messages else ())


def _by_llm(
    llm: LLM,
    messages: Sequence[Message],
    language: Language | Literal["auto"],
    zone: tzinfo,
    answer_tokens: int,
) -> Reading:
    words = "\n".join(message.text[:1_000] for message in messages)
    spoken: Language = language_of(words) if language == "auto" else language
    shown = "\n\n".join(_shown(place, message, zone) for place, message in enumerate(messages, 1))
    prompt = load_prompt("extract_facts", spoken).substitute(messages=shown)
    asked = [{"role": "user", "content": prompt}]
    answer = ask_json(llm, asked, _schema(len(messages)), language=spoken, max_tokens=answer_tokens)
    return _Answer(answer, messages, zone).reading()


def _shown(place: int, message: Message, zone: tzinfo) -> str:
    when = message.created_at.astimezone(zone).strftime("%Y-%m-%d %H:%M %a") if message.created_at else ""
    text = counter_for("o200k_base").truncate(message.text[:_MOST_CHARS].strip(), _MESSAGE_TOKENS)
    return f"[{place}] {when}\n{quote(f'{_speaker(message)}: {text}')}"


def _speaker(message: Message) -> str:
    return " ".join((message.name or message.role).split())[:80]


def _schema(count: int) -> dict[str, Any]:
    text = {"type": "string", "maxLength": 300}
    number = {"type": "integer", "minimum": 1, "maximum": count}
    fact = {
        "message": number,
        "subject": {"type": "string", "minLength": 1, "maxLength": 80},
        "predicate": {"type": "string", "minLength": 1, "maxLength": 60},
        "object": {"type": "string", "minLength": 1, "maxLength": 300},
        "category": {"type": "string", "enum": list(_CATEGORIES)},
        "action": {"type": "string", "enum": ["state", "retract"]},
        "from": text,
        "until": text,
    }
    lists = {
        "facts": _list(fact, ["message", "subject", "predicate", "object", "category", "action"], 40),
        "entities": _list(
            {("name"): text, "also": {"type": "array", "items": text, "maxItems": 5}}, ["name", "also"], 20
        ),
        "todos": _list({"message": number, "text": text, "due": text}, ["message", "text"], 20),
        "topics": {"type": "array", "items": text, "maxItems": 5},
        "conclusions": {"type": "array", "items": text, "maxItems": 10},
    }
    return {"type": "object", "properties": lists, "required": list(lists), "additionalProperties": False}


def _list(properties: dict[str, Any], required: list[str], most: int) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "array", "items": item, "maxItems": most}


class _Answer:
    """A model's answer about some messages, which may hold more than they do."""

    def __init__(self, answer: dict[str, Any], messages: Sequence[Message], zone: tzinfo) -> None:
        self._answer = answer
        self._messages = messages
        self._zone = zone
        self._words = {term for message in messages for term in analyse(message.text[:_MOST_CHARS])}
        self._names = {term for message in messages for term in analyse(_speaker(message))}
        self._invented = 0

    def reading(self) -> Reading:
        found = [
            *(self._fact(fact) for fact in self._answer["facts"]),
            *(self._todo(todo) for todo in self._answer["todos"]),
            *self._aliases(),
        ]
        conclusions = tuple(text for text in self._answer["conclusions"] if self._held(text))
        topics = tuple(text.strip() for text in self._answer["topics"] if text.strip())
        note = f"left out {self._invented} statements of the model that the messages do not hold"
        return Reading(
            statements=tuple(one for one in found if one is not None),
            topics=topics,
            conclusions=conclusions,
            method="llm",
            notes=(note,) if self._invented else (),
        )

    def _fact(self, fact: dict[str, Any]) -> Statement | None:
        message = self._messages[fact["message"] - 1]
        subject, predicate, value = (fact[name].strip() for name in ("subject", "predicate", "object"))
        if subject.casefold() in _SELF:
            subject = message.name or "user"
        if not (subject and predicate and self._held(value) and self._held(subject, self._names)):
            return None
        base = self._base(message)
        if fact["action"] == "retract":
            return replace(base, category="note", action="retract", quote=f"{subject} {predicate} {value}")
        begins, ends = self._day(fact.get("from", "")), self._day(fact.get("until", ""))
        return replace(
            base,
            category=fact["category"],
            subject=subject,
            predicate=predicate,
            object=value,
            valid_from=begins,
            valid_to=ends + timedelta(days=1)
            if ends and ends + timedelta(days=1) > (begins or base.said_at)
            else None,
        )

    def _todo(self, todo: dict[str, Any]) -> Statement | None:
        message = self._messages[todo["message"] - 1]
        text = todo["text"].strip()
        if not text or not self._held(text):
            return None
        due = self._day(todo.get("due", ""))
        return replace(
            self._base(message),
            category="todo",
            subject=message.name or "user",
            predicate="to-do",
            object=text,
            valid_from=due if due and due > self._base(message).said_at else None,
        )

    def _aliases(self) -> list[Statement]:
        found: list[Statement] = []
        for entity in self._answer["entities"]:
            name = entity["name"].strip()
            for other in entity["also"]:
                both = name and other.strip() and other.strip().casefold() != name.casefold()
                holder = self._with(name, other.strip()) if both else None
                if holder is not None:
                    found.append(
                        replace(
                            self._base(holder),
                            category="relation",
                            subject=other.strip(),
                            predicate="alias",
                            object=name,
                            action="rename",
                        )
                    )
        return found

    def _with(self, name: str, other: str) -> Message | None:
        """Return the first message in which both names stand: only that makes them names of one thing."""
        for message in self._messages:
            text = message.text.casefold()
            if name.casefold() in text and other.casefold() in text:
                return message
        self._invented += 1
        return None

    def _base(self, message: Message) -> Statement:
        return Statement(
            quote=" ".join(message.text.split())[:400],
            speaker=message.name or "user",
            said_at=message.created_at or datetime.now(UTC),
            source=message.id,
            confidence=_CONFIDENCE,
        )

    def _held(self, value: str, more: set[str] | frozenset[str] = frozenset()) -> bool:
        """Return whether at least half the terms of a value are in the messages."""
        terms = set(analyse(value))
        held = bool(terms) and 2 * len(terms & (self._words | more)) >= len(terms)
        self._invented += not held
        return held

    def _day(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text.strip()[:10], "%Y-%m-%d").replace(tzinfo=self._zone)
        except ValueError:
            return None
