"""Reads from the dates in a sentence when its statement holds."""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

from jiyi.extraction.values import load_patterns
from jiyi.text import TimeSpan, find_dates, has_date
from jiyi.text.traits import Mode

_LONGEST_EXCEPTION = timedelta(days=100)  # what is said to last longer is no exception


def parse_validity(
    sentence: str, mode: Mode, said_at: datetime, zone: tzinfo, value: str = ""
) -> tuple[datetime | None, datetime | None]:
    """Return from when and until when a statement holds, None where the sentence does not say.

    A range counts if the sentence calls it temporary or names both ends, a start if it says "from".
    Dates inside the value are part of the value. A day without a year or month is the next one.
    """
    if not has_date(sentence):
        return None, None
    cues = load_patterns("forms", "times")
    at = sentence.find(value) if value else -1
    in_value = range(at, at + len(value))
    spans = [
        next_occurrence(span, said_at)
        for span in find_dates(sentence, said_at, zone)
        if span.at not in in_value and not cues["repeated"].search(sentence[: span.at])
    ]
    temporary = bool(mode & Mode.TEMPORARY)
    brief = [span for span in spans if temporary and said_at < span.end <= said_at + _LONGEST_EXCEPTION]
    for span, later in zip(spans, [*spans[1:], None], strict=False):
        head, end = sentence[: span.at], span.at + len(span.text)
        if cues["begins"].search(head) or cues["begins_after"].match(sentence, end):
            if (day := cues["to_day"].match(sentence, end)) is not None:
                return span.start, _next_day_of_month(span, int(day[1]), span.start).end
            to = later if temporary and later and cues["to"].search(sentence[: later.at]) else None
            if to and to.end > span.start:
                return span.start, to.end
            if span in brief and span.end - span.start > timedelta(days=1):
                return span.start if span.start > said_at else None, span.end
            current = span.start <= said_at < span.end and span.end - span.start > timedelta(days=1)
            return None if current else span.start, None
        if cues["until"].search(head) or cues["until_after"].match(sentence, end):
            return None, (span.end if span.end > said_at else None)
    return next(((span.start if span.start > said_at else None, span.end) for span in brief), (None, None))


def first_upcoming_day(sentence: str, said_at: datetime, zone: tzinfo) -> datetime | None:
    """Return the start of the first date in a sentence that is not over yet, or None."""
    if not has_date(sentence):
        return None
    until = load_patterns("forms", "times")["until"]
    found = find_dates(sentence, said_at, zone)
    spans = (next_occurrence(span, said_at) for span in found if not until.search(sentence[: span.at]))
    return next((span.start for span in spans if span.end > said_at), None)


def next_occurrence(span: TimeSpan, said_at: datetime) -> TimeSpan:
    """Move a past span whose year, month or week was guessed to its next occurrence."""
    if span.exact or span.end > said_at:
        return span
    cues = load_patterns("forms", "times")
    day = cues["day_alone"].search(span.text)
    if cues["month"].search(span.text):
        return _move_years(span, said_at.year - span.start.year, said_at)
    if day is not None:
        return _next_day_of_month(span, int(day[1] or day[2]), said_at)
    if cues["weekday"].search(span.text) and said_at - span.end < timedelta(days=7):
        week = timedelta(days=7)
        return replace(span, start=span.start + week, end=span.end + week)
    return span


def _move_years(span: TimeSpan, years: int, said_at: datetime) -> TimeSpan:
    for shift in (years, years + 1):
        with suppress(ValueError):  # 29 February
            start = span.start.replace(year=span.start.year + shift)
            end = span.end.replace(year=span.end.year + shift)
            if end > said_at:
                return replace(span, start=start, end=end)
    return span


def _next_day_of_month(span: TimeSpan, day: int, said_at: datetime) -> TimeSpan:
    begin = said_at.astimezone(span.start.tzinfo).replace(hour=0, minute=0, second=0, microsecond=0)
    for later in range(62):
        start = begin + timedelta(days=later)
        if start.day == day:
            return replace(span, start=start, end=start + timedelta(days=1))
    return span
