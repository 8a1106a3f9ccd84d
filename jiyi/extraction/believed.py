"""What of a model's answer about messages is believed: what their own words say."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.forms import is_beyond
from jiyi.extraction.rules import meaning_of, rule_point
from jiyi.extraction.statement import Reading, Statement
from jiyi.records import Fact, FactCategory, Message
from jiyi.text import analyse, entity_key

__all__ = ["MOST_CHARS", "believed", "speaker_of"]

MOST_CHARS = 20_000
"""Characters of a message that are read."""

_CONFIDENCE, _CONFIDENCE_OF_ASSISTANTS = 0.7, 0.45
_SELF = frozenset({"i", "me", "myself", "speaker", "the speaker", "我", "说话人", "本人"})
_USER = frozenset({"user", "the user", "用户"})
_OF_ASSISTANTS: tuple[FactCategory, ...] = ("attribute", "decision", "relation")  # that are believed
# Letters and digits, save those of scripts that put no spaces between words.
_LETTER = r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
_IN_A_WORD = re.compile(rf"(?<={_LETTER})(?={_LETTER})|(?<=\d)(?=[.,:]\d)|(?<=\d[.,:])(?=\d)")


def believed(
    answer: dict[str, Any],
    messages: Sequence[Message],
    *,
    before: Sequence[Message] = (),
    known: Sequence[Fact] = (),
    zone: tzinfo = UTC,
) -> Reading:
    """Return what of a model's answer the messages hold; ``refused`` counts the rest.

    - A fact comes with words of its message. They must stand there letter by letter, white space
      aside, and neither end inside a word or number.
    - Every word of its value is in these, in the message before, or is the speaker's name. Every
      word of its subject is in a message, in a speaker's name, or the subject of a known fact.
    - An assistant takes nothing back, says nothing of those it talks with, and replaces nothing
      that somebody else said.
    - Two names are of one thing where one message has both.

    Args:
        answer: fits the schema of `read_by_llm`.
        messages: those it is about.
        before: what was said just before.
        known: the facts it was shown.
        zone: the days of the calendar are days there.
    """
    return _Answer(answer, messages, before, known, zone).reading()


def speaker_of(message: Message) -> str:
    """Return the name under which a message is shown to a model."""
    return " ".join((message.name or message.role).split())[:80]


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
        self._replied = [*before[-1:], *messages[:-1]] if before else [None, *messages[:-1]]
        self._known = known
        self._zone = zone
        self._replied_words = [_terms([replied.text]) if replied else set() for replied in self._replied]
        self._everything = _terms(message.text for message in messages)
        names = (*map(speaker_of, messages), *(fact.subject for fact in known))
        self._named = self._everything.union(_terms(names), *self._replied_words[:1])
        speakers = {_named(message) for message in (*before, *messages) if message.role == "user"}
        self._users = {entity_key(name) for name in speakers | _USER}
        self._refused = 0

    def reading(self) -> Reading:
        found = [*map(self._fact, self._answer["facts"]), *self._aliases()]
        statements = tuple(one for one in found if one is not None)
        conclusions = [text for text in self._answer["conclusions"] if self._concluded(text)]
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
        message, replied = self._messages[place], self._replied[place]
        subject, predicate, value = (fact[name].strip() for name in ("subject", "predicate", "object"))
        if subject.casefold() in (_SELF | _USER if message.role == "user" else _SELF):
            subject = _named(message)
        words = _flat(fact["quote"])
        own = _terms([words, speaker_of(message)])
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
            if message.role != "user" and self._users.intersection(map(entity_key, (name, other))):
                continue
            if all(_stands_in(one.casefold(), text) for one in (name, other)):
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
    place = text.find(words)
    while place >= 0:
        if not (_IN_A_WORD.match(text, place) or _IN_A_WORD.match(text, place + len(words))):
            return True
        place = text.find(words, place + 1)
    return False


def _holds(words: set[str], value: str) -> bool:
    terms = set(analyse(value))
    return bool(terms) and terms <= words


def _flat(text: str) -> str:
    return " ".join(text[:MOST_CHARS].split())


def _terms(texts: Iterable[str]) -> set[str]:
    return {term for text in texts for term in analyse(text[:MOST_CHARS])}
