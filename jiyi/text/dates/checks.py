"""Whether a match is a date at all: what the words around it say.

Each check gives True, False for an expression that counts only as a part of a longer one
("may" in "early may"), or None for no date.
"""

import re
from collections.abc import Callable, Mapping

from jiyi.text.dates.slots import Slots

__all__ = ["check"]

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


def check(name: str) -> _Check:
    """Return the check that the data files call so.

    Raises:
        KeyError: there is none.
    """
    return _CHECKS[name]
