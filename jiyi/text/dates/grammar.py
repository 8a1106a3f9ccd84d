"""Rules that find time expressions: one pattern each, and a function that computes what a match means.

The rules are data: `en.toml` describes the format. A check decides by the words around a match: True if it is
a date, False if it counts only as a part of a longer one ("may" in "early may"), None if it is no date.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from jiyi.text.dates.calendar import Days
from jiyi.text.dates.meanings import Change, meaning
from jiyi.text.dates.slots import Context, Slots, Words
from jiyi.text.lexicon import fill_parts, read_toml

_SURE_MONTHS = frozenset(("january", "february", "july", "september", "october", "november", "december"))
_ALSO_VERBS = ("may", "march")
_ALSO_WORDS = frozenset(("sun", "sat", "wed", "mon", "fri"))
_PREPOSITIONS = "从在于到自至"
_NOT_AHEAD = re.compile(r"(?:n't|not|never)\b[^.,;!?\n]*$|(?:times?|once|twice) $")
_NEAREST = re.compile("的[一那这]?[家个]")
_DEFINITE = ("over the ", "during the ", "since ")


def _year_first(slots: Slots) -> bool | None:
    """2023.5.7 is a version after "=" or "version"."""
    version = slots.text("mark") == "." and (slots.head(1) == "=" or slots.word_before() == "version")
    return True if slots.text("mark") == slots.match["mark_2"] and not version else None


def _day_in_digits(slots: Slots) -> bool | None:
    """5/7 is a day after words such as "on", else it may be a fraction; it may also end a range."""
    if (slots.number("first"), slots.number("second")) == (24, 7):
        return None
    return slots.is_after("day_in_digits") or _after_preposition(slots)


def _after_preposition(slots: Slots) -> bool:
    return slots.head(1) in _PREPOSITIONS and slots.match.start() > 0


def _is_verb(slots: Slots) -> bool:
    """Return whether "may" or "march" may be a verb."""
    known = slots.text("month") not in _ALSO_VERBS or slots.is_capital("month")
    return not known and slots.word_before(slots.match.start("month")) not in slots.words.before["month"]


def _day_of_month(slots: Slots) -> bool | None:
    if slots.head(1) in (":", "."):  # 10:30 May 7
        return None
    sure = slots.text("th") or slots.text("year") or slots.text("of") == " of " or slots.is_after("day")
    return True if sure or not _is_verb(slots) else None


def _one_month(slots: Slots) -> bool | None:
    """A month alone: only of names that are no other word."""
    month, which = slots.match["month"], slots.text("which")
    capital = slots.is_capital("month")
    word = which or slots.word_before(slots.match.start("month"))
    before = slots.words.before
    if word in before["any"] or (word == "this" and month in _ALSO_VERBS and not capital):
        return None
    known = which is not None or word in before["month"] or month in _SURE_MONTHS
    if known or _after_preposition(slots) or (month == "august" and capital):
        return True
    return False if capital or word in before["part"] else None


def _one_weekday(slots: Slots) -> bool | None:
    """Of "sun", "sat", "wed" and the like, only those that are days here; none of "every Friday"."""
    day = slots.match["weekday"]
    if slots.is_after("any"):
        return None
    if day.endswith("day"):
        return True
    known = slots.text("which") is not None or slots.is_after("day")
    return (known and (slots.is_capital("weekday") or day not in _ALSO_WORDS)) or None


def _no_place(slots: Slots) -> bool | None:
    """Not of places: 离我最近, 最近的一家."""
    if slots.match[0] != "最近":
        return True
    head = slots.head(6)
    after = _NEAREST.match(slots.context.text, slots.match.end())
    return None if "离" in head or "距" in head or after else True


_CHECKS: Mapping[str, Callable[[Slots], bool | None]] = {
    "always": lambda _: True,
    "year_first": _year_first,
    "day_in_digits": _day_in_digits,
    "day_of_month": _day_of_month,
    "one_month": _one_month,
    "one_weekday": _one_weekday,
    "no_place": _no_place,
    # 2022 is a year after words such as "in"; else only in "the end of 2022" and in ranges.
    "year_alone": lambda slots: slots.is_after("year") or slots.head(9) == "the year ",
    "month_with_year": lambda slots: not _is_verb(slots) or slots.match["year"][0].isdigit() or None,
    "before_day": lambda slots: slots.is_after("day") or None,
    # Not of "the last week of school", of a longer number, or of "haven't met in a week".
    "no_part_of_other": lambda slots: (
        not (slots.step and slots.context.text.startswith(" of ", slots.match.end())) or None
    ),
    "ago": lambda slots: slots.head(1) not in (".", ",") or None,
    "ahead": lambda slots: not (slots.match[0] == "in a day" or _NOT_AHEAD.search(slots.head(40))) or None,
    # Not of "batteries last two weeks".
    "last_as_adjective": lambda slots: (
        slots.text("side") != "last" or bool(slots.text("the")) or slots.is_after("last") or None
    ),
    # A season alone, only after "over the", "since" and the like; Q1, which may be a question, after "in".
    "season": lambda slots: bool(
        slots.text("year") or slots.text("which") or slots.head(11).endswith(_DEFINITE)
    ),
    "quarter": lambda slots: bool(slots.text("year")) or slots.is_after("month") or None,
    "one_holiday": lambda slots: not slots.is_after("any") or None,
    "not_every": lambda slots: "每" not in slots.head(3) or None,
    "weekend": lambda slots: slots.is_after("weekend") or None,
}

_GROUP = re.compile(r"\(\?P<\w+>")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text and what it means."""

    at: int  # position of the first character
    end: int  # position after the last character
    days: Days | None  # the days it names
    change: Change | None = None  # instead of days: how it changes the piece that follows


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    meaning: Callable[[Slots], Days | Change | None]
    check: Callable[[Slots], bool | None]
    given: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """The rules of one language, tried together from left to right; the first in the list wins."""

    words: Words
    rules: Sequence[_Rule]
    combined: re.Pattern[str]  # of all rules, a group for each

    def any(self, text: str) -> bool:
        """Return whether some pattern matches in ``text``."""
        return self.combined.search(text) is not None

    def find(self, context: Context) -> Iterator[Piece]:
        """Yield the pieces that mean something, in order, without overlaps."""
        search, at = self.combined.search, 0
        while found := search(context.text, at):
            piece = self._piece(found.lastindex or 1, found.start(), context)
            at = piece.end if piece else found.start() + 1
            if piece and (piece.days or piece.change):
                yield piece

    def match(self, context: Context, at: int) -> Piece | None:
        """Return the piece that begins at ``at``, if there is one."""
        found = self.combined.match(context.text, at)
        return self._piece(found.lastindex or 1, at, context) if found else None

    def _piece(self, number: int, at: int, context: Context) -> Piece | None:
        rule = self.rules[number - 1]
        match = re.compile(rule.pattern, re.ASCII).match(context.text, at)  # re keeps what it compiled
        if match is None:
            return None
        slots = Slots(match, context, self.words, rule.given)
        sure = rule.check(slots)
        if sure is None:
            return None
        try:
            found = rule.meaning(slots)
        except (ValueError, OverflowError):  # no such day; parts of the words name none either
            return Piece(at, match.end(), None)
        if isinstance(found, Days):
            return Piece(at, match.end(), found if sure else replace(found, weak=True))
        return found and Piece(at, match.end(), None, found)


@cache
def load_grammar(language: str, rules: str = "rules", lead: str = "") -> Grammar:
    """Return the grammar in the data file of a language.

    ``rules`` is the list in it, such as "after_date": those that change a date right before them. ``lead`` is
    a pattern that comes before all.
    """
    data = read_toml(__package__, language)
    parts = {
        f"any_{slot}": f"(?:{'|'.join(sorted(meant, key=len, reverse=True))})"  # the longest first
        for slot, meant in data["words"].items()
    }
    parts |= data["parts"] | {"holiday": "|".join(data["holidays"].values())}

    def fill(pattern: str) -> str:
        return fill_parts(pattern, parts).replace("\n", "")

    words = Words(
        slots=data["words"],
        holidays=[(name, re.compile(fill(pattern))) for name, pattern in data["holidays"].items()],
        before={kind: frozenset(listed.split()) for kind, listed in data["before"].items()},
        after={kind: tuple(listed.split()) for kind, listed in data["after"].items()},
    )
    made = [
        _Rule(
            fill(row["pattern"]),
            meaning(row["meaning"]),
            _CHECKS[row.get("check", "always")],
            row.get("given", {}),
        )
        for row in data[rules]
    ]
    grouped = "|".join(f"({_GROUP.sub('(?:', rule.pattern)})" for rule in made)
    begins = _beginnings(data, fill) if rules == "rules" else ""
    return Grammar(words, made, re.compile(f"{lead}{begins}(?:{grouped})", re.ASCII))


def _beginnings(data: Mapping[str, Any], fill: Callable[[str], str]) -> str:
    """Return a pattern that consumes nothing and looks for a beginning, by first characters."""
    begins = data["begins"]
    beginnings = [*map(fill, begins["patterns"]), *begins["words"].split()]
    for one in begins.get("followed", ()):
        words = one["words"].split() if "words" in one else data["words"][one["slot"]]
        beginnings += (look + fill(one["then"]) for look in _by_first(words).values())
    looks = _by_first(beginnings)
    return f"(?=[{''.join(first.strip('[]') for first in looks)}])(?={'|'.join(looks.values())})"


def _by_first(patterns: Iterable[str]) -> dict[str, str]:
    """Return alternatives by the character, or class of characters, they begin with."""
    found: dict[str, list[str]] = {}
    for pattern in patterns:
        size = pattern.index("]") + 1 if pattern[0] == "[" else 1
        found.setdefault(pattern[:size], []).append(pattern[size:])
    return {first: f"{first}(?:{'|'.join(rests)})" for first, rests in found.items()}
