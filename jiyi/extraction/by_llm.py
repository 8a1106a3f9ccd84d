"""Reading conversations by a language model, and by patterns where it fails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal

from jiyi.errors import BadReply, LLMError
from jiyi.extraction.reading import extract
from jiyi.extraction.statement import Statement
from jiyi.llm import LLM, ask_json
from jiyi.prompts import Language, load_prompt, quote
from jiyi.records import Fact, FactCategory, Message
from jiyi.text import Secrecy, analyse, counter_for, entity_key
from jiyi.text import language as language_of

__all__ = ["Reading", "extract_with", "first_stretch", "read_by_llm"]

_STRETCH_MESSAGES, _STRETCH_TOKENS = 20, 4_000  # that are read by one call
_MESSAGE_TOKENS = 1_000  # of one message that are shown
_MOST_CHARS = 20_000  # of a message that are looked at before its tokens are counted
_CONFIDENCE, _CONFIDENCE_OF_ASSISTANTS = 0.7, 0.45
_CATEGORIES: tuple[FactCategory, ...] = (
    "profile",
    "preference",
    "attribute",
    "decision",
    "relation",
    "plan",
    "todo",
)
_SELF = frozenset(
    {"i", "me", "myself", "user", "the user", "speaker", "the speaker", "我", "用户", "说话人", "本人"}
)
_NONE = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read in a conversation, and how."""

    statements: tuple[Statement, ...] = ()  # in the order they were said
    topics: tuple[str, ...] = ()  # what it is about; only a model tells
    conclusions: tuple[str, ...] = ()  # what was agreed; only a model tells
    refused: int = 0  # statements of the model that the messages do not hold
    method: Literal["llm", "patterns"] = "patterns"  # "llm" where the model read at least a part
    notes: tuple[str, ...] = ()  # why the model did not read all of it


def extract_with(
    llm: LLM | None,
    messages: Sequence[Message],
    language: Language | Literal["auto"] = "auto",
    *,
    known: Sequence[Fact] = (),
    zone: tzinfo = UTC,
    answer_tokens: int = 2_000,
) -> Reading:
    """Return what messages of a conversation state, read by a model stretch by stretch.

    Where the model fails, that stretch is read by `extract`, and a note says why; a model that
    cannot be reached is asked once. Outputs of tools are read by `extract` in any case.

    Args:
        llm: the model; None: `extract` reads all.
        messages: saved messages, oldest first; those without a date are passed over.
        language, known, zone, answer_tokens: see `read_by_llm`.
    """
    dated = [message for message in messages if message.created_at and message.text.strip()]
    talk = [message for message in dated if message.role in ("user", "assistant")]
    read = [_by_patterns([message for message in dated if message.role == "tool"], zone)]
    reason = "" if llm is not None else "no language model is set"
    before: Sequence[Message] = ()
    while talk:
        count = first_stretch(talk)
        stretch, talk = talk[:count], talk[count:]
        if llm is None or reason:
            read.append(_by_patterns(stretch, zone, reason))
            continue
        try:
            answer = read_by_llm(
                llm, stretch, language, known=known, before=before, zone=zone, answer_tokens=answer_tokens
            )
            read.append(answer)
        except LLMError as error:
            note = f"the language model read nothing: {error}"
            read.append(_by_patterns(stretch, zone, note))
            reason = "" if isinstance(error, BadReply) else note
        before = stretch[-2:]
    return Reading(
        statements=tuple(
            sorted((one for part in read for one in part.statements), key=lambda one: one.said_at)
        ),
        topics=tuple(dict.fromkeys(topic for part in read for topic in part.topics)),
        conclusions=tuple(dict.fromkeys(one for part in read for one in part.conclusions)),
        refused=sum(part.refused for part in read),
        method="llm" if any(part.method == "llm" for part in read) else "patterns",
        notes=tuple(dict.fromkeys(note for part in read for note in part.notes)),
    )


def first_stretch(
    messages: Sequence[Message], most: int = _STRETCH_MESSAGES, tokens: int = _STRETCH_TOKENS
) -> int:
    """Return how many of the first messages one call reads: at least one."""
    room = tokens
    for count, message in enumerate(messages[:most]):
        room -= min(counter_for("o200k_base").count_text(message.text[:_MOST_CHARS]), _MESSAGE_TOKENS)
        if room < 0:
            return max(count, 1)
    return min(len(messages), most)


def read_by_llm(
    llm: LLM,
    messages: Sequence[Message],
    language: Language | Literal["auto"] = "auto",
    *,
    known: Sequence[Fact] = (),
    before: Sequence[Message] = (),
    zone: tzinfo = UTC,
    answer_tokens: int = 2_000,
) -> Reading:
    """Return what one stretch of talk states, read by a model.

    - Costs one call, and one more where the first answer does not fit the schema.
    - Messages are quoted as data; what they say is no instruction to the model. Secrets in them
      are hidden. Of a message the first 1,000 tokens are shown.
    - Each statement comes with words of its message, which must stand there letter by letter, and
      its value must be in them or in the message before; what fails is left out and counted.

    Args:
        llm: the model.
        messages: dated messages of users and assistants, oldest first.
        language: of the prompt; "auto": as most of the text.
        known: facts that a statement may take the place of: the model is shown them, and where it
            names one, the statement is about that one's point. Whether it holds is for others to judge.
        before: what was said just before, to understand the first of them by.
        zone: the days of the calendar are days there.
        answer_tokens: most tokens of an answer of the model.

    Raises:
        LLMError: the model gave no usable answer.
    """
    words = "\n".join(message.text[:1_000] for message in messages)
    spoken: Language = language_of(words) if language == "auto" else language
    hide = Secrecy("", (), spoken)
    shown = "\n\n".join(
        f"[{place}] {_when(message, zone)}\n{_said(message, hide)}"
        for place, message in enumerate(messages, 1)
    )
    prompt = load_prompt("extract_facts", spoken).substitute(
        messages=shown,
        before="\n".join(_said(message, hide) for message in before) or _NONE,
        known="\n".join(
            f"[{place}]\n{quote(hide(fact.line, fact.text))}" for place, fact in enumerate(known, 1)
        )
        or _NONE,
    )
    schema = _schema(len(messages), len(known))
    asked = [{"role": "user", "content": prompt}]
    answer = ask_json(llm, asked, schema, language=spoken, max_tokens=answer_tokens)
    return _Answer(answer, messages, before, known, zone).reading()


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


def _when(message: Message, zone: tzinfo) -> str:
    return message.created_at.astimezone(zone).strftime("%Y-%m-%d %H:%M %a") if message.created_at else ""


def _said(message: Message, hide: Secrecy) -> str:
    text = hide(message.text[:_MOST_CHARS].strip())
    return quote(f"{_speaker(message)}: {counter_for('o200k_base').truncate(text, _MESSAGE_TOKENS)}")


def _speaker(message: Message) -> str:
    return " ".join((message.name or message.role).split())[:80]


def _schema(messages: int, known: int) -> dict[str, Any]:
    text = {"type": "string", "maxLength": 300}
    fact = {
        "message": {"type": "integer", "minimum": 1, "maximum": messages},
        "quote": {"type": "string", "minLength": 1, "maxLength": 500},
        "subject": {"type": "string", "minLength": 1, "maxLength": 80},
        "predicate": {"type": "string", "minLength": 1, "maxLength": 60},
        "object": {"type": "string", "minLength": 1, "maxLength": 300},
        "category": {"type": "string", "enum": list(_CATEGORIES)},
        "action": {"type": "string", "enum": ["state", "retract"]},
        "replaces": {"type": "integer", "minimum": 0, "maximum": known},
        "from": text,
        "until": text,
    }
    name = {"name": text, "also": {"type": "array", "items": text, "maxItems": 5}}
    lists = {
        "facts": _list(fact, [key for key in fact if key not in ("from", "until")], 40),
        "entities": _list(name, ["name", "also"], 20),
        "topics": {"type": "array", "items": text, "maxItems": 5},
        "conclusions": {"type": "array", "items": text, "maxItems": 10},
    }
    return {"type": "object", "properties": lists, "required": list(lists), "additionalProperties": False}


def _list(properties: dict[str, Any], required: list[str], most: int) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "array", "items": item, "maxItems": most}


class _Answer:
    """A model's answer about some messages, which may hold more than they do."""

    def __init__(
        self,
        answer: dict[str, Any],
        messages: Sequence[Message],
        before: Sequence[Message],
        known: Sequence[Fact],
        zone: tzinfo,
    ) -> None:
        self._answer = answer
        self._messages = messages
        self._known = known
        self._zone = zone
        self._words = [_terms([message.text]) for message in (*before[-1:], *messages)]
        self._named = _terms([*map(_speaker, messages), *(fact.subject for fact in known)])
        self._named = self._named.union(*self._words)
        self._refused = 0

    def reading(self) -> Reading:
        found = [*map(self._fact, self._answer["facts"]), *self._aliases()]
        statements = tuple(one for one in found if one is not None)
        everything = set[str]().union(*self._words)
        conclusions = [text for text in self._answer["conclusions"] if self._held(text, everything)]
        note = f"left out {self._refused} statements of the model that the messages do not hold"
        return Reading(
            statements=statements,
            topics=tuple(text.strip() for text in self._answer["topics"] if text.strip()),
            conclusions=tuple(conclusions),
            refused=self._refused,
            method="llm",
            notes=(note,) if self._refused else (),
        )

    def _fact(self, fact: dict[str, Any]) -> Statement | None:
        place = fact["message"] - 1
        message = self._messages[place]
        subject, predicate, value = (fact[name].strip() for name in ("subject", "predicate", "object"))
        if subject.casefold() in _SELF:
            subject = _named(message)
        words = _flat(fact["quote"])
        at = place + len(self._words) - len(self._messages)
        near = set[str]().union(*self._words[max(at - 1, 0) : at + 1])
        if not (subject and predicate and words and words in _flat(message.text)):
            self._refused += 1
            return None
        if not (self._held(value, near) and self._held(subject, self._named)):
            return None
        base = replace(_base(message), quote=words)
        old = self._replaced(fact["replaces"], message, subject, value)
        if fact["action"] == "retract":
            meant = old.line if old else f"{subject} {predicate} {value}"
            return replace(base, category="note", action="retract", quote=meant)
        begins, ends = self._day(fact.get("from", "")), self._day(fact.get("until", ""))
        if fact["category"] == "todo":
            begins, ends, predicate = begins or ends, None, "to-do"
        over = ends + timedelta(days=1) if ends else None
        return replace(
            base,
            category=old.category if old else fact["category"],
            subject=old.subject if old else subject,
            predicate=old.predicate if old else predicate,
            object=value,
            replaces=old.object if old and old.object != value else "",
            valid_from=begins,
            valid_to=over if over and over > (begins or base.said_at) else None,
        )

    def _replaced(self, number: int, message: Message, subject: str, value: str) -> Fact | None:
        """Return the known fact whose point a statement is about; None where that cannot be.

        It must be about the same subject, and an assistant's words end no statement of a user.
        """
        if not number:
            return None
        old = self._known[number - 1]
        same = entity_key(subject) == entity_key(old.subject) or subject.casefold() == old.subject.casefold()
        own = message.role == "user" or old.speaker == _named(message)
        return old if same and own and value else None

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
                            _base(holder),
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
        self._refused += 1
        return None

    def _held(self, value: str, words: set[str]) -> bool:
        """Return whether words hold at least half the terms of a value, and every number in it."""
        terms = set(analyse(value))
        numbers = {term for term in terms if any(letter.isdigit() for letter in term)}
        held = bool(terms) and 2 * len(terms & words) >= len(terms) and numbers <= words
        self._refused += not held
        return held

    def _day(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text.strip()[:10], "%Y-%m-%d").replace(tzinfo=self._zone)
        except ValueError:
            return None


def _base(message: Message) -> Statement:
    return Statement(
        quote=_flat(message.text)[:400],
        speaker=_named(message),
        said_at=message.created_at or datetime.now(UTC),
        source=message.id,
        confidence=_CONFIDENCE if message.role == "user" else _CONFIDENCE_OF_ASSISTANTS,
    )


def _named(message: Message) -> str:
    """Return whom a message's "I" means."""
    return message.name or message.role


def _flat(text: str) -> str:
    return " ".join(text.split())


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for term in analyse(text[:_MOST_CHARS])}
