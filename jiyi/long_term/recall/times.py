"""Times in questions and statements: which time a question asks about, how long a statement holds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from typing import Literal

from jiyi.clock import to_micros, utc_from_micros
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.times import ahead
from jiyi.extraction.values import patterns
from jiyi.text import find_dates, has_date

__all__ = ["DAY", "AskedTime", "asked_time", "cues", "validity"]

DAY = 86_400 * 1_000_000
"""Microseconds of a day."""

_LONG = 200  # characters; a longer text tells something rather than asks one thing
_DAY = timedelta(days=1)
_FORTNIGHT = timedelta(days=14)  # taken for granted where a text names no end


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

    这周三到周五, "until Friday", "until October": until the last date that is named, from the first
    where another follows it or it is a stretch, else from the day it was said; a fortnight where none lies
    ahead.
    """
    now = utc_from_micros(said_at)
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found = find_dates(text, now, zone) if has_date(text) else []
    spans = [span for span in (ahead(span, now) for span in found) if span.end > now]
    end = max((span.end for span in spans), default=today + _FORTNIGHT)
    stretch = len(spans) > 1 or any(span.end - span.start > _DAY for span in spans)
    begins = stretch and not patterns("forms", "times")["until"].search(text[: spans[0].at])
    return to_micros(max(today, spans[0].start) if begins else today), to_micros(end)
