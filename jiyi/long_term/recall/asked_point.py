"""Questions for one point (attribute) of one person or thing, and the facts that answer them.

"Where do I live?" shares no word with "we unpacked the last box in Leeds", but an active fact read from that
message states the current value. So the fact comes first, then its message.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from jiyi.long_term.facts.lookup import find_facts, user_scope
from jiyi.records import Fact, FactStatus, Scope
from jiyi.storage import Store
from jiyi.text.keys import entity_key, predicate_key
from jiyi.text.lexicon import fill_parts, read_toml

_MAX_QUESTION_CHARS = 120  # a longer text also states something
_MAX_FACTS = 200  # newest facts of a point that are read
_MAX_ANSWERS = 3
_ENDED: tuple[FactStatus, ...] = ("superseded", "expired")
_FIRST_PERSON = frozenset({"i", "we", "user", "my", "our", "我", "我们", "咱", "咱们", "用户"})
_relation_synonyms = cache(lambda: read_toml(__package__, "points")["told_as"])
_POSSESSIVE = re.compile(r"(?i:my|our) (?:\w+ )*|我们?家?的?")


@dataclass(frozen=True, slots=True)
class AskedPoint:
    """The point that a question asks for, and of whom."""

    points: tuple[str, ...]  # predicates, any of which answers
    name: str = ""  # whose; "" for the asker's own, or with a relation
    relation: str = ""  # of the person to the asker: "sister", 老婆


def find_asked_point(text: str) -> AskedPoint | None:
    """Return the point that a question asks for; None for most questions."""
    if len(text) > _MAX_QUESTION_CHARS:
        return None
    plain = text.replace("’", "'")
    for predicates, pattern in _question_patterns(plain.isascii()):
        if match := pattern.search(plain):
            points = predicates or (match["point"],)  # named in the question: "What port is staging db on?"
            whose = match["who"].strip().removesuffix("'s")
            if whose.casefold() in _FIRST_PERSON:
                return AskedPoint(points)
            if possessive := _POSSESSIVE.match(whose):
                last = whose[possessive.end() :]  # "my daughter Lucia" is called Lucia
                return AskedPoint(points, name=last) if last.istitle() else AskedPoint(points, relation=last)
            return AskedPoint(points, name=whose)
    return None


@cache
def _question_patterns(english_only: bool) -> Sequence[tuple[tuple[str, ...], re.Pattern[str]]]:
    """Return pairs of predicates and the pattern of questions for them, English first."""
    table = read_toml(__package__, "points")
    return [
        (tuple(row["points"]), re.compile(fill_parts(pattern, table["parts"][language]), re.I))
        for row in table["point"]
        for language in (["en"] if english_only else ["en", "zh"])
        for pattern in row[language]
    ]


def find_answers(store: Store, scope: Scope, asked: AskedPoint, now: datetime) -> list[Fact]:
    """Return the active facts that answer, newest first, at most three; none if several people say "I"."""
    wanted = (*asked.points, *_relation_predicates(asked.relation))
    facts = find_facts(store, user_scope(scope), predicate=wanted, fact_status=("active",), limit=_MAX_FACTS)
    facts = [f for f in facts if (f.valid_from or now) <= now and not (f.valid_to and f.valid_to <= now)]
    keys = set(map(predicate_key, asked.points))
    of_point = [fact for fact in facts if predicate_key(fact.predicate) in keys]
    if asked.name:
        answers = [fact for fact in of_point if entity_key(fact.subject) == entity_key(asked.name)]
    elif asked.relation:
        answers = _facts_of_relation(asked.relation, facts, of_point, asks_name=predicate_key("name") in keys)
    else:
        answers = [fact for fact in of_point if _is_about_speaker(fact)]
        if len({fact.subject for fact in answers}) > 1:
            return []
    return answers[:_MAX_ANSWERS]


def is_partly_outdated(store: Store, fact: Fact) -> bool:
    """Return whether another fact of the message that a fact was read from has ended."""
    source, scope = fact.sources[-1:], user_scope(fact.scope)
    return bool(source) and bool(find_facts(store, scope, sources=source, fact_status=_ENDED, limit=1))


def _facts_of_relation(
    relation: str, facts: Sequence[Fact], of_point: Sequence[Fact], *, asks_name: bool
) -> list[Fact]:
    """Return the facts about the asker's relative: "sister", 老婆.

    ``of_point`` are those of ``facts`` about the asked point. If the name is asked for, facts that say who
    the relative is answer as well.
    """
    keys = set(map(predicate_key, _relation_predicates(relation)))
    relatives = [fact for fact in facts if predicate_key(fact.predicate) in keys and _is_about_speaker(fact)]
    names = {entity_key(fact.object) for fact in relatives}
    suffix = re.compile(rf"(?i:'s |的|我|\bmy ){re.escape(relation)}\Z")
    about = [fact for fact in of_point if entity_key(fact.subject) in names or suffix.search(fact.subject)]
    return about or (relatives if asks_name else [])


def _relation_predicates(relation: str) -> tuple[str, ...]:
    """Return the predicates under which a relative may be stored: a son also as a child."""
    return tuple(f"{relation} {_relation_synonyms().get(relation, '')}".split())


def _is_about_speaker(fact: Fact) -> bool:
    return fact.subject in (fact.speaker, "user")
