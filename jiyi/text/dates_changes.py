"""What words like "the week before" or 那周 make of the expression beside them."""

from dataclasses import replace

from jiyi.text.dates_calendar import Days, Part, Unit, beside, narrowed, nth, shifted, weekday_near
from jiyi.text.dates_rules import Amount, Change, counted

__all__ = ["containing", "counted_from", "nearest_weekday", "next_to", "nth_in", "part_of"]


def part_of(part: Part) -> Change:
    """Return what takes a part of it: early May, the end of 2022."""
    return lambda days: narrowed(days, part)


def containing(unit: Unit) -> Change:
    """Return what takes the unit around a day; longer stretches stay: the week of 9 June."""

    def change(days: Days) -> Days:
        return replace(shifted(days.first, unit, 0), exact=days.exact) if days.unit == "day" else days

    return change


def nth_in(unit: Unit, count: int, name: int | None = None) -> Change:
    """Return what takes the ``count``-th unit (or weekday ``name``) inside it, the last for -1."""
    return lambda days: None if days.unit == "day" else nth(days, unit, count, name)


def next_to(unit: Unit, count: int) -> Change:
    """Return what takes the units right after it, or right before it for a negative ``count``."""
    return lambda days: beside(days, unit, count)


def nearest_weekday(name: int, side: int) -> Change:
    """Return what takes the nearest weekday ``name`` before it (side -1) or after it (side 1)."""

    def change(days: Days) -> Days:
        day = weekday_near(days.first if side < 0 else days.end - 1, name, side)
        return Days(day, day + 1, exact=days.exact)

    return change


def counted_from(amount: Amount, unit: Unit, sign: int) -> Change:
    """Return what counts units back or on from a day: two weeks after 3 May."""

    def change(days: Days) -> Days | None:
        if days.unit != "day":
            return None
        found = counted(days.first, amount, unit, sign)
        return replace(found, exact=found.exact and days.exact)

    return change
