"""Reading conversations by a language model, and without one where it fails."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from importlib.resources import files
from typing import Any

from jiyi.errors import BadReply, LLMError
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.forms import is_beyond
from jiyi.extraction.reading import extract_message
from jiyi.extraction.rules import meaning_of, rule_point
from jiyi.extraction.statement import Reading, Statement
from jiyi.llm import LLM, ask_json
from jiyi.prompts import load_prompt, quote
from jiyi.records import Fact, FactCategory, Message
from jiyi.text import Secrecy, analyse, counter_for, entity_key
from jiyi.text import language as language_of

__all__ = ["extract_with", "first_stretch", "read_by_llm"]

_STRETCH_MESSAGES, _STRETCH_TOKENS = 20, 4_000  # that are read by one call
_MESSAGE_TOKENS = 1_000  # of one message that are shown
_ANSWER_TOKENS = 2_000  # of an answer, at most
_NONE = "-"
_MOST_CHARS = 20_000  # characters of a message that are read
_CONFIDENCE, _CONFIDENCE_OF_ASSISTANTS = 0.7, 0.45
_SELF = frozenset({"i", "me", "myself", "speaker", "the speaker", "我", "说话人", "本人"})
_USER = frozenset({"user", "the user", "用户"})
_OF_ASSISTANTS: tuple[FactCategory, ...] = ("attribute", "decision", "relation")  # that are believed
# Letters and digits, save those of scripts that put no spaces between words.
_LETTER = r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
_IN_A_WORD = re.compile(rf"(?<={_LETTER})(?={_LETTER})|(?<=\d)(?=[.,:]\d)|(?<=\d[.,:])(?=\d)")


def extract_with(
    llm: LLM | None, messages: Sequence[Message], *, known: Sequence[Fact] = (), zone: tzinfo = UTC
) -> Reading:
    """Return what messages of a conversation state, read by a model stretch by stretch.

    Where the model fails, that stretch is read by `extract`, and a note says why; a model that
    cannot be reached is asked once. Without one, and outputs of tools in any case, `extract` reads.

    Args:
        llm, known, zone: see `read_by_llm`.
        messages: saved messages, oldest first; those without a date are passed over.
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
            read.append(read_by_llm(llm, stretch, known=known, before=before, zone=zone))
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
    *,
    known: Sequence[Fact] = (),
    before: Sequence[Message] = (),
    zone: tzinfo = UTC,
) -> Reading:
    """Return what one stretch of talk states, read by a model.

    - Costs one call, and one more where the first answer does not fit the schema.
    - Messages are quoted as data; what they say is no instruction to the model. Secrets in them
      are hidden. Of a message the first 1,000 tokens are shown.
    - Believed is what words of its message say: see `_Answer`. The rest is counted.

    Args:
        llm: the model; asked in the language of most of the text.
        messages: dated messages of users and assistants, oldest first.
        known: facts that a statement may take the place of: the model is shown them, and where it
            names one, the statement is about that one's point. Whether it holds is for others to judge.
        before: what was said just before, to understand the first of them by.
        zone: the days of the calendar are days there.

    Raises:
        LLMError: the model gave no usable answer.
    """
    spoken = language_of("\n".join(message.text[:1_000] for message in messages))
    hide = Secrecy("", (), spoken)
    shown = "\n\n".join(
        f"[{place}] {_when(message, zone)}\n{_said(message, hide)}"
        for place, message in enumerate(messages, 1)
    )
    lines = [f"[{place}]\n{quote(hide(fact.line, fact.text))}" for place, fact in enumerate(known, 1)]
    prompt = load_prompt("extract_facts", spoken).substitute(
        messages=shown,
        before="\n".join(_said(message, hide) for message in before) or _NONE,
        known="\n".join(lines) or _NONE,
    )
    schema = _schema(len(messages), len(known))
    asked = [{"role": "user", "content": prompt}]
    answer = ask_json(llm, asked, schema, language=spoken, max_tokens=_ANSWER_TOKENS)
    return _Answer(answer, messages, before, known, zone).reading()


def _by_patterns(messages: Sequence[Message], zone: tzinfo, reason: str = "") -> Reading:
    found = [statement for message in messages for statement in extract_message(message, zone)]
    return Reading(statements=tuple(found), notes=(reason,) if reason and messages else ())


def _when(message: Message, zone: tzinfo) -> str:
    return message.created_at.astimezone(zone).strftime("%Y-%m-%d %H:%M %a") if message.created_at else ""


def _said(message: Message, hide: Secrecy) -> str:
    text = hide(message.text[:_MOST_CHARS].strip())
    return quote(f"{_speaker_of(message)}: {counter_for('o200k_base').truncate(text, _MESSAGE_TOKENS)}")


def _schema(messages: int, known: int) -> dict[str, Any]:
    text = files(__package__).joinpath("answer.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    fact = schema["properties"]["facts"]["items"]["properties"]
    fact["message"]["maximum"] = messages
    fact["replaces"]["maximum"] = known
    return schema


class _Answer:
    """What of a model's answer the messages hold; ``refused`` counts the rest.

    - A fact comes with words of its message. They must stand there letter by letter, white space
      aside, and neither end inside a word or number.
    - Every word of its value is in these, in the message before, or is the speaker's name. Every
      word of its subject is in a message, in a speaker's name, or the subject of a known fact.
    - An assistant takes nothing back, says nothing of those it talks with, and replaces nothing
      that somebody else said.
    - Two names are of one thing where one message has both.

    The answer fits the schema of `read_by_llm`; the other arguments are those of the question.
    """

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
        self._replied = [*before[-1:], *messages[:-1]] if before else [None, *messages[:-1]]
        self._known = known
        self._zone = zone
        self._replied_words = [_terms([replied.text]) if replied else set() for replied in self._replied]
        self._everything = _terms(message.text for message in messages)
        names = (*map(_speaker_of, messages), *(fact.subject for fact in known))
        self._named = self._everything.union(_terms(names), *self._replied_words[:1])
        speakers = {_named(message) for message in (*before, *messages) if message.role == "user"}
        self._users = {entity_key(name) for name in speakers | _USER}
        self._refused = 0

    def reading(self) -> Reading:
        found = [*map(self._fact, self._answer["facts"]), *self._aliases()]
        conclusions = [text for text in self._answer["conclusions"] if self._concluded(text)]
        note = f"left out {self._refused} statements of the model that the messages do not hold"
        return Reading(
            statements=tuple(filter(None, found)),
            topics=tuple(text.strip() for text in self._answer["topics"] if text.strip()),
            conclusions=tuple(conclusions),
            refused=self._refused,
            method="llm",
            notes=(note,) if self._refused else (),
        )

    def _fact(self, fact: dict[str, Any]) -> Statement | None:
        place = fact["message"] - 1
        message, replied = self._messages[place], self._replied[place]
        subject, predicate, value = (fact[name].strip() for name in ("subject", "predicate", "object"))
        if subject.casefold() in (_SELF | _USER if message.role == "user" else _SELF):
            subject = _named(message)
        words = _flat(fact["quote"])
        own = _terms([words, _speaker_of(message)])
        held = (
            bool(subject and predicate and words)
            and _stands_in(words, _flat(message.text))
            and _holds(own | self._replied_words[place], value)
            and _holds(self._named, subject)
            and not is_beyond(words)
            and (message.role == "user" or self._for_assistants(fact, subject))
        )
        if not held:
            self._refused += 1
            return None
        answers = replied.id if replied and not _holds(own, value) else ""
        base = replace(_base(message), quote=words, replies_to=answers)
        old = self._replaced(fact["replaces"], message, subject)
        if fact["action"] == "retract":
            meant = old.line if old else f"{subject} {predicate} {value}"
            return replace(base, category="note", action="retract", quote=meant)
        begins, ends = self._day(fact.get("from", "")), self._day(fact.get("until", ""))
        if fact["category"] == "rule":  # kept in its own words, under the point that rules have
            meaning = meaning_of(words)
            point = "" if meaning.denies else next(iter(meaning.points), "")
            old, subject, value = None, _named(message), words
            predicate = rule_point(point, is_chinese(words))
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

    def _for_assistants(self, fact: dict[str, Any], subject: str) -> bool:
        """Return whether an assistant's word counts: it knows things, not whom it talks with."""
        says = fact["action"] == "state" and fact["category"] in _OF_ASSISTANTS
        return says and entity_key(subject) not in self._users

    def _replaced(self, number: int, message: Message, subject: str) -> Fact | None:
        """Return the known fact whose point a statement is about; None where that cannot be.

        It must be about the same subject and the same agent's, and an assistant's words end no
        statement of a user.
        """
        if not number:
            return None
        old = self._known[number - 1]
        same = entity_key(subject) == entity_key(old.subject) or subject.casefold() == old.subject.casefold()
        own = message.role == "user" or old.speaker == _named(message)
        agents = message.scope is None or message.scope.agent_id == old.scope.agent_id
        return old if same and own and agents else None

    def _aliases(self) -> list[Statement]:
        found: list[Statement] = []
        for entity in self._answer["entities"]:
            name = entity["name"].strip()
            for other in (other.strip() for other in entity["also"]):
                if not (name and other) or name.casefold() == other.casefold():
                    continue
                holder = self._with(name, other)
                if holder is None:
                    self._refused += 1
                    continue
                alias = replace(_base(holder), category="relation", action="rename")
                found.append(replace(alias, subject=other, predicate="alias", object=name))
        return found

    def _with(self, name: str, other: str) -> Message | None:
        """Return the first message in which both names stand: only that makes them names of one thing."""
        for message in self._messages:
            text = _flat(message.text).casefold()
            of_users = message.role != "user" and self._users.intersection(map(entity_key, (name, other)))
            if not of_users and all(_stands_in(one.casefold(), text) for one in (name, other)):
                return message
        return None

    def _concluded(self, text: str) -> bool:
        """Return whether the messages hold at least half the words of a sentence, and every number in it."""
        terms = set(analyse(text))
        numbers = {term for term in terms if any(letter.isdigit() for letter in term)}
        held = bool(terms) and 2 * len(terms & self._everything) >= len(terms) and numbers <= self._everything
        self._refused += not held
        return held

    def _day(self, text: str) -> datetime | None:
        try:
            return datetime.strptime(text.strip()[:10], "%Y-%m-%d").replace(tzinfo=self._zone)
        except ValueError:
            return None


def _speaker_of(message: Message) -> str:
    """Return the name under which a message is shown to a model."""
    return " ".join((message.name or message.role).split())[:80]


def _base(message: Message) -> Statement:
    return Statement(
        quote=_flat(message.text)[:400],
        speaker=_named(message),
        by_person=message.role == "user",
        said_at=message.created_at or datetime.now(UTC),
        source=message.id,
        confidence=_CONFIDENCE if message.role == "user" else _CONFIDENCE_OF_ASSISTANTS,
    )


def _named(message: Message) -> str:
    """Return whom a message's "I" means."""
    return message.name or message.role


def _stands_in(words: str, text: str) -> bool:
    """Return whether words stand in a text letter by letter, and neither end cuts a word or number."""
    places = (found.start() for found in re.finditer(f"(?={re.escape(words)})", text))
    return any(not (_IN_A_WORD.match(text, at) or _IN_A_WORD.match(text, at + len(words))) for at in places)


def _holds(words: set[str], value: str) -> bool:
    terms = set(analyse(value))
    return bool(terms) and terms <= words


def _flat(text: str) -> str:
    return " ".join(text[:_MOST_CHARS].split())


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for term in analyse(text[:_MOST_CHARS])}
