"""Dates written in digits alone: 2023-05-07, 2023/5/7, 05/07/2023, 20230507, 2023-05, and years."""

import re

from jiyi.text.dates_calendar import Days, month_day, placed, year
from jiyi.text.dates_rules import Rule, Scene, words

__all__ = ["DIGITS", "YEAR_ALONE"]

_FREE = r"(?<![$€£¥#@.])(?<![0-9][-/:,])"  # no part of 010-2023-05-07, $2023, 10.2.3.2023
_YEAR = r"(?P<y>(?:19|20)[0-9]{2})"
_MONTH = r"(?:1[0-2]|0?[1-9])"
_DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
_BEFORE_YEAR = frozenset(
    words("in since during until till by from before after year around throughout circa")
)
_BEFORE_DAY = frozenset(words("on by since until till from before after between due dated"))
_NO_YEAR = (  # what is counted, not dated
    r"(?! ?(?:[%年]|[kcm]?m\b|ft\b|[kmg]b\b|ms\b|kg\b|k?cal|met(?:er|re)s|miles|steps|words|tokens|lines"
    r"|pages|rows|users|people|items|points|dollars|usd|rmb|yuan|hours|minutes|seconds|times|more|or so\b))"
)


def _year_first(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of 2023-05-07; 2023.5.7 is a version behind "=" or "version"."""
    said, at = match.groupdict(), match.start()
    if said.get("s") != said.get("t"):
        return None
    if said.get("s") == "." and (
        scene.text[max(0, at - 1) : at] == "=" or scene.word_before(at) == "version"
    ):
        return None
    return month_day(int(said["y"]), int(said["m"]), int(said["d"]))


def _year_month(match: re.Match[str], _scene: Scene) -> Days:
    return month_day(int(match["y"]), int(match["m"]))


def _years(match: re.Match[str], _scene: Scene) -> Days | None:
    """Return the years 2019-2021."""
    first, last = year(int(match["y"])), year(int(match["z"]))
    return Days(first.first, last.end, "span") if first.first < last.first else None


def _year_last(match: re.Match[str], _scene: Scene) -> Days | None:
    """Return the day of 05/07/2023, month first; 15/07/2023 and 5.7.2023 have the day first."""
    one, two, number = int(match["a"]), int(match["b"]), int(match["y"])
    short = len(match["y"]) == 2
    if match["s"] != match["t"] or (short and (match["s"] != "/" or 40 < number < 70)):
        return None
    if short:
        number += 2000 if number <= 40 else 1900
    if one > 12 or (match["s"] == "." and two <= 12):
        one, two = two, one
    return month_day(number, one, two)


def _without_year(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of 5/7 behind words such as "on", else it may be a fraction; it may also end a range."""
    one, two, at = int(match["a"]), int(match["b"]), match.start()
    if (one, two) == (24, 7):
        return None
    known = scene.word_before(at) in _BEFORE_DAY or scene.preposition_before(at)
    if one > 12:
        one, two = two, one
    found = placed(lambda number: month_day(number, one, two), scene.today, None)
    return Days(found.first, found.end, exact=False, turn="year", weak=not known)


def _year_alone(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the year of 2022 behind words such as "in"; else only for "the end of 2022" and for ranges."""
    at, found = match.start(), year(int(match["y"]))
    known = scene.word_before(at) in _BEFORE_YEAR or scene.text[max(0, at - 9) : at].endswith("the year ")
    return Days(found.first, found.end, "year", weak=not known)


DIGITS: list[Rule] = [
    (
        rf"{_FREE}{_YEAR}(?P<s>[-/.])(?P<m>{_MONTH})(?P<t>[-/.])(?P<d>{_DAY})(?![0-9]|\.[0-9])",
        _year_first,
    ),
    (rf"{_FREE}{_YEAR}(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12][0-9]|3[01])(?![0-9.])", _year_first),
    (rf"{_FREE}{_YEAR}[-/](?P<m>{_MONTH})(?![0-9a-z年月]|[-/.:][0-9])", _year_month),
    (rf"{_FREE}{_YEAR}[-–—~](?P<z>(?:19|20)[0-9]{{2}})(?![0-9a-z]|[-/.][0-9])", _years),
    (
        rf"{_FREE}(?P<a>[0-9]{{1,2}})(?P<s>[-/.])(?P<b>[0-9]{{1,2}})(?P<t>[-/.])"
        r"(?P<y>(?:19|20)[0-9]{2}|[0-9]{2})(?![0-9]|[-/.:][0-9])",
        _year_last,
    ),
    (
        rf"{_FREE}(?P<a>{_DAY})/(?P<b>{_DAY})(?![0-9a-z/%]|[.,:][0-9]| ?(?:cup|of |inch|tsp|tbsp|tea|table))",
        _without_year,
    ),
]
"""Rules for whole dates and months; what tries them must see to it that no word goes on there."""

YEAR_ALONE: Rule = (rf"{_FREE}{_YEAR}(?![0-9a-z]|[.,:/-][0-9]){_NO_YEAR}", _year_alone)
"""The rule for a year, to be tried after all that begins with a number."""
