"""Rules that find time expressions: patterns tried together, each with a function that says what it means."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal, cast

from jiyi.text.dates_calendar import Days, Unit, add_months, shifted

__all__ = [
    "Amount",
    "Change",
    "Handler",
    "Measure",
    "Piece",
    "Rule",
    "Rules",
    "Scene",
    "counted",
    "either",
    "from_now",
    "heads",
    "rolling",
    "words",
]

Measure = Unit | Literal["hour", "minute"]
"""What is counted."""

Change = Callable[[Days], Days | None]
"""What words like "the week before" make of the expression beside them."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A text and the moment it speaks from."""

    text: str  # lower case, half-width digits, the same length as raw
    raw: str  # as written
    now: datetime  # in the zone of the spans

    @property
    def today(self) -> int:
        """The ordinal of the day of ``now``."""
        return self.now.toordinal()

    def word_before(self, at: int) -> str:
        """Return the Latin word that ends right before ``at``, "" where there is none."""
        head = self.text[max(0, at - 14) : at]
        found = _LAST_WORD.search(head)
        return found[1] if found else ""

    def preposition_before(self, at: int) -> bool:
        """Return whether a Chinese word for "in", "from" or "to" ends right before ``at``."""
        return at > 0 and self.text[at - 1] in "从在于到自至"

    def capital(self, at: int) -> bool:
        """Return whether a capital letter stands at ``at``."""
        return self.raw[at].isupper()


_LAST_WORD = re.compile(r"([a-z]+)[ -]$")

Handler = Callable[[re.Match[str], Scene], Days | Change | None]
"""Says what a match means: days, a change of the expression that follows, or nothing."""

Rule = tuple[str, Handler]
"""A pattern for lower-case text, of bounded length, and what it means."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text and what it means."""

    at: int  # where it begins
    end: int  # where it ends
    days: Days | None  # the days it names
    change: Change | None = None  # instead of days: what it does to the piece behind it


class Rules:
    """Patterns of one language, tried together from left to right; the first in the list wins.

    ``begins`` are patterns for how an expression begins; each begins with a plain character or a
    class of them, so that most places of a text are passed by after one look. ``lead`` stands
    before all.
    """

    def __init__(self, rules: Sequence[Rule], *, lead: str = "", begins: Sequence[str] = ()) -> None:
        self._rules = rules
        self._lead = lead
        self._begins = begins

    @cached_property
    def _together(self) -> re.Pattern[str]:
        unnamed = (re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern, _ in self._rules)
        rules = "|".join(f"({pattern})" for pattern in unnamed)
        return re.compile(f"{self._lead}{_looks(self._begins)}(?:{rules})", re.ASCII)

    def any(self, text: str) -> bool:
        """Return whether some pattern matches in ``text``."""
        return self._together.search(text) is not None

    def find(self, scene: Scene) -> Iterator[Piece]:
        """Give what means something, in order, without overlaps."""
        search, at = self._together.search, 0
        while found := search(scene.text, at):
            piece = self._piece(found.lastindex or 1, found.start(), scene)
            at = piece.end if piece else found.start() + 1
            if piece and (piece.days or piece.change):
                yield piece

    def match(self, scene: Scene, at: int) -> Piece | None:
        """Return what means something and begins at ``at``."""
        found = self._together.match(scene.text, at)
        return self._piece(found.lastindex or 1, at, scene) if found else None

    def _piece(self, number: int, at: int, scene: Scene) -> Piece | None:
        pattern, handler = self._rules[number - 1]
        match = re.compile(pattern, re.ASCII).match(scene.text, at)  # re keeps what it compiled
        try:
            meaning = handler(match, scene) if match else None
        except (ValueError, OverflowError):  # no such day: nor do parts of the words name one
            return Piece(at, match.end(), None) if match else None
        if match is None or meaning is None:
            return None
        if isinstance(meaning, Days):
            return Piece(at, match.end(), meaning)
        return Piece(at, match.end(), None, meaning)


def words(text: str) -> tuple[str, ...]:
    """Return the words of ``text``."""
    return tuple(text.split())


def either(patterns: Iterable[str]) -> str:
    """Return a pattern for any of ``patterns``, the longest tried first."""
    return f"(?:{'|'.join(sorted(patterns, key=len, reverse=True))})"


def heads(starts: Iterable[str], tail: str) -> list[str]:
    """Return patterns for any of ``starts`` with ``tail`` behind it, one for each first character."""
    by_first: dict[str, list[str]] = {}
    for start in starts:
        by_first.setdefault(start[0], []).append(start[1:])
    return [f"{first}(?:{'|'.join(rests)}){tail}" for first, rests in by_first.items()]


def _looks(begins: Sequence[str]) -> str:
    """Return a pattern that consumes nothing and looks for one of ``begins``, by their first characters."""
    if not begins:
        return ""
    by_first: dict[str, list[str]] = {}
    for begin in begins:
        size = begin.index("]") + 1 if begin[0] == "[" else 1
        by_first.setdefault(begin[:size], []).append(begin[size:])
    firsts = "".join(first.strip("[]") for first in by_first)
    looks = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    return f"(?=[{firsts}])(?={looks})"


@dataclass(frozen=True, slots=True)
class Amount:
    """How many: from ``low`` to ``high``, which are the same where the words are clear."""

    low: float
    high: float


def counted(day: int, amount: Amount, unit: Unit, sign: int) -> Days:
    """Return the units so many before (sign -1) or after (1) that of ``day``; vague where the amount is."""
    if amount.low == amount.high and amount.low != int(amount.low):
        amount, unit = _in_smaller(amount.low, unit)
    one = shifted(day, unit, sign * int(amount.low))
    if amount.low == amount.high:
        return one
    other = shifted(day, unit, sign * int(amount.high))
    return Days(min(one.first, other.first), max(one.end, other.end), "span", exact=False)


def _in_smaller(number: float, unit: Unit) -> tuple[Amount, Unit]:
    """Return half years in months, half months and weeks in days, give or take a little."""
    if unit == "year":
        return Amount(number * 12 - 1, number * 12 + 1), "month"
    size, slack = {"month": (30, 3), "week": (7, 1)}.get(unit, (1, 0))
    return Amount(int(number * size) - slack, int(number * size) + slack), "day"


def from_now(scene: Scene, amount: Amount, unit: Measure, sign: int) -> Days:
    """Return what is so many units before or after the present moment; hours and minutes as their days."""
    if unit in ("hour", "minute"):
        size = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
        one, other = ((scene.now + sign * number * size).toordinal() for number in (amount.low, amount.high))
        return Days(min(one, other), max(one, other) + 1, "day" if one == other else "span")
    return counted(scene.today, amount, cast(Unit, unit), sign)


def rolling(scene: Scene, amount: Amount, unit: Measure, sign: int) -> Days:
    """Return the last so many units up to now, or the next so many from today on."""
    number, exact = amount.high, amount.low == amount.high
    today = scene.today
    if unit in ("hour", "minute"):
        other = from_now(scene, Amount(number, number), unit, sign).first
    elif unit in ("year", "quarter", "month"):
        size = {"year": 12, "quarter": 3, "month": 1}[unit]
        other = add_months(today, sign * int(number * size))
    else:
        other = today + sign * int(number * (1 if unit == "day" else 7))
    if sign < 0:
        return Days(other, today + 1, "span", exact, open=True)
    return Days(today, other + 1, "span", exact)
