"""Reads the statements of a conversation with a language model, and by patterns if it fails."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.resources import files
from typing import Any

from jiyi.errors import BadReply, LLMError
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.forms import has_cue
from jiyi.extraction.reading import extract_message
from jiyi.extraction.rules import rule_meaning, rule_predicate
from jiyi.extraction.statement import Reading, Statement
from jiyi.llm import LLM, ask_json
from jiyi.prompts import load_prompt, quote
from jiyi.records import Fact, FactCategory, Message
from jiyi.telling import plural
from jiyi.text import Secrecy, analyse, counter_for, entity_key
from jiyi.text import language as language_of

__all__ = ["extract_with", "first_batch_size", "read_by_llm"]

_BATCH_MESSAGES, _BATCH_TOKENS = 20, 4_000  # of one call
_MESSAGE_TOKENS, _ANSWER_TOKENS = 1_000, 2_000  # shown of one message, of an answer at most
_EMPTY = "-"
_MAX_CHARS = 20_000  # that are read of a message
_CONFIDENCE, _ASSISTANT_CONFIDENCE = 0.7, 0.45
_SELF_NAMES = frozenset({"i", "me", "myself", "speaker", "the speaker", "我", "说话人", "本人"})
_USER_NAMES = frozenset({"user", "the user", "用户"})
_ASSISTANT_CATEGORIES: tuple[FactCategory, ...] = ("attribute", "decision", "relation")  # that they may state
# Letters and digits, except in scripts without spaces between words.
_LETTER = r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
_INSIDE_WORD = re.compile(rf"(?<={_LETTER})(?={_LETTER})|(?<=\d)(?=[.,:]\d)|(?<=\d[.,:])(?=\d)")


def extract_with(
    llm: LLM | None, messages: Sequence[Message], *, known: Sequence[Fact] = (), zone: tzinfo = UTC
) -> Reading:
    """Return the statements of dated messages, oldest first, read by a model batch by batch.

    A batch on which the model fails is read by `extract`, and a note says why; a model that cannot be
    reached is asked once. Without a model, and for tool outputs, `extract` reads.
    """
    dated = [message for message in messages if message.created_at and message.text.strip()]
    unread = [message for message in dated if message.role in ("user", "assistant")]
    readings = [_by_patterns([message for message in dated if message.role == "tool"], zone)]
    reason = "" if llm is not None else "no language model is set"
    before: Sequence[Message] = ()
    while unread:
        count = first_batch_size(unread)
        batch, unread = unread[:count], unread[count:]
        if llm is None or reason:
            readings.append(_by_patterns(batch, zone, reason))
            continue
        try:
            readings.append(read_by_llm(llm, batch, known=known, before=before, zone=zone))
        except LLMError as error:
            note = f"the language model read nothing: {error}"
            readings.append(_by_patterns(batch, zone, note))
            reason = "" if isinstance(error, BadReply) else note
        before = batch[-2:]
    statements = (statement for reading in readings for statement in reading.statements)
    return Reading(
        statements=tuple(sorted(statements, key=lambda statement: statement.said_at)),
        topics=tuple(dict.fromkeys(topic for reading in readings for topic in reading.topics)),
        conclusions=tuple(dict.fromkeys(item for reading in readings for item in reading.conclusions)),
        refused=sum(reading.refused for reading in readings),
        method="llm" if any(reading.method == "llm" for reading in readings) else "patterns",
        notes=tuple(dict.fromkeys(note for reading in readings for note in reading.notes)),
    )


def first_batch_size(
    messages: Sequence[Message], most: int = _BATCH_MESSAGES, tokens: int = _BATCH_TOKENS
) -> int:
    """Return how many of the first messages one call reads, at least one."""
    for count, message in enumerate(messages[:most]):
        tokens -= min(counter_for("o200k_base").count_text(message.text[:_MAX_CHARS]), _MESSAGE_TOKENS)
        if tokens < 0:
            return max(count, 1)
    return min(len(messages), most)


def read_by_llm(
    llm: LLM,  # asked in the language of most of the text
    messages: Sequence[Message],  # dated messages of users and assistants, oldest first
    *,
    known: Sequence[Fact] = (),  # shown to the model; a statement that names one is about its point
    before: Sequence[Message] = (),  # the messages just before, as context
    zone: tzinfo = UTC,  # of the days of the calendar
) -> Reading:
    """Return the statements of one batch of messages, read by a model.

    - Costs one call, and one more if the first answer does not fit the schema.
    - Messages are quoted as data, not as instructions, with their secrets hidden and up to 1,000 tokens.
    - Statements that the messages do not support are dropped and counted: see `_CheckedAnswer`.

    Raises:
        LLMError: the model gave no usable answer.
    """
    language = language_of("\n".join(message.text[:1_000] for message in messages))
    hide = Secrecy("", (), language)
    shown = "\n\n".join(
        f"[{place}] {said_at.astimezone(zone):%Y-%m-%d %H:%M %a}\n{_format_message(message, hide)}"
        for place, message in enumerate(messages, 1)
        if (said_at := message.created_at)
    )
    lines = [f"[{place}]\n{quote(hide(fact.line, fact.text))}" for place, fact in enumerate(known, 1)]
    prompt = load_prompt("extract_facts", language).substitute(
        messages=shown,
        before="\n".join(_format_message(message, hide) for message in before) or _EMPTY,
        known="\n".join(lines) or _EMPTY,
    )
    schema = json.loads(files(__package__).joinpath("answer.schema.json").read_text("utf-8"))
    fact = schema["properties"]["facts"]["items"]["properties"]
    fact["message"]["maximum"], fact["replaces"]["maximum"] = len(messages), len(known)
    conversation = [{"role": "user", "content": prompt}]
    answer = ask_json(llm, conversation, schema, language=language, max_tokens=_ANSWER_TOKENS)
    return _CheckedAnswer(answer, messages, before, known, zone).reading()


def _by_patterns(messages: Sequence[Message], zone: tzinfo, reason: str = "") -> Reading:
    found = [statement for message in messages for statement in extract_message(message, zone)]
    return Reading(statements=tuple(found), notes=(reason,) if reason and messages else ())


def _format_message(message: Message, hide: Secrecy) -> str:
    text = hide(message.text[:_MAX_CHARS].strip())
    return quote(f"{_shown_speaker(message)}: {counter_for('o200k_base').truncate(text, _MESSAGE_TOKENS)}")


@dataclass(eq=False)
class _CheckedAnswer:
    """The part of a model's answer that the messages support; ``refused`` counts the rest.

    - A fact quotes its message letter by letter, white space aside, and cuts no word or number.
    - Every word of its value is in the quote, in the previous message, or in the speaker's name. Every
      word of its subject is in a message, in a speaker's name, or in the subject of a known fact.
    - An assistant retracts nothing, states nothing about users, and replaces only what it said itself.
    - Two names mean the same thing only if one message has both.

    The answer fits the schema of `read_by_llm`; the other arguments are those of the request.
    """

    answer: dict[str, Any]
    messages: Sequence[Message]
    before: Sequence[Message]
    known: Sequence[Fact]
    zone: tzinfo

    def __post_init__(self) -> None:
        messages, before, known = self.messages, self.before, self.known
        self._replied = [*before[-1:], *messages[:-1]] if before else [None, *messages[:-1]]
        self._replied_terms = [_terms([replied.text]) if replied else set() for replied in self._replied]
        self._all_terms = _terms(message.text for message in messages)
        names = (*map(_shown_speaker, messages), *(fact.subject for fact in known))
        self._subject_terms = self._all_terms.union(_terms(names), *self._replied_terms[:1])
        speakers = {message.speaker for message in (*before, *messages) if message.role == "user"}
        self._users = {entity_key(name) for name in speakers | _USER_NAMES}
        self._refused = 0

    def reading(self) -> Reading:
        found = [*map(self._check_fact, self.answer["facts"]), *self._aliases()]
        note = "left out {} of the model that the messages do not hold"  # counted while it is read
        return Reading(
            statements=tuple(filter(None, found)),
            topics=tuple(text.strip() for text in self.answer["topics"] if text.strip()),
            conclusions=tuple(filter(self._is_supported, self.answer["conclusions"])),
            refused=self._refused,
            method="llm",
            notes=(note.format(plural(self._refused, "statement")),) if self._refused else (),
        )

    def _check_fact(self, fact: dict[str, Any]) -> Statement | None:
        place = fact["message"] - 1
        message, replied = self.messages[place], self._replied[place]
        subject, predicate, value = (fact[name].strip() for name in ("subject", "predicate", "object"))
        if subject.casefold() in (_SELF_NAMES | _USER_NAMES if message.role == "user" else _SELF_NAMES):
            subject = message.speaker
        words = _collapse_spaces(fact["quote"])
        own_terms = _terms([words, _shown_speaker(message)])
        supported = (
            bool(subject and predicate and words)
            and _occurs_in(words, _collapse_spaces(message.text))
            and _covers(own_terms | self._replied_terms[place], value)
            and _covers(self._subject_terms, subject)
            and not has_cue("unmeant.beyond", words)
            and (message.role == "user" or self._assistant_may_state(fact, subject))
        )
        if not supported:
            self._refused += 1
            return None
        replies_to = replied.id if replied and not _covers(own_terms, value) else ""
        base = replace(_base_statement(message), quote=words, replies_to=replies_to)
        old = self._find_replaced(fact["replaces"], message, subject)
        if fact["action"] == "retract":
            retracted = old.line if old else f"{subject} {predicate} {value}"
            return replace(base, category="note", action="retract", quote=retracted)
        start, last_day = self._parse_day(fact.get("from", "")), self._parse_day(fact.get("until", ""))
        if fact["category"] == "rule":  # kept in its own words, under the point that rules have
            meaning = rule_meaning(words)
            point = "" if meaning.forbids else next(iter(meaning.points), "")
            old, subject, value = None, message.speaker, words
            predicate = rule_predicate(point, is_chinese(words))
        if fact["category"] == "todo":
            start, last_day, predicate = start or last_day, None, "to-do"
        end = last_day + timedelta(days=1) if last_day else None
        return replace(
            base,
            category=old.category if old else fact["category"],
            subject=old.subject if old else subject,
            predicate=old.predicate if old else predicate,
            object=value,
            replaces=old.object if old and old.object != value else "",
            valid_from=start,
            valid_to=end if end and end > (start or base.said_at) else None,
        )

    def _assistant_may_state(self, fact: dict[str, Any], subject: str) -> bool:
        """Return whether an assistant may state a fact: about things, not about users."""
        says = fact["action"] == "state" and fact["category"] in _ASSISTANT_CATEGORIES
        return says and entity_key(subject) not in self._users

    def _find_replaced(self, number: int, message: Message, subject: str) -> Fact | None:
        """Return the known fact that a statement is about; an assistant's is about none of a user's."""
        if not number:
            return None
        old = self.known[number - 1]
        same_subject = entity_key(subject) == entity_key(old.subject)
        may_replace = message.role == "user" or old.speaker == message.speaker
        same_agent = message.scope is None or message.scope.agent_id == old.scope.agent_id
        return old if same_subject and may_replace and same_agent else None

    def _aliases(self) -> list[Statement]:
        aliases: list[Statement] = []
        entities = self.answer["entities"]
        for name, other in ((one["name"].strip(), also.strip()) for one in entities for also in one["also"]):
            if not (name and other) or name.casefold() == other.casefold():
                continue
            if holder := self._message_with_both(name, other):
                alias = replace(_base_statement(holder), category="relation", action="rename")
                aliases.append(replace(alias, subject=other, predicate="alias", object=name))
            else:
                self._refused += 1
        return aliases

    def _message_with_both(self, name: str, other: str) -> Message | None:
        """Return the first message with both names: without one they may not mean the same thing."""
        for message in self.messages:
            text = _collapse_spaces(message.text).casefold()
            of_users = message.role != "user" and self._users.intersection(map(entity_key, (name, other)))
            if not of_users and all(_occurs_in(either.casefold(), text) for either in (name, other)):
                return message
        return None

    def _is_supported(self, text: str) -> bool:
        """Return whether the messages have at least half the words of a sentence and all its numbers."""
        terms = set(analyse(text))
        numbers = {term for term in terms if any(letter.isdigit() for letter in term)}
        supported = numbers <= self._all_terms and 2 * len(terms & self._all_terms) >= len(terms) > 0
        self._refused += not supported
        return supported

    def _parse_day(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text.strip()[:10], "%Y-%m-%d").replace(tzinfo=self.zone)
        except ValueError:
            return None


def _shown_speaker(message: Message) -> str:
    """Return the name by which a message's speaker is shown to the model."""
    return " ".join(message.speaker.split())[:80]


def _base_statement(message: Message) -> Statement:
    return Statement(
        quote=_collapse_spaces(message.text)[:400],
        speaker=message.speaker,
        by_person=message.role == "user",
        said_at=message.created_at or datetime.now(UTC),
        source=message.id,
        confidence=_CONFIDENCE if message.role == "user" else _ASSISTANT_CONFIDENCE,
    )


def _occurs_in(words: str, text: str) -> bool:
    """Return whether words occur in a text verbatim without cutting a word or number."""
    starts = (found.start() for found in re.finditer(f"(?={re.escape(words)})", text))
    inside = _INSIDE_WORD.match
    return any(not (inside(text, at) or inside(text, at + len(words))) for at in starts)


def _covers(words: set[str], value: str) -> bool:
    terms = set(analyse(value))
    return bool(terms) and terms <= words


def _collapse_spaces(text: str) -> str:
    return " ".join(text[:_MAX_CHARS].split())


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for term in analyse(text[:_MAX_CHARS])}
