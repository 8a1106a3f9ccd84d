"""What standing instructions are about, in one form for both languages, so that they can be compared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jiyi.extraction.values import table
from jiyi.text import analyse

__all__ = ["RULE_POINTS", "RuleMeaning", "meaning_of", "rule_point", "rule_tables"]

_OTHER = ("rule", "规则")
_HAN = re.compile(r"[\u4e00-\u9fff]+")


@dataclass(frozen=True, slots=True)
class RuleMeaning:
    """What an instruction is about."""

    points: Mapping[str, str]  # of `RULE_POINTS` those it is about, with their values
    denies: bool  # it forbids
    releases: bool  # it says that something is not needed any more
    names: frozenset[str]  # the things it names, by one name in both languages
    terms: frozenset[str]  # these and its other words, without those that only tell how it is asked


@cache
def rule_tables() -> dict[str, Any]:
    """Return the signs of instructions."""
    return table("rules")


@cache
def _patterns(section: str) -> dict[str, re.Pattern[str]]:
    read = rule_tables()
    for part in section.split("."):
        read = read[part]
    return {name: re.compile(pattern) for name, pattern in read.items()}


RULE_POINTS: Mapping[str, tuple[str, str]] = {
    "language": ("answer language", "回答语言"),
    "length": ("answer length", "回答长度"),
    "units": ("units", "单位"),
    "address": ("form of address", "称呼"),
}
"""What instructions settle that have one value at a time: by a key the names in English and Chinese."""


def rule_point(point: str, chinese: bool) -> str:
    """Return the predicate of an instruction; ``point`` is a key of `RULE_POINTS`, or "" for any other."""
    return (RULE_POINTS[point] if point else _OTHER)[chinese]


@lru_cache(maxsize=1 << 10)
def meaning_of(text: str) -> RuleMeaning:
    """Return what an instruction is about; pure."""
    aside = _patterns("aside")
    points: dict[str, str] = {}
    for point in RULE_POINTS:
        value = _value(point, text)
        if value and not aside[point].search(text):
            points[point] = value
    named: set[str] = set()
    rest = text
    for name, pattern in {**_patterns("values.language"), **_patterns("things")}.items():
        rest, count = pattern.subn(" ", rest)
        if count:
            named.add(name)
    for section in ("values.length", "values.units"):
        for name, pattern in _patterns(section).items():
            if pattern.search(text):
                named.add(name)
                rest = pattern.sub(" ", rest)
    signs = _patterns("meaning")
    rest = signs["passing"].sub(" ", rest)
    # A single character that is left of Chinese tells nothing.
    rest = _HAN.sub(lambda match: match[0] if len(match[0]) > 1 else " ", rest)
    return RuleMeaning(
        points=points,
        denies=signs["denies"].search(text) is not None,
        releases=signs["releases"].search(text) is not None,
        names=frozenset(named),
        terms=frozenset(named) | frozenset(analyse(rest)),
    )


def _value(point: str, text: str) -> str:
    found = [
        (match.start(), place, name, match)
        for place, (name, pattern) in enumerate(_patterns(f"values.{point}").items())
        if (match := pattern.search(text))
    ]
    if not found:
        return ""
    _, _, name, match = min(found, key=lambda one: one[:2])
    said = [value for value in match.groupdict().values() if value]
    return said[0].strip().casefold() if said else name
