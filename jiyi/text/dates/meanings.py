"""What the matches of the patterns mean, Chinese and English alike: functions of their slots.

A meaning gives days, or what to change in the expression next to it, or None for no date. A year,
month or day that does not exist raises ValueError or OverflowError.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import cache, partial
from typing import cast

from jiyi.text.dates import calendar
from jiyi.text.dates.calendar import Amount, Days, Unit, nth, one_day
from jiyi.text.dates.slots import Context, Measure, Slots
from jiyi.text.lexicon import read_toml

__all__ = ["Change", "holiday", "holiday_week", "meaning"]

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


Change = Callable[[Days], Days | None]
"""What words like "the week before" make of the expression next to them."""

_CLOCK = ("hour", "minute")
_VAGUE_ZH = ("几", "两", "好几", "数")


def _part(said: Slots, days: Days) -> Days:
    return calendar.narrow(days, said.part) if said.part else days


def _month_day(said: Slots) -> Days:
    """7 May 2023, May 1-3, the fifth of May, last May, 5月7日, 2023年5月初."""
    month, day, last = said.month, said.number("day"), said.number("last_day")
    step = said.step
    if step is None:
        step = said.words.slots["which"].get(said.word_before())
    found = calendar.locate(
        lambda year: calendar.month_day(year, month, day, last), said.scene.today, said.year, step
    )
    return _part(said, found)


def _month_or_day_first(said: Slots) -> Days | None:
    """05/07/2023 and 5/7, month first; 15/07/2023 and 5.7.2023 have the day first."""
    month, day, year = said.number("first") or 0, said.number("second") or 0, said.text("year")
    mark = said.text("mark")
    if month > 12 or (mark == "." and day <= 12):
        month, day = day, month
    if year is None:
        found = calendar.locate(lambda at: calendar.month_day(at, month, day), said.scene.today, None)
        return replace(found, exact=False, turn="year")
    number = int(year)
    if mark != said.match["mark_2"] or (len(year) == 2 and (mark != "/" or 40 < number < 70)):
        return None
    if len(year) == 2:
        number += 2000 if number <= 40 else 1900
    return calendar.month_day(number, month, day)


def _months(said: Slots) -> Days | None:
    """3到5月."""
    first, last = said.number("first_month") or 0, said.month
    if first >= last:
        return None

    def at(year: int) -> Days:
        return Days(calendar.month_day(year, first).first, calendar.month_day(year, last).end, "span")

    return calendar.locate(at, said.scene.today, said.year)


def _year(said: Slots) -> Days:
    """2022, 2022年底."""
    return _part(said, calendar.year(said.year or 0))


def _years(said: Slots) -> Days | None:
    """2019-2021."""
    first, last = _year(said), calendar.year(int(said.match["last_year"]))
    return Days(first.first, last.end, "span") if first.first < last.first else None


def _half_year(said: Slots) -> Days:
    """上半年, 去年下半年."""
    found = calendar.part_of_year(
        said.year or said.scene.now.year, "half", 1 if said.text("half_year") == "上" else 2
    )
    return replace(found, exact=said.year is not None)


def _quarter(said: Slots) -> Days:
    """Q1 2023, 第三季度."""
    number = said.number("quarter") or 0
    return calendar.locate(
        lambda year: calendar.part_of_year(year, "quarter", number), said.scene.today, said.year
    )


def _season(said: Slots) -> Days:
    """Summer 2022, last summer, 去夏, 暑假."""
    name, year = said.value("season"), said.year
    if name == "winter" and said.text("year") in ("this year", "今年") and said.scene.now.month < 3:
        year = said.scene.now.year - 1
    return calendar.locate(lambda at: calendar.season(at, name), said.scene.today, year, said.step)


def _holiday(said: Slots) -> Days:
    """Christmas 2022, last Christmas, 国庆假期."""
    text, (start, end) = said.scene.text, said.match.span("holiday")
    found = [
        (name, match.end()) for name, words in said.words.holidays if (match := words.match(text, start))
    ]
    name = next((name for name, at in found if at == end), found[0][0])
    days = holiday_week if said.text("days_off") else holiday
    return calendar.locate(partial(days, name=name), said.scene.today, said.year, said.step)


def _in_year(said: Slots) -> Days | Change | None:
    """2023年5月7日, 去年夏天, 2022年底, 去年第三季度, 明年春节, 去年今天."""
    for slot in ("month", "season", "quarter", "half_year", "holiday"):
        if said.text(slot):
            return meaning("month_day" if slot == "month" else slot)(said)
    if said.text("this_day"):
        return calendar.month_day(said.year or 0, said.scene.now.month, said.scene.now.day)
    return _year(said)


def _named_day(said: Slots) -> Days:
    """Yesterday, 昨天."""
    return one_day(said.scene.today + int(said.words.slots["day_name"][said.match[0]]))


def _recent(said: Slots) -> Days:
    """Recently, 最近."""
    return _rolling(said.scene, Amount(0, said.words.slots["recent"][said.match[0]]), "day", -1)


def _day_of_some_month(said: Slots) -> Days | None:
    """On the 15th, 15号晚上: the latest that fits."""
    return calendar.day_number(said.scene.today, said.number("day") or 0)


def _unit_near(said: Slots) -> Days:
    """This month, 上上周, 上季度, 上周三, Friday last week, the 5th of last month, 这个月底."""
    found = calendar.shift_day(said.scene.today, said.unit, said.step or 0)
    if said.weekday is not None:
        return one_day(found.first + said.weekday)
    day = said.number("day")
    return calendar.nth(found, "day", day) if day else _part(said, found)


def _week_or_last_days(said: Slots) -> Days:
    """Last week, as a calendar week; "the past week" and "the last week" are the last seven days."""
    which = said.text("which") or ""
    rolls = said.text("the") or "past" in which or which == "coming"
    if said.unit == "weekend" or not said.step or not rolls:
        return _unit_near(said)
    return _rolling(said.scene, Amount(1, 1), said.unit, said.step)


def _weekend(said: Slots) -> Days:
    """Over the weekend, 周末: the latest that has begun."""
    today = said.scene.today
    found = calendar.shift_day(today, "weekend", 0)
    if found.first > today:
        found = calendar.shift_day(today, "weekend", -1)
    return replace(found, exact=False, turn="week")


def _two_away(said: Slots) -> Days:
    """The week before last, the Friday after next."""
    if said.weekday is None:
        return calendar.shift_day(said.scene.today, said.unit, 2 * said.side)
    return one_day(calendar.weekday_near(said.scene.today, said.weekday, said.side) + 7 * said.side)


def _weekday_numbered(said: Slots) -> Days | None:
    """Friday the 27th."""
    today, ahead = said.scene.today, said.step is not None and said.step >= 0
    base = today - calendar.weekday(today) if ahead else today
    return calendar.day_number(base, said.number("day") or 0, said.weekday, 1 if ahead else -1)


def _weekday_alone(said: Slots) -> Days:
    """Last, this, next Friday; Friday and 周五 are the latest one, by Friday and 周五前 the coming one."""
    today, name, step = said.scene.today, said.weekday or 0, said.step
    if step is None:
        after = said.scene.text.startswith(said.words.after["coming"], said.match.end())
        ahead = after or said.is_after("coming")
        day = calendar.weekday_near(today - 1 if ahead else today + 1, name, 1 if ahead else -1)
        return replace(one_day(day), exact=False, turn="week")
    if step < 0:
        return one_day(calendar.weekday_near(today, name, -1))
    if (said.text("which") or "").endswith("coming"):
        return one_day(calendar.weekday_near(today, name, 1))
    return one_day(calendar.shift_day(today, "week", step).first + name)


def _counted_from_now(said: Slots) -> Days | None:
    """Two weeks ago, in three days, two Fridays ago, 三天前, 一个月后."""
    if said.weekday is not None:
        weeks = int(said.amount().high) - 1
        return one_day(
            calendar.weekday_near(said.scene.today, said.weekday, said.side) + 7 * said.side * weeks
        )
    found = said.measured()
    return found and _from_now(said.scene, *found, said.side)


def _last_several(said: Slots) -> Days | None:
    """The past two weeks, the next few days, 过去两周, 最近三天, 前几天, 过几天."""
    found, which, many = said.measured(), said.text("side"), said.text("n")
    if found is None or (which in ("前", "过", "上") and many not in _VAGUE_ZH) or said.match[0] == "这一天":
        return None
    amount, unit = found
    if many == "两" and which in ("前", "过", "这"):
        amount = Amount(1, 3)
    return _rolling(said.scene, amount, unit, said.side)


def _from_now(scene: Context, amount: Amount, unit: Measure, side: int) -> Days:
    """Return what is so many units before or after the present moment; hours and minutes as their days."""
    if unit in _CLOCK:
        size = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
        one, other = ((scene.now + side * number * size).toordinal() for number in (amount.low, amount.high))
        return Days(min(one, other), max(one, other) + 1, "day" if one == other else "span")
    return calendar.count_from_day(scene.today, amount, cast(Unit, unit), side)


def _rolling(scene: Context, amount: Amount, unit: Measure, side: int) -> Days:
    """Return the last so many units up to now, or the next so many from today on."""
    number, exact = amount.high, amount.low == amount.high
    today = scene.today
    if unit in _CLOCK:
        other = _from_now(scene, Amount(number, number), unit, side).first
    elif unit in ("year", "quarter", "month"):
        size = {"year": 12, "quarter": 3, "month": 1}[unit]
        other = calendar.add_months(today, side * int(number * size))
    else:
        other = today + side * int(number * (1 if unit == "day" else 7))
    if side < 0:
        return Days(other, today + 1, "span", exact, open=True)
    return Days(today, other + 1, "span", exact)


def _part_of(said: Slots) -> Change:
    """Early, in the middle of, at the end of."""
    return partial(calendar.narrow, part=said.part or "start")


def _unit_around(said: Slots) -> Change:
    """The week of, 那周."""
    return partial(calendar.around, unit=said.unit)


def _nth_in(said: Slots) -> Change:
    """The first week of, the last Friday of, 的最后一天, 的第一个周五."""
    nth = said.text("nth")
    count = -1 if nth in (None, "last") else said.number("nth") or 0
    name = said.weekday
    unit: Unit = said.unit if name is None else "day"
    return lambda days: None if days.unit == "day" else calendar.nth(days, unit, count, name)


def _units_beside(said: Slots) -> Change | None:
    """The week before, 前一周, 第二天, 的上一周, 之前的周五: right before or after."""
    if said.weekday is not None:
        return partial(_weekday_beside, name=said.weekday, side=said.side)
    found = said.measured() if said.text("n") else (Amount(1, 1), said.unit)
    if found is None or found[1] in _CLOCK:
        return None
    return partial(calendar.adjacent, unit=cast(Unit, found[1]), count=said.side * int(found[0].high))


def _weekday_beside(days: Days, name: int, side: int) -> Days:
    day = calendar.weekday_near(days.first if side < 0 else days.end - 1, name, side)
    return replace(one_day(day), exact=days.exact)


def _units_from(said: Slots) -> Change | None:
    """Two weeks after, 一周后: counted from a day."""
    found = said.measured()
    if found is None or found[1] in _CLOCK:
        return None
    return partial(calendar.count_from, amount=found[0], unit=cast(Unit, found[1]), side=said.side)


def _units_before_or_after(said: Slots) -> Change | None:
    """The week before, two weeks after, the Friday before."""
    beside = said.weekday is not None or said.text("the") or not said.text("n") or said.unit == "weekend"
    return _units_beside(said) if beside else _units_from(said)


def meaning(name: str) -> Callable[[Slots], Days | Change | None]:
    """Return the function of this module that the data files call so.

    Raises:
        KeyError: there is none.
    """
    found: Callable[[Slots], Days | Change | None] = globals()[f"_{name}"]
    return found
