"""When a statement holds: from the dates a sentence names."""

from dataclasses import replace
from datetime import datetime, timedelta, tzinfo

from jiyi.extraction.values import patterns
from jiyi.text import TimeSpan, find_dates, has_date
from jiyi.text.modality import Mode

__all__ = ["ahead", "first_day_ahead", "validity"]

_WHILE = timedelta(days=100)  # what is said to last longer is no exception


def validity(
    sentence: str, mode: Mode, said_at: datetime, zone: tzinfo, value: str = ""
) -> tuple[datetime | None, datetime | None]:
    """Return from when and until when a statement holds, None where the sentence does not say.

    A range counts where the sentence says that it is for a while or names both ends; a begin
    where it says from when. Days inside the value itself are the value. A day without a year
    or month is the next one: who says from when, speaks of what comes.
    """
    if not has_date(sentence):
        return None, None
    signs = patterns("forms", "times")
    at = sentence.find(value) if value else -1
    spans = [
        ahead(span, said_at)
        for span in find_dates(sentence, said_at, zone)
        if not at <= span.at < at + len(value) and not signs["repeated"].search(sentence[: span.at])
    ]
    for place, span in enumerate(spans):
        head, end = sentence[: span.at], span.at + len(span.text)
        if signs["begins"].search(head) or signs["begins_after"].match(sentence, end):
            after = spans[place + 1] if place + 1 < len(spans) else None
            bounded = after is not None and signs["to"].search(sentence[: after.at]) is not None
            if (day := signs["to_day"].match(sentence, end)) is not None:
                return span.start, _next_day(span, int(day[1]), span.start).end
            if mode & Mode.TEMPORARY and after is not None and bounded and after.end > span.start:
                return span.start, after.end
            is_range = span.end - span.start > timedelta(days=1)
            if mode & Mode.TEMPORARY and is_range and said_at < span.end <= said_at + _WHILE:
                return _begin(span, said_at), span.end
            return span.start, None
        if signs["until"].search(head) or signs["until_after"].match(sentence, end):
            return None, (span.end if span.end > said_at else None)
    if mode & Mode.TEMPORARY:
        for span in spans:
            if said_at < span.end <= said_at + _WHILE:
                return _begin(span, said_at), span.end
    return None, None


def first_day_ahead(sentence: str, said_at: datetime, zone: tzinfo) -> datetime | None:
    """Return when the first time that a sentence names and that is not over begins, or None."""
    if not has_date(sentence):
        return None
    until = patterns("forms", "times")["until"]
    found = find_dates(sentence, said_at, zone)
    spans = (ahead(span, said_at) for span in found if not until.search(sentence[: span.at]))
    return next((span.start for span in spans if span.end > said_at), None)


def _begin(span: TimeSpan, said_at: datetime) -> datetime | None:
    return span.start if span.start > said_at else None


def ahead(span: TimeSpan, said_at: datetime) -> TimeSpan:
    """Return a span whose year, month or week was guessed as the next such one, if it is over."""
    if span.exact or span.end > said_at:
        return span
    signs = patterns("forms", "times")
    alone = signs["day_alone"].search(span.text)
    if signs["month"].search(span.text):
        return _moved(span, said_at.year - span.start.year, said_at)
    if alone is not None:
        return _next_day(span, int(alone[1] or alone[2]), said_at)
    if signs["weekday"].search(span.text) and said_at - span.end < timedelta(days=7):
        week = timedelta(days=7)
        return replace(span, start=span.start + week, end=span.end + week)
    return span


def _moved(span: TimeSpan, years: int, said_at: datetime) -> TimeSpan:
    for more in (years, years + 1):
        try:
            start = span.start.replace(year=span.start.year + more)
            end = span.end.replace(year=span.end.year + more)
        except ValueError:  # 29 February
            return span
        if end > said_at:
            return replace(span, start=start, end=end)
    return span


def _next_day(span: TimeSpan, day: int, said_at: datetime) -> TimeSpan:
    begin = said_at.astimezone(span.start.tzinfo).replace(hour=0, minute=0, second=0, microsecond=0)
    for later in range(62):
        start = begin + timedelta(days=later)
        if start.day == day:
            return replace(span, start=start, end=start + timedelta(days=1))
    return span
