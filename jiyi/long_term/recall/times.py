"""Times in questions and statements: which time a question asks about, how long a statement holds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from jiyi.clock import to_micros, utc_from_micros
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.values import patterns

__all__ = ["DAY", "AskedTime", "asked_time", "cues", "validity"]

DAY = 86_400 * 1_000_000
"""Microseconds of a day."""

_LONG = 200  # characters; a longer text tells something rather than asks one thing
_FORTNIGHT = timedelta(days=14)  # taken for granted where a text names no end
_LATELY = 60  # days: an earlier date is one of next year
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COUNTS = {"一": 1, "a": 1, "one": 1, "next": 1, "两": 2, "二": 2, "two": 2, "三": 3, "three": 3, "几": 4}
_COUNTS |= {"四": 4, "four": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """The time at which what is asked for shall hold."""

    kind: Literal["now", "then"]  # now, which may be a day to come, or a time gone by
    moment: int  # in microseconds since 1970; of a day, a month: its end


def cues(section: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a section of cues.toml."""
    return patterns("cues", section, "jiyi.long_term.recall")


def asked_time(text: str, ranges: Sequence[tuple[int, int]], asked_at: int) -> AskedTime | None:
    """Return what time a question asks about; None where it asks of history, or is no question.

    Args:
        text: the question.
        ranges: times it names, begin and end in microseconds since 1970.
        asked_at: when it is asked, as well.
    """
    signs = cues("asked_time")
    if len(text) > _LONG or not signs["asks"].search(text.strip()) or signs["history"].search(text):
        return None
    of_language = cues("asked_time.zh" if is_chinese(text) else "asked_time.en")
    if ranges:
        start, end = ranges[0]
        if signs["to_come"].search(text) and end <= asked_at:
            start, end = start + 365 * DAY, end + 365 * DAY
        if start > asked_at:
            return AskedTime(kind="now", moment=end)
        if end <= asked_at and _names_the_past(text):
            return AskedTime(kind="then", moment=end)
    if of_language["past"].search(text) and not of_language["now"].search(text):
        return None
    return AskedTime(kind="now", moment=asked_at)


def _names_the_past(text: str) -> bool:
    """Return whether a time that a question names and that is over is what it asks about.

    In Chinese a weekday alone is the one of every week: 周三夜里谁值班. In English it takes a verb of the
    past: in "Where do the Tuesday Larks meet?" the day is a name.
    """
    if is_chinese(text):
        signs = cues("asked_time.zh")
        return not signs["no_date"].search(text) or signs["date"].search(text) is not None
    signs = cues("asked_time.en")
    return signs["then"].search(text) is not None and not signs["now"].search(text)


def validity(text: str, said_at: int, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return from when until when a temporary statement holds, in microseconds since 1970.

    "from the 14th to the 28th", 这周三到周五, "until Friday", 这两周: the first and the day after
    the last date that is named; from when it was said where only one is; a fortnight where none is.
    """
    today = utc_from_micros(said_at).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    signs = cues("validity")
    days = [day for match in signs["dates"].finditer(text) if (day := _date(match, today)) is not None]
    for match in signs["spans"].finditer(text):
        day = _end_of(match, today, counted=not days)
        days += [day] if day else []
    if not days and (year := signs["year"].search(text)):
        days = [today.replace(year=int(year[0]), month=12, day=31)]
    if not days:
        return to_micros(today), to_micros(today + _FORTNIGHT)
    start = min(days) if len(days) > 1 else today
    return to_micros(min(start, max(days))), to_micros(max(days) + timedelta(days=1))


def _date(match: re.Match[str], today: datetime) -> datetime | None:
    """Return the day of a date without a year, of a day of the month, or of a weekday."""
    part = match.groupdict()
    month, weekday = part["m1"] or part["m2"] or part["m3"], part["w1"] or part["w2"]
    if weekday:
        name = weekday.lower()
        number = _WEEKDAY_NAMES.index(name) if part["w2"] else "一二三四五六日".find(name) % 7
        ahead = number - today.weekday()
        if part["w1"] and ahead >= -1:
            return today + timedelta(days=ahead + (7 if part["next"] else 0))
        return today + timedelta(days=ahead % 7 if part["w2"] else ahead + 7)
    day = int(part["d1"] or part["d2"] or part["d3"] or part["d4"] or part["d5"])
    try:
        if month:
            number = int(month) if month.isdigit() else _MONTH_NAMES.index(month[:3].lower()) + 1
            found = today.replace(month=number, day=day)
            return found.replace(year=found.year + 1) if (today - found).days > _LATELY else found
        found = today.replace(day=day)
        return found if (today - found).days <= 7 else _first_of_next_month(today).replace(day=day)
    except ValueError:  # the 31st of a shorter month: no date after all
        return None


def _end_of(match: re.Match[str], today: datetime, counted: bool) -> datetime | None:
    """Return the last day of "this week" or "two weeks"; the latter only where ``counted``."""
    part = match.groupdict()
    if part["week"]:
        return today + timedelta(days=6 - today.weekday())
    if part["today"]:
        return today
    if part["tomorrow"]:
        return today + timedelta(days=1)
    if part["month"]:
        return _first_of_next_month(today) - timedelta(days=1)
    if not counted:
        return None
    unit = part["unit"].lower()
    count = _COUNTS.get(part["n"].lower()) or int(part["n"])
    days = 1 if unit[0] in "d天" else 30 if unit[0] in "m月" else 7
    return today + timedelta(days=count * days)


def _first_of_next_month(day: datetime) -> datetime:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
