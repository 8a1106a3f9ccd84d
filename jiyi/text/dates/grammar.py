"""Rules that find time expressions: patterns tried together, each with a function that says what it means.

The rules are data: `en.toml` describes the format. A check says by the words around a match whether it is a
date at all: True, False where it counts only as a part of a longer one ("may" in "early may"), None for no.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from jiyi.text.dates.calendar import Days
from jiyi.text.dates.meanings import Change, meaning
from jiyi.text.dates.slots import Context, Slots, Words
from jiyi.text.lexicon import fill_parts, read_toml

__all__ = ["Grammar", "Piece"]

_SURE_MONTHS = frozenset(("january", "february", "july", "september", "october", "november", "december"))
_ALSO_VERBS = ("may", "march")
_ALSO_WORDS = frozenset(("sun", "sat", "wed", "mon", "fri"))
_PREPOSITIONS = "从在于到自至"
_NOT_AHEAD = re.compile(r"(?:n't|not|never)\b[^.,;!?\n]*$|(?:times?|once|twice) $")
_NEAREST = re.compile("的[一那这]?[家个]")
_DEFINITE = ("over the ", "during the ", "since ")


def _year_first(said: Slots) -> bool | None:
    """2023.5.7 is a version after "=" or "version"."""
    mark = said.text("mark")
    if mark != said.match["mark_2"]:
        return None
    return None if mark == "." and (said.head(1) == "=" or said.word_before() == "version") else True


def _day_in_digits(said: Slots) -> bool | None:
    """5/7 is a day after words such as "on", else it may be a fraction; it may also end a range."""
    if (said.number("first"), said.number("second")) == (24, 7):
        return None
    return said.is_after("day_in_digits") or _after_preposition(said)


def _after_preposition(said: Slots) -> bool:
    return said.head(1) in _PREPOSITIONS and said.match.start() > 0


def _is_verb(said: Slots) -> bool:
    """Return whether "may" or "march" may be a verb."""
    if said.text("month") not in _ALSO_VERBS or said.is_capital("month"):
        return False
    return said.word_before(said.match.start("month")) not in said.words.before["month"]


def _day_of_month(said: Slots) -> bool | None:
    if said.head(1) in (":", "."):  # 10:30 May 7
        return None
    sure = said.text("th") or said.text("year") or said.text("of") == " of " or said.is_after("day")
    return True if sure or not _is_verb(said) else None


def _one_month(said: Slots) -> bool | None:
    """A month alone: only of names that are no other word."""
    month, which = said.match["month"], said.text("which")
    capital = said.is_capital("month")
    word = which or said.word_before(said.match.start("month"))
    before = said.words.before
    if word in before["any"] or (word == "this" and month in _ALSO_VERBS and not capital):
        return None
    known = which is not None or word in before["month"] or month in _SURE_MONTHS
    if known or _after_preposition(said) or (month == "august" and capital):
        return True
    return False if capital or word in before["part"] else None


def _one_weekday(said: Slots) -> bool | None:
    """Of "sun", "sat", "wed" and the like, only those that are days here; none of "every Friday"."""
    day = said.match["weekday"]
    if said.is_after("any"):
        return None
    if day.endswith("day"):
        return True
    known = said.text("which") is not None or said.is_after("day")
    return (known and (said.is_capital("weekday") or day not in _ALSO_WORDS)) or None


def _no_place(said: Slots) -> bool | None:
    """Not of places: 离我最近, 最近的一家."""
    if said.match[0] != "最近":
        return True
    head = said.head(6)
    return None if "离" in head or "距" in head or _NEAREST.match(said.scene.text, said.match.end()) else True


_Check = Callable[[Slots], bool | None]
_CHECKS: Mapping[str, _Check] = {
    "year_first": _year_first,
    "day_in_digits": _day_in_digits,
    "day_of_month": _day_of_month,
    "one_month": _one_month,
    "one_weekday": _one_weekday,
    "no_place": _no_place,
    # 2022 is a year after words such as "in"; else only in "the end of 2022" and in ranges.
    "year_alone": lambda said: said.is_after("year") or said.head(9) == "the year ",
    "month_with_year": lambda said: None if _is_verb(said) and not said.match["year"][0].isdigit() else True,
    "before_day": lambda said: said.is_after("day") or None,
    # Not of "the last week of school", of a longer number, or of "haven't met in a week".
    "no_part_of_other": lambda said: (
        None if said.step and said.scene.text.startswith(" of ", said.match.end()) else True
    ),
    "ago": lambda said: None if said.head(1) in (".", ",") else True,
    "ahead": lambda said: None if said.match[0] == "in a day" or _NOT_AHEAD.search(said.head(40)) else True,
    # Not of "batteries last two weeks".
    "last_as_adjective": lambda said: (
        True if said.text("side") != "last" or said.text("the") or said.is_after("last") else None
    ),
    # A season alone, only after "over the", "since" and the like; Q1, which may be a question, after "in".
    "season": lambda said: bool(said.text("year") or said.text("which")) or said.head(11).endswith(_DEFINITE),
    "quarter": lambda said: True if said.text("year") or said.is_after("month") else None,
    "one_holiday": lambda said: None if said.is_after("any") else True,
    "not_every": lambda said: None if "每" in said.head(3) else True,
    "weekend": lambda said: said.is_after("weekend") or None,
}


_T = TypeVar("_T")

_GROUP = re.compile(r"\(\?P<\w+>")


class _cached(Generic[_T]):
    """A cached_property without the lock of Python 3.11's, which a forked process could find held."""

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make

    def __get__(self, one: Any, _: type) -> _T:
        made = one.__dict__[self._make.__name__] = self._make(one)
        return made


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text and what it means."""

    at: int  # position of the first character
    end: int  # position after the last character
    days: Days | None  # the days it names
    change: Change | None = None  # instead of days: what it does to the piece that follows


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    meaning: Callable[[Slots], Days | Change | None]
    check: Callable[[Slots], bool | None]
    given: Mapping[str, str]


@dataclass(eq=False)
class Grammar:
    """The rules of one language, tried together from left to right; the first in the list wins."""

    language: str  # names the data file, read when it is first needed
    rules: str = "rules"  # the list in it, or "after_date": those that change a date right before them
    lead: str = ""  # a pattern that comes before all

    def any(self, text: str) -> bool:
        """Return whether some pattern matches in ``text``."""
        return self._together.search(text) is not None

    def find(self, scene: Context) -> Iterator[Piece]:
        """Yield the pieces that mean something, in order, without overlaps."""
        search, at = self._together.search, 0
        while found := search(scene.text, at):
            piece = self._piece(found.lastindex or 1, found.start(), scene)
            at = piece.end if piece else found.start() + 1
            if piece and (piece.days or piece.change):
                yield piece

    def match(self, scene: Context, at: int) -> Piece | None:
        """Return what means something and begins at ``at``."""
        found = self._together.match(scene.text, at)
        return self._piece(found.lastindex or 1, at, scene) if found else None

    @_cached
    def _data(self) -> Mapping[str, Any]:
        return read_toml(__package__, self.language)

    @_cached
    def _parts(self) -> Mapping[str, str]:
        words = {
            f"any_{slot}": f"(?:{'|'.join(sorted(meant, key=len, reverse=True))})"  # the longest first
            for slot, meant in self._data["words"].items()
        }
        holidays = {"holiday": "|".join(self._data["holidays"].values())}
        return {**words, **self._data["parts"], **holidays}

    @_cached
    def _words(self) -> Words:
        data = self._data
        return Words(
            slots=data["words"],
            holidays=[(name, re.compile(self._filled(words))) for name, words in data["holidays"].items()],
            before={kind: frozenset(words.split()) for kind, words in data["before"].items()},
            after={kind: tuple(words.split()) for kind, words in data["after"].items()},
        )

    @_cached
    def _rules(self) -> list[_Rule]:
        return [
            _Rule(
                self._filled(one["pattern"]),
                meaning(one["meaning"]),
                _CHECKS[one["check"]] if "check" in one else lambda _: True,
                one.get("given", {}),
            )
            for one in self._data[self.rules]
        ]

    @_cached
    def _together(self) -> re.Pattern[str]:
        rules = "|".join(f"({_GROUP.sub('(?:', rule.pattern)})" for rule in self._rules)
        begins = _lookahead(self._begins()) if self.rules == "rules" else ""
        return re.compile(f"{self.lead}{begins}(?:{rules})", re.ASCII)

    def _filled(self, pattern: str) -> str:
        return fill_parts(pattern, self._parts).replace("\n", "")

    def _begins(self) -> list[str]:
        data = self._data["begins"]
        begins = [*map(self._filled, data["patterns"]), *data["words"].split()]
        for one in data.get("followed", ()):
            words = one["words"].split() if "words" in one else self._data["words"][one["slot"]]
            then = self._filled(one["then"])
            begins += (f"{first}(?:{'|'.join(rests)}){then}" for first, rests in _by_first(words).items())
        return begins

    def _piece(self, number: int, at: int, scene: Context) -> Piece | None:
        rule = self._rules[number - 1]
        match = re.compile(rule.pattern, re.ASCII).match(scene.text, at)  # re keeps what it compiled
        if match is None:
            return None
        said = Slots(match, scene, self._words, rule.given)
        sure = rule.check(said)
        if sure is None:
            return None
        try:
            found = rule.meaning(said)
        except (ValueError, OverflowError):  # no such day: nor do parts of the words name one
            return Piece(at, match.end(), None)
        if found is None:
            return None
        if isinstance(found, Days):
            return Piece(at, match.end(), found if sure else replace(found, weak=True))
        return Piece(at, match.end(), None, found)


def _by_first(patterns: Iterable[str]) -> dict[str, list[str]]:
    """Return the rests of patterns by the character, or class of characters, they begin with."""
    found: dict[str, list[str]] = {}
    for pattern in patterns:
        size = pattern.index("]") + 1 if pattern[0] == "[" else 1
        found.setdefault(pattern[:size], []).append(pattern[size:])
    return found


def _lookahead(begins: Sequence[str]) -> str:
    """Return a pattern that consumes nothing and looks for one of ``begins``, by their first characters."""
    by_first = _by_first(begins)
    firsts = "".join(first.strip("[]") for first in by_first)
    looks = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    return f"(?=[{firsts}])(?={looks})"
