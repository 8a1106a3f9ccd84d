"""Which facts speak about the same point, and which of them say the same.

A slot holds one value at a time for one speaker: a person has one birthday, a service one port.
What others say about the same point, such as a web page or a tool, is kept next to it. Facts that can
be true together (what somebody likes, owns, plans, has to do, is allergic to, is called, their rules,
and all whose point is not named) have a slot each; liking and disliking the same thing share one. A
rule about the language or the length of answers, about units or how somebody is called has the slot
of that point, and its value is the language, in whatever words it is given.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from jiyi.extraction import RULE_POINTS, rule_meaning
from jiyi.extraction.values import load_table
from jiyi.records import Fact, FactCategory, names_point
from jiyi.text import analyse
from jiyi.text.keys import entity_key, predicate_key

__all__ = [
    "ALIAS",
    "NOTE",
    "OWNER",
    "Names",
    "Slot",
    "is_alias",
    "is_taste",
    "rule_point_of",
    "slot_of",
    "terms_of",
    "tokens_of",
    "value_key",
    "value_of",
    "word_lists",
]

Slot = tuple[str, str, str, str]
"""Keys of subject and point, of the value where several can hold at once, and who says it."""

ALIAS = "alias"  # the predicate of facts that give something another name
OWNER = "user"  # who speaks where nobody is named: the one whose memory it is
NOTE = "note"  # the predicate of texts that are kept whole
_MANY_CATEGORIES: frozenset[FactCategory] = frozenset({"plan", "todo", "rule", "preference"})
_FAVOURITE = re.compile(r"favou?rite|最(?:喜欢|爱|\s)")
_SPACE = re.compile(r"[\s,，。.!！?？;；:：\"“”「」'‘’`()（）]+")
_LATIN = re.compile(r"[a-z]{2,}")
_AMOUNT = re.compile(r"([$€£¥]?\d[\d,]{0,30}(?:\.\d{1,30})?)\s*([a-z%％\u4e00-\u9fff]{1,11})")


def value_key(value: str) -> str:
    """Return the key of a value: "30 days", "30 d" and "30 天" have one."""
    plain = unicodedata.normalize("NFKC", value).casefold().strip()
    amount = _AMOUNT.fullmatch(plain)
    unit = _points().units.get(amount[2]) if amount else None
    if amount and unit:
        return amount[1].replace(",", "") + " " + unit
    plain = re.sub(r"^(?:the|a|an)\s+", "", plain)
    inner = re.sub(r"(?<=\d)[.:,](?=\d)", lambda match: {".": "\1", ":": "\2", ",": ""}[match[0]], plain)
    words = _SPACE.sub(" ", inner).replace("\1", ".").replace("\2", ":").strip()
    if not _LATIN.search(words):  # Chinese is written with and without spaces
        words = words.replace(" ", "")
    return words or plain


class Names:
    """Which names mean the same thing, by the facts that say so; cycles are handled."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._up: dict[str, str] = {}
        self._said: dict[str, str] = {}
        for fact in facts:
            self.join(fact)

    def join(self, fact: Fact) -> bool:
        """Take in a fact; return whether it is one that gives another name."""
        if not is_alias(fact) or fact.status in ("retracted", "expired"):
            return False
        one, other = entity_key(fact.subject), entity_key(fact.object)
        self._said.setdefault(one, fact.subject)
        self._said.setdefault(other, fact.object)
        tops = sorted((self._top(one), self._top(other)))
        self._up[tops[1]] = tops[0]
        return True

    def key(self, name: str) -> str:
        """Return one key for all names of a thing."""
        return self._top(entity_key(name))

    def of(self, name: str) -> list[str]:
        """Return all known names of a thing as they were said, ``name`` first."""
        own = entity_key(name)
        top = self._top(own)
        return [name, *(said for key, said in self._said.items() if key != own and self._top(key) == top)]

    def _top(self, key: str) -> str:
        while (up := self._up.get(key, key)) != key:
            self._up[key] = self._up.get(up, up)  # halve the way for the next time
            key = up
        return key


def is_alias(fact: Fact) -> bool:
    """Return whether a fact gives its subject another name."""
    return predicate_key(fact.predicate) == predicate_key(ALIAS)


def is_taste(predicate: str) -> bool:
    """Return whether a predicate says that somebody likes or dislikes something."""
    return predicate_key(predicate) in _points().tastes


def rule_point_of(fact: Fact) -> str:
    """Return which of `RULE_POINTS` a rule settles, "" for none and for what is no rule."""
    return _points().rules.get(predicate_key(fact.predicate), "") if fact.category == "rule" else ""


def slot_of(fact: Fact, names: Names) -> Slot:
    """Return the slot of a fact."""
    return (*_point_of(fact, names), fact.speaker or OWNER)


def _point_of(fact: Fact, names: Names) -> tuple[str, str, str]:
    subject, point, known = names.key(fact.subject), predicate_key(fact.predicate), _points()
    if fact.category == "note" or point == known.note:
        return subject, point, fact.object  # letter by letter: it may hold a password
    if point in known.tastes:
        return subject, "taste", value_key(fact.object)
    if not names_point(fact.predicate):
        return subject, fact.predicate, value_key(fact.object)
    many = point in known.many or fact.category in _MANY_CATEGORIES
    if many and not _FAVOURITE.search(point) and not rule_point_of(fact):
        return subject, point, value_key(fact.object)
    return subject, point, ""


def value_of(fact: Fact) -> str:
    """Return what a fact says about its slot; equal for facts that say the same."""
    if point := rule_point_of(fact):
        return rule_meaning(fact.object).points.get(point) or value_key(fact.object)
    return _points().tastes.get(predicate_key(fact.predicate)) or value_key(fact.object)


def terms_of(texts: Iterable[str]) -> set[str]:
    """Return the search terms of texts."""
    return {term for text in texts for term in analyse(text)}


def tokens_of(name: str) -> frozenset[str]:
    """Return the words of a name's key, without those that tell nothing."""
    return frozenset(entity_key(name).replace("-", " ").split())


@dataclass(frozen=True, slots=True)
class _Points:
    many: frozenset[str]  # hold several values at once
    tastes: Mapping[str, str]  # "likes" or "dislikes"
    rules: Mapping[str, str]  # one of `RULE_POINTS`
    note: str
    units: Mapping[str, str]  # the first of those that mean the same


@cache
def _points() -> _Points:
    lists = word_lists()
    return _Points(
        frozenset(map(predicate_key, lists["many"])),
        {predicate_key(name): taste for taste in ("likes", "dislikes") for name in lists[taste]},
        {predicate_key(name): point for point, names in RULE_POINTS.items() for name in names},
        predicate_key(NOTE),
        {unit: units[0] for units in lists["units"] for unit in units},
    )


def word_lists() -> Mapping[str, Any]:
    """Return the lists of slots.toml."""
    return load_table("slots", "jiyi.long_term.facts")
