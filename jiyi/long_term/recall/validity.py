"""How long a statement "for a while" holds: its calendar words, read forward from when it was said."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from jiyi.clock import to_micros, utc_from_micros

__all__ = ["validity"]

_FORTNIGHT = timedelta(days=14)  # taken for granted where a text names no end
_DAY = timedelta(days=1)
_LATELY = 60  # days: an earlier date is one of next year

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATES = re.compile(
    rf"(?P<m1>\d{{1,2}}) ?月 ?(?P<d1>\d{{1,2}})"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH})\b"
    rf"|\b(?P<m3>{_MONTH}) (?P<d3>\d{{1,2}})\b|\b(?P<d4>\d{{1,2}})(?:st|nd|rd|th)\b"
    r"|(?P<d5>\d{1,2}) ?[号日]"
    r"|(?P<next>下)?个?(?:周|星期|礼拜)(?P<w1>[一二三四五六日天])"
    r"|\b(?P<w2>mon|tue|wed|thu|fri|sat|sun)(?:s|nes|rs|ur)?day\b(?! (?:the )?\d)",
    re.IGNORECASE,
)
_SPANS = re.compile(
    r"(?P<week>(?:这周|本周|这星期|这个?礼拜)(?![一二三四五六日天])|这个?周末|\bthis week(?:end)?\b)"
    r"|(?P<today>今天|今晚|\btoday\b|\btonight\b)"
    r"|(?P<tomorrow>明天|\btomorrow\b)|(?P<month>这个月|本月|\bthis month\b)"
    r"|(?P<n>[一两二三四几2-9]|\b(?:a|one|two|three|four|next)) ?个?"
    r"(?P<unit>天|周|星期|礼拜|月|days?|weeks?|months?)",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b20\d\d\b")
_COUNTS = {"一": 1, "a": 1, "one": 1, "next": 1, "两": 2, "二": 2, "two": 2, "三": 3, "three": 3, "几": 4}
_COUNTS |= {"四": 4, "four": 4}


def validity(text: str, said_at: int, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return from when until when a temporary statement holds, in microseconds since 1970.

    "from the 14th to the 28th", 这周三到周五, "until Friday", 这两周: the first and the day after
    the last date that is named; from when it was said where only one is; a fortnight where none is.
    """
    today = utc_from_micros(said_at).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [day for match in _DATES.finditer(text) if (day := _date(match, today)) is not None]
    for match in _SPANS.finditer(text):
        day = _end_of(match, today, counted=not days)
        days += [day] if day else []
    if not days and (year := _YEAR.search(text)):
        days = [today.replace(year=int(year[0]), month=12, day=31)]
    if not days:
        return to_micros(today), to_micros(today + _FORTNIGHT)
    start = min(days) if len(days) > 1 else today
    return to_micros(min(start, max(days))), to_micros(max(days) + _DAY)


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
        return today + _DAY
    if part["month"]:
        return _first_of_next_month(today) - _DAY
    if not counted:
        return None
    unit = part["unit"].lower()
    count = _COUNTS.get(part["n"].lower()) or int(part["n"])
    days = 1 if unit[0] in "d天" else 30 if unit[0] in "m月" else 7
    return today + timedelta(days=count * days)


def _first_of_next_month(day: datetime) -> datetime:
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
