"""Questions that ask for one point of one person ("Where do I live?"), and the facts that answer them.

An active fact says what the point is now, whatever words it was told in: "we unpacked the last box in
Leeds" shares none with the question. So the fact comes first, then the message it was read from.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from jiyi.long_term.facts.lookup import find_facts
from jiyi.long_term.facts.lookup import user_scope as wide
from jiyi.records import Fact, FactStatus, Scope
from jiyi.storage import Store
from jiyi.text.keys import entity_key, predicate_key
from jiyi.text.lexicon import fill_parts as filled
from jiyi.text.lexicon import read_toml

__all__ = ["AskedPoint", "asked_point", "holding", "is_in_part"]

_LONGEST = 120  # characters; a longer text tells something, too
_MOST = 200  # facts of a point that are looked at, the newest
_ANSWERS = 3  # facts that answer one question
_OVER: tuple[FactStatus, ...] = ("superseded", "expired")
_OWN = frozenset({"i", "we", "user", "my", "our", "我", "我们", "咱", "咱们", "用户"})
_told_as = cache(lambda: read_toml(__package__, "points")["told_as"])
_MINE = re.compile(r"(?i:my|our) (?:\w+ )*|我们?家?的?")


@dataclass(frozen=True, slots=True)
class AskedPoint:
    """Which point of whom a question asks for."""

    points: tuple[str, ...]  # predicates, any of them
    name: str = ""  # whose; "" for the one who asks, or who stands in a relation to them
    relation: str = ""  # what this person is to the one who asks: "sister", 老婆


def asked_point(text: str) -> AskedPoint | None:
    """Return which point of whom a question asks for; None for most questions."""
    if len(text) > _LONGEST:
        return None
    plain = text.replace("’", "'")
    for points, pattern in _forms(plain.isascii()):
        if found := pattern.search(plain):
            named = points or (found["point"],)  # in the question: "What port is staging db on?"
            whose = found["who"].strip().removesuffix("'s")
            if whose.casefold() in _OWN:
                return AskedPoint(named)
            if mine := _MINE.match(whose):
                last = whose[mine.end() :]  # "my daughter Lucia" is called Lucia
                return AskedPoint(named, name=last) if last.istitle() else AskedPoint(named, relation=last)
            return AskedPoint(named, name=whose)
    return None


@cache
def _forms(english_only: bool) -> Sequence[tuple[tuple[str, ...], re.Pattern[str]]]:
    """Return how points are asked for, English first."""
    table = read_toml(__package__, "points")
    return [
        (tuple(row["points"]), re.compile(filled(pattern, table["parts"][language]), re.I))
        for row in table["point"]
        for language in (["en"] if english_only else ["en", "zh"])
        for pattern in row[language]
    ]


def holding(store: Store, scope: Scope, asked: AskedPoint, now: datetime) -> list[Fact]:
    """Return the active facts that answer, newest first, at most three; none if several people say "I"."""
    points = (*asked.points, *_alike(asked.relation))
    found = find_facts(store, wide(scope), predicate=points, fact_status=("active",), limit=_MOST)
    found = [fact for fact in found if _holds(fact, now)]
    keys = set(map(predicate_key, asked.points))
    told = [fact for fact in found if predicate_key(fact.predicate) in keys]
    if asked.name:
        key = entity_key(asked.name)
        chosen = [fact for fact in told if entity_key(fact.subject) == key]
    elif asked.relation:
        chosen = _of_relation(asked.relation, found, told, named=predicate_key("name") in keys)
    else:
        chosen = [fact for fact in told if _is_own(fact)]
        if len({fact.subject for fact in chosen}) > 1:
            return []
    return chosen[:_ANSWERS]


def is_in_part(store: Store, fact: Fact) -> bool:
    """Return whether something else that a fact's message says has been replaced or is over."""
    said, scope = fact.sources[-1:], wide(fact.scope)
    return bool(said) and bool(find_facts(store, scope, sources=said, fact_status=_OVER, limit=1))


def _of_relation(relation: str, found: Sequence[Fact], told: Sequence[Fact], *, named: bool) -> list[Fact]:
    """Return facts about somebody who is called by what they are to the one who asks: "sister", 老婆.

    ``told`` are those of ``found`` about the point that is asked for; who it is answers where the name is.
    """
    keys = set(map(predicate_key, _alike(relation)))
    people = [fact for fact in found if predicate_key(fact.predicate) in keys and _is_own(fact)]
    names = {entity_key(fact.object) for fact in people}
    called = re.compile(rf"(?i:'s |的|我|\bmy ){re.escape(relation)}\Z")
    about = [fact for fact in told if entity_key(fact.subject) in names or called.search(fact.subject)]
    return about or (people if named else [])


def _alike(relation: str) -> tuple[str, ...]:
    """Return by which words somebody who is this to a person may have been told of: a son as a child."""
    return tuple(f"{relation} {_told_as().get(relation, '')}".split())


def _is_own(fact: Fact) -> bool:
    return fact.subject in (fact.speaker, "user")


def _holds(fact: Fact, now: datetime) -> bool:
    return not (fact.valid_from and fact.valid_from > now) and not (fact.valid_to and fact.valid_to <= now)
