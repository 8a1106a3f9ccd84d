"""Calendar arithmetic on whole days: weeks, months, seasons, and the days next to them and inside them.

Days are ordinals (`datetime.date.toordinal`). Weeks begin on Monday (ISO 8601).
A year, month or day that does not exist raises ValueError or OverflowError.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

Unit = Literal["day", "weekend", "week", "month", "quarter", "season", "half", "year", "span"]
"""What a stretch of days is; "span" is any other."""

Part = Literal["start", "middle", "end"]  # of a stretch of days

_YEAR_PARTS = {"start": (0, 3), "middle": (4, 8), "end": (9, 12)}  # in months after its beginning


@dataclass(frozen=True, slots=True)
class Amount:
    """How many: from ``low`` to ``high``, which are the same where the words are clear."""

    low: float
    high: float


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

    def narrow(self, part: Part) -> "Days":
        """Return the first, middle or last third; of a year three, four or three months."""
        if self.end - self.first == 1:
            return self
        if self.unit == "year":
            first, end = (add_months(self.first, months) for months in _YEAR_PARTS[part])
        else:
            size = 10 if self.unit == "month" else (self.end - self.first) // 3
            first = self.first + size * list(_YEAR_PARTS).index(part)
            end = self.end if part == "end" else first + size
        return replace(self, first=first, end=end, unit="span", exact=False, weak=False)

    def adjacent(self, unit: Unit, count: int) -> "Days":
        """Return the ``count`` units right after; before where ``count`` is negative."""
        if unit == "weekend":
            after, before = weekday_near(self.end - 1, 5, 1), weekday_near(self.first - 1, 5, -1)
            saturday = after + 7 * (count - 1) if count > 0 else before + 7 * (count + 1)
            return Days(saturday, saturday + 2, "weekend", self.exact)
        edge = self.end if count > 0 else self.first
        if unit in ("day", "week"):
            other = edge + count * (7 if unit == "week" else 1)
        else:
            other = add_months(edge, count * (12 if unit == "year" else 1))
        unit = "day" if abs(other - edge) == 1 else "span"
        return Days(min(edge, other), max(edge, other), unit, self.exact)

    def nth(self, unit: Unit, count: int, name: int | None = None) -> "Days":
        """Return the ``count``-th unit inside, the last for -1; ``name`` asks for a weekday.

        Weeks are stretches of seven days from the first day on.
        """
        if name is not None or unit == "weekend":
            wanted, size, unit = (5, 2, unit) if name is None else (name, 1, "day")
            if count > 0:
                first = weekday_near(self.first - 1, wanted, 1) + 7 * (count - 1)
            else:
                first = weekday_near(self.end, wanted, -1)
            end = first + size
        elif unit in ("day", "week"):
            size = 7 if unit == "week" else 1
            first = self.first + size * (count - 1) if count > 0 else self.end - size
            end = first + size
        elif unit == "half" and self.unit != "year":
            unit, middle = "span", (self.first + self.end) // 2
            first, end = (self.first, middle) if count == 1 else (middle, self.end)
        else:
            size = {"month": 1, "quarter": 3, "half": 6}[unit]
            first = add_months(self.first, size * (count - 1)) if count > 0 else add_months(self.end, -size)
            end = add_months(first, size)
        if not self.first <= first < self.end:
            raise ValueError("not so many in it")
        return Days(first, end, unit, self.exact, self.guessed)

    def in_year(self, number: int) -> "Days":
        """Return what was said without a year in the year ``number``."""
        at = date.fromordinal(self.first)
        first = date(number, at.month, at.day).toordinal()
        end = _next_month(first) if self.unit == "month" else first + self.end - self.first
        return replace(self, first=first, end=end, exact=True, guessed="")

    def around(self, unit: Unit) -> "Days":
        """Return the unit that a day is in ("the week of 9 June"); longer stretches stay as they are."""
        return replace(shift_day(self.first, unit, 0), exact=self.exact) if self.unit == "day" else self


def one_day(day: int) -> Days:
    """Return a single day."""
    return Days(day, day + 1)


def weekday(day: int) -> int:
    """Return 0 for a Monday to 6 for a Sunday."""
    return (day - 1) % 7


def weekday_near(day: int, name: int, side: int) -> int:
    """Return the nearest weekday ``name`` before ``day`` (side -1) or after it (side 1), never itself."""
    if side < 0:
        return day - 1 - (weekday(day - 1) - name) % 7
    return day + 1 + (name - weekday(day + 1)) % 7


def add_months(day: int, count: int) -> int:
    """Return the same day so many months later, or the last day of a shorter month."""
    at = date.fromordinal(day)
    first = _month_start(at.year, at.month + count)
    return min(first + at.day - 1, _next_month(first) - 1)


def _next_month(first: int) -> int:
    at = date.fromordinal(first)
    return _month_start(at.year, at.month + 1)


def _month_start(year: int, month: int) -> int:
    return date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1).toordinal()


def months(year: int, month: int, count: int, unit: Unit) -> Days:
    """Return ``count`` months from ``month`` on, which may be below 1 or above 12."""
    return Days(_month_start(year, month), _month_start(year, month + count), unit)


def month_day(year: int, month: int, day: int | None = None, last: int | None = None) -> Days:
    """Return a month, a day of it, or its days ``day`` to ``last``."""
    if day is None:
        return months(year, month, 1, "month")
    first = date(year, month, day).toordinal()
    if last is None:
        return one_day(first)
    end = date(year, month, last).toordinal() + 1
    if end <= first:
        raise ValueError("a range that ends before it begins")
    return Days(first, end, "span")


def shift_day(day: int, unit: Unit, count: int) -> Days:
    """Return the day, or the calendar week, weekend, month, quarter or year, ``count`` from ``day``'s."""
    if unit == "day":
        return one_day(day + count)
    if unit in ("week", "weekend"):
        monday = day - weekday(day) + 7 * count
        return Days(monday if unit == "week" else monday + 5, monday + 7, unit)
    at = date.fromordinal(day)
    if unit == "month":
        return months(at.year, at.month + count, 1, unit)
    if unit == "quarter":
        return months(at.year, 3 * ((at.month - 1) // 3 + count) + 1, 3, unit)
    return months(at.year + count, 1, 12, "year")


def day_number(today: int, number: int, name: int | None = None, side: int = -1) -> Days | None:
    """Return the nearest day with this number in its month (and this weekday), not after today.

    With side 1 it is not before today. None if there is none within a year.
    """
    at = date.fromordinal(today)
    for step in range(13):
        first = _month_start(at.year, at.month + side * step)
        day = first + number - 1
        fits = day < _next_month(first) and (day <= today if side < 0 else day >= today)
        if fits and name in (None, weekday(day)):
            return Days(day, day + 1, exact=False)
    return None


def locate(at: Callable[[int], Days | None], today: int, number: int | None, step: int | None = None) -> Days:
    """Return what recurs every year as it is in the year ``number`` or, if that is None, by ``step``.

    A step of -1 is the latest that is over, 0 the present one or this year's, 1 the first that begins
    later; None is the latest that has begun, which is not exact.

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


def count_from(day: int, amount: Amount, unit: Unit, side: int) -> Days:
    """Return the unit ``amount`` before (side -1) or after (1) that of ``day``; a span if vague."""
    if amount.low == amount.high and amount.low != int(amount.low):
        amount, unit = _in_smaller(amount.low, unit)
    one = shift_day(day, unit, side * int(amount.low))
    if amount.low == amount.high:
        return one
    other = shift_day(day, unit, side * int(amount.high))
    return Days(min(one.first, other.first), max(one.end, other.end), "span", exact=False)


def _in_smaller(number: float, unit: Unit) -> tuple[Amount, Unit]:
    """Return half years in months, and half months and weeks in days, as a range around the number."""
    if unit == "year":
        return Amount(number * 12 - 1, number * 12 + 1), "month"
    size, slack = {"month": (30, 3), "week": (7, 1)}.get(unit, (1, 0))
    return Amount(int(number * size) - slack, int(number * size) + slack), "day"
