"""Holidays by name and year: fixed days, computed days, those of the Chinese calendar (2015 to 2035)."""

from collections.abc import Callable
from datetime import date
from functools import cache, partial

from jiyi.text.dates.calendar import Days, nth, one_day
from jiyi.text.lexicon import read_toml

__all__ = ["holiday", "holiday_week"]

_FIRST_YEAR = 2015


_tables = cache(partial(read_toml, __package__, "holidays"))


def _chinese(year: int, name: str, later: int = 0) -> Days | None:
    days = _tables()["chinese"][name].split()
    if not 0 <= year - _FIRST_YEAR < len(days):
        return None
    day = days[year - _FIRST_YEAR]
    return one_day(date(year, int(day[:2]), int(day[2:])).toordinal() + later)


def _weekday_of(year: int, month: int, count: int, name: int, later: int = 0) -> Days:
    first = date(year, month, 1).toordinal()
    return one_day(nth(Days(first, first + 31), "day", count, name).first + later)


def _easter(year: int, later: int = 0) -> Days:
    """Anonymous Gregorian algorithm (Meeus, Astronomical Algorithms, 1991, chapter 8)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return one_day(date(year, month, day + 1).toordinal() + later)


_COMPUTED: dict[str, Callable[[int], Days | None]] = {
    "spring festival eve": partial(_chinese, name="spring festival", later=-1),
    "lantern": partial(_chinese, name="spring festival", later=14),
    "ash wednesday": partial(_easter, later=-46),
    "good friday": partial(_easter, later=-2),
    "easter": _easter,
    "easter monday": partial(_easter, later=1),
    "mother": partial(_weekday_of, month=5, count=2, name=6),
    "father": partial(_weekday_of, month=6, count=3, name=6),
    "thanksgiving": partial(_weekday_of, month=11, count=4, name=3),
    "black friday": partial(_weekday_of, month=11, count=4, name=3, later=1),
}


def holiday(year: int, name: str) -> Days | None:
    """Return the day of the holiday ``name`` in a year; None where the table does not reach."""
    if name in _COMPUTED:
        return _COMPUTED[name](year)
    if name in _tables()["chinese"]:
        return _chinese(year, name)
    month, day = _tables()["fixed"][name]
    return one_day(date(year, month, day).toordinal())


def holiday_week(year: int, name: str) -> Days | None:
    """Return the days off around a holiday: three, or as many as China gives."""
    day = holiday(year, name)
    if day is None:
        return None
    before, length = _tables()["breaks"].get(name, (0, 3))
    return Days(day.first - before, day.first - before + length, "span", exact=False)
