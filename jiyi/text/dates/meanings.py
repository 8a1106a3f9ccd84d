"""Functions that compute from the slots of a match what it means, for Chinese and English alike.

They return days, or how to change the expression next to the match, or None if it is no date. A year,
month or day that does not exist raises ValueError or OverflowError.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import cache, partial
from typing import cast

from jiyi.text.dates import calendar
from jiyi.text.dates.calendar import Amount, Days, Unit, one_day
from jiyi.text.dates.slots import Context, Measure, Slots
from jiyi.text.lexicon import read_toml

_FIRST_YEAR = 2015  # of the table of Chinese holidays
_tables = cache(partial(read_toml, __package__, "holidays"))


def _easter(year: int) -> tuple[int, int]:
    """Return month and day (Meeus, Astronomical Algorithms, 1991, chapter 8: the anonymous algorithm)."""
    a, (b, c) = year % 19, divmod(year, 100)
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    m = (32 + 2 * e + 2 * i - h - k) % 7
    n = (a + 11 * h + 22 * m) // 451
    month, day = divmod(h + m - 7 * n + 114, 31)
    return month, day + 1


def _day_off(year: int, name: str) -> Days | None:
    """Return the day of the holiday ``name`` in a year; None where the table does not reach."""
    tables = _tables()
    name, later = tables["beside"].get(name, (name, 0))
    if name in tables["chinese"]:
        days = tables["chinese"][name].split()
        if not 0 <= year - _FIRST_YEAR < len(days):
            return None
        month, day = divmod(int(days[year - _FIRST_YEAR]), 100)
    elif name in tables["weekday"]:
        month, count, weekday = tables["weekday"][name]
        return one_day(calendar.month_day(year, month).nth("day", count, weekday).first + later)
    else:
        month, day = _easter(year) if name == "easter" else tables["fixed"][name]
    return one_day(date(year, month, day).toordinal() + later)


def _days_off(year: int, name: str) -> Days | None:
    """Return the days off around a holiday: three, or as many as China gives."""
    if (day := _day_off(year, name)) is None:
        return None
    before, length = _tables()["breaks"].get(name, (0, 3))
    return Days(day.first - before, day.first - before + length, "span", exact=False)


Change = Callable[[Days], Days | None]
"""How words like "the week before" change the expression next to them."""

_CLOCK = ("hour", "minute")
_VAGUE_ZH = ("几", "两", "好几", "数")


def _part(slots: Slots, days: Days) -> Days:
    return days.narrow(slots.part) if slots.part else days


def _month_day(slots: Slots) -> Days:
    """7 May 2023, May 1-3, the fifth of May, last May, 5月7日, 2023年5月初."""
    at = partial(
        calendar.month_day, month=slots.month, day=slots.number("day"), last=slots.number("last_day")
    )
    step = slots.words.slots["which"].get(slots.word_before()) if slots.step is None else slots.step
    return _part(slots, calendar.locate(at, slots.context.today, slots.year, step))


def _month_or_day_first(slots: Slots) -> Days | None:
    """05/07/2023 and 5/7, month first; 15/07/2023 and 5.7.2023 have the day first."""
    month, day = slots.number("first") or 0, slots.number("second") or 0
    year, mark = slots.text("year"), slots.text("mark")
    if month > 12 or (mark == "." and day <= 12):
        month, day = day, month
    if year is None:
        found = calendar.locate(lambda at: calendar.month_day(at, month, day), slots.context.today, None)
        return replace(found, exact=False, guessed="year")
    number = int(year)
    if mark != slots.match["mark_2"] or (len(year) == 2 and (mark != "/" or 40 < number < 70)):
        return None
    if len(year) == 2:
        number += 2000 if number <= 40 else 1900
    return calendar.month_day(number, month, day)


def _recurring(slots: Slots, month: int, count: int, unit: Unit, year: int | None = None) -> Days:
    """Return months of the year that is named, or meant."""
    at = slots.year if year is None else year
    found = partial(calendar.months, month=month, count=count, unit=unit)
    return calendar.locate(found, slots.context.today, at, slots.step)


def _months(slots: Slots) -> Days | None:
    """3到5月."""
    first, last = slots.number("first_month") or 0, slots.month
    return _recurring(slots, first, last - first + 1, "span") if first < last else None


def _year(slots: Slots) -> Days:
    """2022, 2022年底."""
    return _part(slots, calendar.months(slots.year or 0, 1, 12, "year"))


def _years(slots: Slots) -> Days | None:
    """2019-2021."""
    first, last = slots.year or 0, int(slots.match["last_year"])
    return calendar.months(first, 1, 12 * (last - first + 1), "span") if first < last else None


def _half_year(slots: Slots) -> Days:
    """上半年, 去年下半年."""
    month = 1 if slots.text("half_year") == "上" else 7
    found = calendar.months(slots.year or slots.context.now.year, month, 6, "half")
    return replace(found, exact=slots.year is not None)


def _quarter(slots: Slots) -> Days:
    """Q1 2023, 第三季度."""
    return _recurring(slots, 3 * (slots.number("quarter") or 0) - 2, 3, "quarter")


def _season(slots: Slots) -> Days:
    """Summer 2022, last summer, 去夏, 暑假."""
    (month, count), now = slots.value("season"), slots.context.now
    last_winter = month == 12 and slots.text("year") in ("this year", "今年") and now.month < 3
    return _recurring(slots, month, count, "season", now.year - 1 if last_winter else None)


def _holiday(slots: Slots) -> Days:
    """Christmas 2022, last Christmas, 国庆假期."""
    text, (start, end) = slots.context.text, slots.match.span("holiday")
    found = {name: match.end() for name, words in slots.words.holidays if (match := words.match(text, start))}
    name = next((name for name, at in found.items() if at == end), next(iter(found)))
    days = _days_off if slots.text("days_off") else _day_off
    return calendar.locate(partial(days, name=name), slots.context.today, slots.year, slots.step)


def _in_year(slots: Slots) -> Days | Change | None:
    """2023年5月7日, 去年夏天, 2022年底, 去年第三季度, 明年春节, 去年今天."""
    for slot in ("month", "season", "quarter", "half_year", "holiday"):
        if slots.text(slot):
            return meaning("month_day" if slot == "month" else slot)(slots)
    now = slots.context.now
    return calendar.month_day(slots.year or 0, now.month, now.day) if slots.text("this_day") else _year(slots)


def _named_day(slots: Slots) -> Days:
    """Yesterday, 昨天."""
    return one_day(slots.context.today + int(slots.words.slots["day_name"][slots.match[0]]))


def _recent(slots: Slots) -> Days:
    """Recently, 最近."""
    return _rolling(slots.context, Amount(0, slots.words.slots["recent"][slots.match[0]]), "day", -1)


def _day_of_some_month(slots: Slots) -> Days | None:
    """On the 15th, 15号晚上: the latest that fits."""
    return calendar.day_number(slots.context.today, slots.number("day") or 0)


def _unit_near(slots: Slots) -> Days:
    """This month, 上上周, 上季度, 上周三, Friday last week, the 5th of last month, 这个月底."""
    found = calendar.shift_day(slots.context.today, slots.unit, slots.step or 0)
    if slots.weekday is not None:
        return one_day(found.first + slots.weekday)
    day = slots.number("day")
    return found.nth("day", day) if day else _part(slots, found)


def _week_or_last_days(slots: Slots) -> Days:
    """Last week, as a calendar week; "the past week" and "the last week" are the last seven days."""
    which = slots.text("which") or ""
    rolls = slots.text("the") or "past" in which or which == "coming"
    if slots.unit == "weekend" or not slots.step or not rolls:
        return _unit_near(slots)
    return _rolling(slots.context, Amount(1, 1), slots.unit, slots.step)


def _weekend(slots: Slots) -> Days:
    """Over the weekend, 周末: the latest that has begun."""
    saturday = calendar.weekday_near(slots.context.today + 1, 5, -1)
    return Days(saturday, saturday + 2, "weekend", exact=False, guessed="week")


def _two_away(slots: Slots) -> Days:
    """The week before last, the Friday after next."""
    if slots.weekday is None:
        return calendar.shift_day(slots.context.today, slots.unit, 2 * slots.side)
    return one_day(calendar.weekday_near(slots.context.today, slots.weekday, slots.side) + 7 * slots.side)


def _weekday_numbered(slots: Slots) -> Days | None:
    """Friday the 27th."""
    today, ahead = slots.context.today, slots.step is not None and slots.step >= 0
    base = today - calendar.weekday(today) if ahead else today
    return calendar.day_number(base, slots.number("day") or 0, slots.weekday, 1 if ahead else -1)


def _weekday_alone(slots: Slots) -> Days:
    """Last, this, next Friday; Friday and 周五 are the latest one, by Friday and 周五前 the coming one."""
    today, name, step = slots.context.today, slots.weekday or 0, slots.step
    if step is None:
        after = slots.context.text.startswith(slots.words.after["coming"], slots.match.end())
        side = 1 if after or slots.is_after("coming") else -1
        day = calendar.weekday_near(today - side, name, side)
        return replace(one_day(day), exact=False, guessed="week")
    if step < 0:
        return one_day(calendar.weekday_near(today, name, -1))
    if (slots.text("which") or "").endswith("coming"):
        return one_day(calendar.weekday_near(today, name, 1))
    return one_day(calendar.shift_day(today, "week", step).first + name)


def _counted_from_now(slots: Slots) -> Days | None:
    """Two weeks ago, in three days, two Fridays ago, 三天前, 一个月后."""
    today, side = slots.context.today, slots.side
    if slots.weekday is not None:
        weeks = int(slots.amount().high) - 1
        return one_day(calendar.weekday_near(today, slots.weekday, side) + 7 * side * weeks)
    found = slots.measured()
    return found and _from_now(slots.context, *found, side)


def _last_several(slots: Slots) -> Days | None:
    """The past two weeks, the next few days, 过去两周, 最近三天, 前几天, 过几天."""
    found, which, many = slots.measured(), slots.text("side"), slots.text("n")
    if found is None or (which in ("前", "过", "上") and many not in _VAGUE_ZH) or slots.match[0] == "这一天":
        return None
    amount, unit = found
    if many == "两" and which in ("前", "过", "这"):
        amount = Amount(1, 3)
    return _rolling(slots.context, amount, unit, slots.side)


def _from_now(context: Context, amount: Amount, unit: Measure, side: int) -> Days:
    """Return the unit ``amount`` units from now; for hours and minutes, the day of that moment."""
    if unit in _CLOCK:
        size = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
        low, high = sorted(
            (context.now + side * number * size).toordinal() for number in (amount.low, amount.high)
        )
        return Days(low, high + 1, "day" if low == high else "span")
    return calendar.count_from(context.today, amount, cast(Unit, unit), side)


def _rolling(context: Context, amount: Amount, unit: Measure, side: int) -> Days:
    """Return the last ``amount`` units up to now, or the next ones from today on."""
    number, exact, today = amount.high, amount.low == amount.high, context.today
    if unit in _CLOCK:
        other = _from_now(context, Amount(number, number), unit, side).first
    elif size := {"year": 12, "quarter": 3, "month": 1}.get(unit):
        other = calendar.add_months(today, side * int(number * size))
    else:
        other = today + side * int(number * (1 if unit == "day" else 7))
    return Days(min(today, other), max(today, other) + 1, "span", exact, open=side < 0)


def _part_of(slots: Slots) -> Change:
    """Early, in the middle of, at the end of."""
    return lambda days: days.narrow(slots.part or "start")


def _unit_around(slots: Slots) -> Change:
    """The week of, 那周."""
    unit = slots.unit
    return lambda days: days.around(unit)


def _nth_in(slots: Slots) -> Change:
    """The first week of, the last Friday of, 的最后一天, 的第一个周五."""
    count = -1 if slots.text("nth") in (None, "last") else slots.number("nth") or 0
    name = slots.weekday
    unit: Unit = slots.unit if name is None else "day"
    return lambda days: None if days.unit == "day" else days.nth(unit, count, name)


def _units_beside(slots: Slots) -> Change | None:
    """The week before, 前一周, 第二天, 的上一周, 之前的周五: right before or after."""
    name, side = slots.weekday, slots.side
    if name is not None:
        return lambda days: Days(
            day := calendar.weekday_near(days.first if side < 0 else days.end - 1, name, side),
            day + 1,
            exact=days.exact,
        )
    found = slots.measured() if slots.text("n") else (Amount(1, 1), slots.unit)
    if found is None or found[1] in _CLOCK:
        return None
    unit, count = cast(Unit, found[1]), side * int(found[0].high)
    return lambda days: days.adjacent(unit, count)


def _units_from(slots: Slots) -> Change | None:
    """Two weeks after, 一周后: counted from a day."""
    found, side = slots.measured(), slots.side
    if found is None or found[1] in _CLOCK:
        return None
    amount, unit = found[0], cast(Unit, found[1])

    def change(days: Days) -> Days | None:
        if days.unit != "day":
            return None
        found = calendar.count_from(days.first, amount, unit, side)
        return replace(found, exact=found.exact and days.exact)

    return change


def _units_before_or_after(slots: Slots) -> Change | None:
    """The week before, two weeks after, the Friday before."""
    beside = slots.weekday is not None or slots.text("the") or not slots.text("n") or slots.unit == "weekend"
    return _units_beside(slots) if beside else _units_from(slots)


def meaning(name: str) -> Callable[[Slots], Days | Change | None]:
    """Return the function of this module that the data files call ``name``; KeyError if there is none."""
    found: Callable[[Slots], Days | Change | None] = globals()[f"_{name}"]
    return found
