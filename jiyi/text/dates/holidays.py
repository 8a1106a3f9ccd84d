"""Holidays by name and year: fixed days, computed days, those of the Chinese calendar (2015 to 2035)."""

from collections.abc import Callable
from datetime import date
from functools import partial

from jiyi.text.dates.calendar import Days, nth

__all__ = ["HOLIDAYS", "holiday_week"]

_FIRST_YEAR = 2015

_FIXED = {
    "new year": (1, 1),
    "valentine": (2, 14),
    "women": (3, 8),
    "st patrick": (3, 17),
    "april fools": (4, 1),
    "labour": (5, 1),
    "children": (6, 1),
    "july 4": (7, 4),
    "teachers": (9, 10),
    "national": (10, 1),
    "halloween": (10, 31),
    "singles": (11, 11),
    "double 12": (12, 12),
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "boxing": (12, 26),
    "new year's eve": (12, 31),
}

# Month and day of each year from 2015 on (Hong Kong Observatory, Gregorian-Lunar Calendar Conversion Table).
_CHINESE = {
    "spring festival": (
        "0219 0208 0128 0216 0205 0125 0212 0201 0122 0210 0129 "
        "0217 0206 0126 0213 0203 0123 0211 0131 0219 0208"
    ),
    "qingming": (
        "0405 0404 0404 0405 0405 0404 0404 0405 0405 0404 0404 "
        "0405 0405 0404 0404 0405 0405 0404 0404 0405 0405"
    ),
    "dragon boat": (
        "0620 0609 0530 0618 0607 0625 0614 0603 0622 0610 0531 "
        "0619 0609 0528 0616 0605 0624 0612 0601 0620 0610"
    ),
    "qixi": (
        "0820 0809 0828 0817 0807 0825 0814 0804 0822 0810 0829 "
        "0819 0808 0826 0816 0805 0824 0812 0801 0820 0810"
    ),
    "mid-autumn": (
        "0927 0915 1004 0924 0913 1001 0921 0910 0929 0917 1006 "
        "0925 0915 1003 0922 0912 1001 0919 0908 0927 0916"
    ),
    "double ninth": (
        "1021 1009 1028 1017 1007 1025 1014 1004 1023 1011 1029 "
        "1018 1008 1026 1016 1005 1024 1012 1001 1020 1009"
    ),
}

# Days before the holiday, and days of the break in all.
_BREAKS = {"spring festival": (1, 8), "national": (0, 7), "labour": (0, 5), "christmas": (1, 3)}


def _day(year: int, month: int, day: int) -> Days:
    first = date(year, month, day).toordinal()
    return Days(first, first + 1)


def _chinese(year: int, name: str, later: int = 0) -> Days | None:
    table = _CHINESE[name].split()
    if not 0 <= year - _FIRST_YEAR < len(table):
        return None
    entry = table[year - _FIRST_YEAR]
    first = date(year, int(entry[:2]), int(entry[2:])).toordinal() + later
    return Days(first, first + 1)


def _weekday_of(year: int, month: int, count: int, name: int, later: int = 0) -> Days:
    first = date(year, month, 1).toordinal()
    found = nth(Days(first, first + 31), "day", count, name).first + later
    return Days(found, found + 1)


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
    first = date(year, month, day + 1).toordinal() + later
    return Days(first, first + 1)


HOLIDAYS: dict[str, Callable[[int], Days | None]] = {
    **{name: partial(_day, month=month, day=day) for name, (month, day) in _FIXED.items()},
    **{name: partial(_chinese, name=name) for name in _CHINESE},
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
"""What gives the day of a holiday in a year; None where the table does not reach."""


def holiday_week(name: str) -> Callable[[int], Days | None]:
    """Return what gives the days off around the holiday ``name``: three, or as many as China gives."""

    def week(year: int) -> Days | None:
        day = HOLIDAYS[name](year)
        if day is None:
            return None
        before, length = _BREAKS.get(name, (0, 3))
        return Days(day.first - before, day.first - before + length, "span", exact=False)

    return week
