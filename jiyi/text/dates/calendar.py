"""Calendar arithmetic on whole days: weeks, months, seasons, and the days next to them and inside them.

Days are ordinals (`datetime.date.toordinal`). Weeks begin on Monday (ISO 8601), spring begins in March.
A year, month or day that does not exist raises ValueError or OverflowError.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

__all__ = [
    "Amount",
    "Days",
    "Part",
    "Unit",
    "add_months",
    "adjacent",
    "around",
    "count_from",
    "count_from_day",
    "day_number",
    "in_year",
    "locate",
    "month_day",
    "narrow",
    "nth",
    "one_day",
    "part_of_year",
    "season",
    "shift_day",
    "weekday",
    "weekday_near",
    "year",
]

Unit = Literal["day", "weekend", "week", "month", "quarter", "season", "half", "year", "span"]
"""What a stretch of days is; "span" is any other."""

Part = Literal["start", "middle", "end"]  # of a stretch of days

_SEASONS = {"spring": (3, 3), "summer": (6, 3), "autumn": (9, 3), "winter": (12, 3)}
_HOLIDAYS = {"summer break": (7, 2), "winter break": (1, 2)}  # 暑假, 寒假


@dataclass(frozen=True, slots=True)
class Days:
    """A stretch of whole days."""

    first: int  # the ordinal of the first day
    end: int  # the ordinal of the day after the last
    unit: Unit = "day"  # what they are
    exact: bool = True  # no year was guessed and the words are not vague
    guessed: Literal["", "week", "year"] = ""  # what the words leave out
    weak: bool = False  # counts only as a part of a longer expression
    open: bool = False  # lasts until the present moment


@dataclass(frozen=True, slots=True)
class Amount:
    """How many: from ``low`` to ``high``, which are the same where the words are clear."""

    low: float
    high: float


def one_day(day: int) -> Days:
    """Return a single day."""
    return Days(day, day + 1)


def weekday(day: int) -> int:
    """Return 0 for a Monday to 6 for a Sunday."""
    return (day - 1) % 7


def add_months(day: int, months: int) -> int:
    """Return the same day so many months later, or the last day of a shorter month."""
    at = date.fromordinal(day)
    first = _month_start(at.year * 12 + at.month - 1 + months)
    return min(first + at.day - 1, _next_month(first) - 1)


def _next_month(first: int) -> int:
    at = date.fromordinal(first)
    return _month_start(at.year * 12 + at.month)


def _month_start(months: int) -> int:
    return date(months // 12, months % 12 + 1, 1).toordinal()


def _months(months: int, count: int, unit: Unit) -> Days:
    return Days(_month_start(months), _month_start(months + count), unit)


def month_day(at_year: int, month: int, day: int | None = None, last: int | None = None) -> Days:
    """Return a month, a day of it, or its days ``day`` to ``last``."""
    if day is None:
        return _months(at_year * 12 + month - 1, 1, "month")
    first = date(at_year, month, day).toordinal()
    if last is None:
        return Days(first, first + 1)
    end = date(at_year, month, last).toordinal() + 1
    if end <= first:
        raise ValueError("a range that ends before it begins")
    return Days(first, end, "span")


def year(number: int) -> Days:
    """Return a year."""
    return _months(number * 12, 12, "year")


def part_of_year(at_year: int, unit: Literal["half", "quarter"], number: int) -> Days:
    """Return a half of a year or a quarter, counted from 1."""
    size = 6 if unit == "half" else 3
    return _months(at_year * 12 + size * (number - 1), size, unit)


def season(at_year: int, name: str) -> Days:
    """Return a season or school holiday; winter is that which begins in December of the year."""
    month, count = _SEASONS.get(name) or _HOLIDAYS[name]
    return _months(at_year * 12 + month - 1, count, "season")


def shift_day(day: int, unit: Unit, count: int) -> Days:
    """Return the day, or the calendar week, weekend, month, quarter or year, ``count`` from ``day``'s."""
    if unit == "day":
        return Days(day + count, day + count + 1)
    if unit in ("week", "weekend"):
        monday = day - weekday(day) + 7 * count
        return Days(monday, monday + 7, unit) if unit == "week" else Days(monday + 5, monday + 7, unit)
    at = date.fromordinal(day)
    if unit == "month":
        return _months(at.year * 12 + at.month - 1 + count, 1, unit)
    if unit == "quarter":
        return _months(at.year * 12 + 3 * ((at.month - 1) // 3 + count), 3, unit)
    return year(at.year + count)


def adjacent(days: Days, unit: Unit, count: int) -> Days:
    """Return the ``count`` units right after ``days``; before them where ``count`` is negative."""
    if unit == "weekend":
        after, before = weekday_near(days.end - 1, 5, 1), weekday_near(days.first - 1, 5, -1)
        saturday = after + 7 * (count - 1) if count > 0 else before + 7 * (count + 1)
        return Days(saturday, saturday + 2, "weekend", days.exact)
    edge = days.end if count > 0 else days.first
    if unit in ("day", "week"):
        other = edge + count * (7 if unit == "week" else 1)
    else:
        other = add_months(edge, count * (12 if unit == "year" else 1))
    return Days(min(edge, other), max(edge, other), "day" if abs(other - edge) == 1 else "span", days.exact)


def weekday_near(day: int, name: int, side: int) -> int:
    """Return the nearest weekday ``name`` before ``day`` (side -1) or after it (side 1), never itself."""
    if side < 0:
        return day - 1 - (weekday(day - 1) - name) % 7
    return day + 1 + (name - weekday(day + 1)) % 7


def nth(days: Days, unit: Unit, count: int, name: int | None = None) -> Days:
    """Return the ``count``-th unit inside ``days``, the last for -1; ``name`` asks for a weekday.

    Weeks are stretches of seven days from the first day on.
    """
    if name is not None or unit == "weekend":
        wanted = 5 if name is None else name
        day = (
            weekday_near(days.first - 1, wanted, 1) + 7 * (count - 1)
            if count > 0
            else weekday_near(days.end, wanted, -1)
        )
        found = Days(day, day + (2 if name is None else 1), "weekend" if name is None else "day")
    elif unit in ("day", "week"):
        size = 7 if unit == "week" else 1
        first = days.first + size * (count - 1) if count > 0 else days.end - size
        found = Days(first, first + size, unit)
    elif unit == "half" and days.unit != "year":
        middle = (days.first + days.end) // 2
        found = Days(days.first, middle, "span") if count == 1 else Days(middle, days.end, "span")
    else:
        size = {"month": 1, "quarter": 3, "half": 6}[unit]
        first = add_months(days.first, size * (count - 1)) if count > 0 else add_months(days.end, -size)
        found = Days(first, add_months(first, size), unit)
    if not days.first <= found.first < days.end:
        raise ValueError("not so many in it")
    return replace(found, exact=days.exact, guessed=days.guessed)


def day_number(today: int, number: int, name: int | None = None, side: int = -1) -> Days | None:
    """Return the nearest day with this number in its month (and this weekday), not after today.

    With side 1 it is not before today. None if there is none within a year.
    """
    at = date.fromordinal(today)
    for step in range(13):
        first = _month_start(at.year * 12 + at.month - 1 + side * step)
        day = first + number - 1
        fits = day < _next_month(first) and (day <= today if side < 0 else day >= today)
        if fits and name in (None, weekday(day)):
            return Days(day, day + 1, exact=False)
    return None


def narrow(days: Days, part: Part) -> Days:
    """Return the first, middle or last third of ``days``; of a year three, four or three months."""
    if days.end - days.first == 1:
        return days
    if days.unit == "year":
        start, size = {"start": (0, 3), "middle": (4, 4), "end": (9, 3)}[part]
        first = add_months(days.first, start)
        return replace(days, first=first, end=add_months(first, size), unit="span", exact=False, weak=False)
    size = (days.end - days.first) // 3
    if days.unit == "month":
        size = 10
    first, end = days.first, days.end
    if part == "start":
        end = first + size
    elif part == "end":
        first += 2 * size
    else:
        first, end = first + size, first + 2 * size
    return replace(days, first=first, end=end, unit="span", exact=False, weak=False)


def locate(at: Callable[[int], Days | None], today: int, number: int | None, step: int | None = None) -> Days:
    """Return what recurs every year as it is in the year ``number`` or, if that is None, by ``step``.

    A step of -1 is the latest that is over, 0 the present one or this year's, 1 the first that begins
    later; None is the latest that has begun, which is not exact.

    Raises:
        ValueError: there is none, or ``at`` does not know one that has to be asked.
    """
    current = date.fromordinal(today).year
    if number is not None:
        return _require(at(number))
    if step == 0:
        before = at(current - 1)
        return before if before and before.first <= today < before.end else _require(at(current))
    # Eight years: 29 February may be missing that long (1896 to 1904).
    for asked in range(current, current + 9) if step == 1 else range(current, current - 9, -1):
        try:
            found = at(asked)
        except ValueError:
            continue
        found = _require(found)
        if step is None and found.first <= today:
            return replace(found, exact=False, guessed="year")
        if (step == -1 and found.end <= today) or (step == 1 and found.first > today):
            return found
    raise ValueError("no such day")


def _require(days: Days | None) -> Days:
    if days is None:
        raise ValueError("no such day is known")
    return days


def in_year(days: Days, number: int) -> Days:
    """Return what was said without a year in the year ``number``."""
    at = date.fromordinal(days.first)
    first = date(number, at.month, at.day).toordinal()
    end = _next_month(first) if days.unit == "month" else first + days.end - days.first
    return replace(days, first=first, end=end, exact=True, guessed="")


def around(days: Days, unit: Unit) -> Days:
    """Return the unit that a day is in ("the week of 9 June"); longer stretches are returned unchanged."""
    return replace(shift_day(days.first, unit, 0), exact=days.exact) if days.unit == "day" else days


def count_from_day(day: int, amount: Amount, unit: Unit, side: int) -> Days:
    """Return the unit ``amount`` before (side -1) or after (1) that of ``day``; a span if vague."""
    if amount.low == amount.high and amount.low != int(amount.low):
        amount, unit = _in_smaller(amount.low, unit)
    one = shift_day(day, unit, side * int(amount.low))
    if amount.low == amount.high:
        return one
    other = shift_day(day, unit, side * int(amount.high))
    return Days(min(one.first, other.first), max(one.end, other.end), "span", exact=False)


def count_from(days: Days, amount: Amount, unit: Unit, side: int) -> Days | None:
    """Return the unit counted back or on from a day (two weeks after 3 May); None for longer stretches."""
    if days.unit != "day":
        return None
    found = count_from_day(days.first, amount, unit, side)
    return replace(found, exact=found.exact and days.exact)


def _in_smaller(number: float, unit: Unit) -> tuple[Amount, Unit]:
    """Return half years in months, and half months and weeks in days, as a range around the number."""
    if unit == "year":
        return Amount(number * 12 - 1, number * 12 + 1), "month"
    size, slack = {"month": (30, 3), "week": (7, 1)}.get(unit, (1, 0))
    return Amount(int(number * size) - slack, int(number * size) + slack), "day"
