"""Which facts are about the same point, and which of them state the same value.

A slot holds one value at a time for one speaker: a person has one birthday, a service one port.
What other speakers say about the same point, such as a web page or a tool, is kept next to it. Facts
that can be true together (likes, possessions, plans, to-dos, allergies, names, rules, and all without a
named point) have a slot each; liking and disliking the same thing share one. A rule about the language or
length of answers, about units or the form of address has the slot of that point; its value is the setting.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jiyi.extraction import RULE_POINTS, rule_meaning
from jiyi.extraction.values import load_table
from jiyi.records import Fact, FactCategory, single_valued
from jiyi.text import analyse
from jiyi.text.keys import entity_key, predicate_key

Slot = tuple[str, str, str, str]
"""Keys of subject and point, of the value if several can hold at once, and the speaker."""

ALIAS = "alias"  # predicate of facts that give another name
OWNER = "user"  # the default speaker: whose memory it is
NOTE = "note"  # predicate of texts that are kept whole
_MULTI_VALUED: frozenset[FactCategory] = frozenset({"plan", "todo", "rule", "preference"})
_FAVOURITE = re.compile(r"\bfav(?:ou?rite|e)?\b|最(?:喜欢|爱|\s)")
_SPACE = re.compile(r"[\s,，。.!！?？;；:：\"“”「」'‘’`()（）]+")
_LATIN = re.compile(r"[a-z]{2,}")
_MAX_CACHED_CHARS = 200  # of a value whose key is cached: facts are compared with every new statement
_AMOUNT = re.compile(r"([$€£¥]?\d[\d,]{0,30}(?:\.\d{1,30})?)\s*([a-z%％\u4e00-\u9fff]{1,11})")


def value_key(value: str) -> str:
    """Return the key of a value; "30 days", "30 d" and "30 天" have the same."""
    return (_value_key if len(value) <= _MAX_CACHED_CHARS else _value_key.__wrapped__)(value)


@lru_cache(maxsize=4096)
def _value_key(value: str) -> str:
    normalized = unicodedata.normalize("NFKC", value).casefold().strip()
    amount = _AMOUNT.fullmatch(normalized)
    unit = _points().units.get(amount[2]) if amount else None
    if amount and unit:
        return amount[1].replace(",", "") + " " + unit
    normalized = re.sub(r"^(?:the|a|an)\s+", "", normalized)
    inner = re.sub(r"(?<=\d)[.:,](?=\d)", lambda match: {".": "\1", ":": "\2", ",": ""}[match[0]], normalized)
    words = _SPACE.sub(" ", inner).replace("\1", ".").replace("\2", ":").strip()
    if not _LATIN.search(words):  # Chinese is written with and without spaces
        words = words.replace(" ", "")
    return words or normalized


class Names:
    """The names that mean the same thing according to facts; cycles are handled."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._parent: dict[str, str] = {}
        self._spelling: dict[str, str] = {}
        for fact in facts:
            self.join(fact)

    def join(self, fact: Fact) -> bool:
        """Add a fact; return whether it gives another name."""
        if not is_alias(fact) or fact.status in ("retracted", "expired"):
            return False
        subject, object_ = entity_key(fact.subject), entity_key(fact.object)
        self._spelling.setdefault(subject, fact.subject)
        self._spelling.setdefault(object_, fact.object)
        roots = sorted((self._root(subject), self._root(object_)))
        self._parent[roots[1]] = roots[0]
        return True

    def key(self, name: str) -> str:
        """Return one key for all names of a thing."""
        return self._root(entity_key(name))

    def of(self, name: str) -> list[str]:
        """Return all known names of a thing as written, ``name`` first."""
        own_key = entity_key(name)
        root = self._root(own_key)
        others = (key for key in self._spelling if key != own_key and self._root(key) == root)
        return [name, *(self._spelling[key] for key in others)]

    def _root(self, key: str) -> str:
        while (parent := self._parent.get(key, key)) != key:
            self._parent[key] = self._parent.get(parent, parent)  # path halving
            key = parent
        return key


def is_alias(fact: Fact) -> bool:
    """Return whether a fact gives its subject another name."""
    return predicate_key(fact.predicate) == predicate_key(ALIAS)


def is_preference(predicate: str) -> bool:
    """Return whether a predicate says that somebody likes or dislikes something."""
    return predicate_key(predicate) in _points().tastes


def point_of_rule(fact: Fact) -> str:
    """Return which of `RULE_POINTS` a rule settles, "" for none."""
    return _points().rules.get(predicate_key(fact.predicate), "") if fact.category == "rule" else ""


def slot_of(fact: Fact, names: Names) -> Slot:
    """Return the slot of a fact."""
    return (*_point_of(fact, names), fact.speaker or OWNER)


def _point_of(fact: Fact, names: Names) -> tuple[str, str, str]:
    subject, point, known = names.key(fact.subject), predicate_key(fact.predicate), _points()
    if fact.category == "note" or point == known.note:
        return subject, point, fact.object  # verbatim: it may be a password
    if point in known.tastes:
        return subject, "taste", value_key(fact.object)
    if not single_valued(fact.predicate):
        return subject, fact.predicate, value_key(fact.object)
    multi_valued = point in known.many or fact.category in _MULTI_VALUED
    if multi_valued and not _FAVOURITE.search(point) and not point_of_rule(fact):
        return subject, point, value_key(fact.object)
    return subject, point, ""


def value_of(fact: Fact) -> str:
    """Return a fact's value for its slot; equal for facts that state the same."""
    if point := point_of_rule(fact):
        return rule_meaning(fact.object).points.get(point) or value_key(fact.object)
    return _points().tastes.get(predicate_key(fact.predicate)) or value_key(fact.object)


def terms_of(texts: Iterable[str]) -> set[str]:
    """Return the search terms of texts."""
    return {term for text in texts for term in analyse(text)}


def tokens_of(name: str) -> frozenset[str]:
    """Return the words of a name's key."""
    return frozenset(entity_key(name).replace("-", " ").split())


@dataclass(frozen=True, slots=True)
class _Points:
    many: frozenset[str]  # predicates with several values at once
    tastes: Mapping[str, str]  # "likes" or "dislikes"
    rules: Mapping[str, str]  # one of `RULE_POINTS`
    note: str
    units: Mapping[str, str]  # to the first one with the same meaning


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
