"""What the matches of the Chinese patterns mean: each function reads the named groups of its pattern."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from jiyi.text.dates_calendar import (
    Days,
    Unit,
    Which,
    day_number,
    half,
    latest_weekend,
    month_day,
    narrowed,
    near_weekday,
    nth,
    placed,
    quarter,
    season,
    shifted,
    year,
)
from jiyi.text.dates_changes import containing, counted_from, nearest_weekday, next_to, nth_in
from jiyi.text.dates_holidays import HOLIDAYS, holiday_week
from jiyi.text.dates_rules import Amount, Change, Scene, from_now, rolling
from jiyi.text.dates_zh_words import (
    DAYS,
    FEASTS,
    PARTS,
    RECENT,
    SEASONS,
    STEPS,
    UNITS,
    YEARS,
    measured,
    number,
)

__all__ = [
    "ago_or_ahead",
    "day_of_some_month",
    "edge",
    "feast",
    "half_of_this",
    "in_that_year",
    "last_several",
    "month_alone",
    "month_near",
    "months",
    "named_day",
    "next_day",
    "nth_of",
    "quarter_alone",
    "quarter_near",
    "recent",
    "school_break",
    "season_near",
    "unit_around",
    "unit_before",
    "units_beside",
    "units_from",
    "week_near",
    "weekday_alone",
    "weekday_beside",
    "weekend",
]

_WHICH: dict[int, Which] = {-1: "last", 0: "this", 1: "next"}
_COMING = ("未来", "接下来", "今后", "往后", "过")
_NEAREST = re.compile("的[一那这]?[家个]")


def _year(said: str | None, scene: Scene) -> int | None:
    if said is None:
        return None
    if said in YEARS:
        return scene.now.year + YEARS[said]
    found = number(said.removesuffix("年").strip())
    if found < 100:
        found += 2000 if found <= 50 else 1900
    return found


def _step(said: str) -> int:
    """Return -2 for 上上, 0 for 这, 1 for 下."""
    return STEPS[said[0]] * max(1, sum(character in "上下" for character in said))


def _weekday(said: str) -> int:
    return 6 if said in "日天" else "一二三四五六".index(said)


def _part(days: Days | None, said: str | None) -> Days | None:
    return narrowed(days, PARTS[said.lstrip("的年月")]) if days and said else days


def in_that_year(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 2023年5月7日, 去年夏天, 2022年底, 去年第三季度, 明年春节, 去年今天."""
    said, at = match.groupdict(), _year(match["y"], scene)
    if at is None:
        return None
    if said["m"]:
        return _month_day(said, scene, at)
    if said["s"]:
        winter = said["s"][0] == "冬" and scene.now.month < 3 and match["y"] == "今年"
        return season(at - 1 if winter else at, SEASONS[said["s"][0]])
    if said["q"] or said["k"]:
        return quarter(at, number(said["q"] or said["k"]))
    if said["h"]:
        return half(at, 1 if said["h"] == "上" else 2)
    if said["f"]:
        return placed(_feast_days(match, scene), scene.today, at)
    if said["t"]:
        return month_day(at, scene.now.month, scene.now.day)
    return _part(year(at), said["p"])


def month_alone(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 五月, 5月7日, 5月1日至3日."""
    return _month_day(match.groupdict(), scene, None)


def _month_day(said: dict[str, str | None], scene: Scene, at: int | None) -> Days | None:
    month = number(said["m"] or "")
    day = number(said["d"]) if said["d"] else None
    last = number(said["e"]) if said["e"] else None
    found = placed(lambda in_year: month_day(in_year, month, day, last), scene.today, at)
    return _part(found, said["n"])


def months(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 3到5月."""
    first, last = number(match["a"]), number(match["m"])
    if first >= last:
        return None

    def at(in_year: int) -> Days:
        return Days(month_day(in_year, first).first, month_day(in_year, last).end, "span")

    return placed(at, scene.today, _year(match["y"], scene))


def named_day(match: re.Match[str], scene: Scene) -> Days:
    """Return the day of 昨天."""
    day = scene.today + DAYS[match[0]]
    return Days(day, day + 1)


def week_near(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of 上周三, 上上周, 这周末, 下个星期天."""
    step = _step(match["w"])
    if match["e"]:
        return shifted(scene.today, "weekend", step)
    week = shifted(scene.today, "week", step)
    if match["d"] is None:
        return week
    day = week.first + _weekday(match["d"])
    return Days(day, day + 1)


def weekday_alone(match: re.Match[str], scene: Scene) -> Days:
    """Return the day of 周五, the latest one; of 周五前, the coming one."""
    ahead = scene.text.startswith(("前", "之前", "以前"), match.end())
    return near_weekday(scene.today, _weekday(match["d"]), ahead=ahead)


def weekend(_match: re.Match[str], scene: Scene) -> Days:
    """Return the latest weekend that 周末 fits."""
    return latest_weekend(scene.today)


def month_near(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 上个月, 下个月15号, 这个月底."""
    month = shifted(scene.today, "month", _step(match["w"]))
    if match["d"]:
        return nth(month, "day", number(match["d"]))
    return _part(month, match["p"])


def quarter_near(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of 上季度."""
    return shifted(scene.today, "quarter", _step(match["w"]))


def quarter_alone(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 第三季度."""
    return placed(lambda at: quarter(at, number(match["q"] or match["k"])), scene.today, None)


def season_near(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 去夏, 上个冬天, 这个暑假."""
    name, said = SEASONS[match["s"][0]], match["w"][0]
    if said in "去明":
        return season(scene.now.year + STEPS[said], name)
    return placed(lambda at: season(at, name), scene.today, None, _WHICH[STEPS[said]])


def school_break(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 暑假."""
    return placed(lambda at: season(at, SEASONS[match[0][0]]), scene.today, None)


def half_of_this(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of 上半年."""
    return replace(half(scene.now.year, 1 if match["h"] == "上" else 2), exact=False)


def day_of_some_month(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the latest day that 15号晚上 fits."""
    return day_number(scene.today, number(match["d"]))


def edge(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 月底, 年初: of this month, this year."""
    return _part(shifted(scene.today, UNITS[match["u"]], 0), match["p"])


def _feast_days(match: re.Match[str], scene: Scene) -> Callable[[int], Days | None]:
    at = match.start("f")
    name = next(name for words, name in FEASTS.items() if re.compile(words).match(scene.text, at))
    return holiday_week(name) if match["b"] else HOLIDAYS[name]


def feast(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of 春节, the days of 国庆假期."""
    if "每" in scene.text[max(0, match.start() - 3) : match.start()]:
        return None
    which = _WHICH[STEPS[match["w"][0]]] if match["w"] else "past"
    return placed(_feast_days(match, scene), scene.today, None, which)


def recent(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 最近; None where it is of places: 离我最近, 最近的一家."""
    at, end = match.span()
    if match[0] == "最近":
        head = scene.text[max(0, at - 6) : at]
        if "离" in head or "距" in head or _NEAREST.match(scene.text, end):
            return None
    return rolling(scene, Amount(0, RECENT[match[0]]), "day", -1)


def ago_or_ahead(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 三天前, 一个月后."""
    found = measured(match)
    return found and from_now(scene, *found, -1 if match["s"] == "前" else 1)


def last_several(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of 过去两周, 最近三天, 这两天, 前几天, 未来一周, 过几天."""
    found, said, vague = measured(match), match["p"], match["n"] in ("几", "两", "好几", "数")
    if found is None or (said in ("前", "过", "上") and not vague) or (said == "这" and match[0] == "这一天"):
        return None
    (amount, unit), sign = found, 1 if said in _COMING else -1
    if match["n"] == "两" and said in ("前", "过", "这"):
        amount = Amount(1, 3)
    return rolling(scene, amount, unit, sign)


def nth_of(match: re.Match[str], _scene: Scene) -> Change:
    """Read 的第一周, 的最后一天, 的第一个周五."""
    count = number(match["o"]) if match["o"] else -1
    return nth_in("day", count, _weekday(match["d"])) if match["d"] else nth_in(UNITS[match["u"]], count)


def next_day(_match: re.Match[str], _scene: Scene) -> Change:
    """Read 第二天."""
    return next_to("day", 1)


def units_beside(match: re.Match[str], _scene: Scene) -> Change | None:
    """Read 前一周, 后三天: right before and after."""
    found = measured(match)
    if found is None or found[1] in ("hour", "minute"):
        return None
    return next_to(cast(Unit, found[1]), _sign(match) * int(found[0].high))


def unit_before(match: re.Match[str], _scene: Scene) -> Change:
    """Read 的上一周."""
    return next_to(UNITS[match["u"]], -1)


def units_from(match: re.Match[str], _scene: Scene) -> Change | None:
    """Read 一周后."""
    found = measured(match)
    if found is None or found[1] in ("hour", "minute"):
        return None
    return counted_from(found[0], cast(Unit, found[1]), _sign(match))


def weekday_beside(match: re.Match[str], _scene: Scene) -> Change:
    """Read 之前的周五, 后的周末."""
    if match["d"] is None:
        return next_to("weekend", _sign(match))
    return nearest_weekday(_weekday(match["d"]), _sign(match))


def unit_around(match: re.Match[str], _scene: Scene) -> Change:
    """Read 那周."""
    return containing(UNITS[match["u"]])


def _sign(match: re.Match[str]) -> int:
    return -1 if match["s"] == "前" else 1
