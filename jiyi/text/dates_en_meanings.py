"""What the matches of the English patterns mean: each function reads the named groups of its pattern."""

import re
from dataclasses import replace

from jiyi.text.dates_calendar import (
    Days,
    Which,
    day_number,
    latest_weekend,
    month_day,
    narrowed,
    near_weekday,
    nth,
    placed,
    quarter,
    season,
    shifted,
    weekday,
    weekday_near,
)
from jiyi.text.dates_changes import containing, counted_from, nearest_weekday, next_to, nth_in, part_of
from jiyi.text.dates_en_words import (
    ALSO_WORDS,
    ANY,
    BEFORE_DAY,
    BEFORE_LAST,
    BEFORE_MONTH,
    BEFORE_PART,
    DAYS,
    FEASTS,
    FORWARD,
    MONTHS,
    NUMBERS,
    ORDINALS,
    PARTS,
    RECENT,
    STEP,
    SURE_MONTHS,
    UNITS,
    VAGUE,
    WEEKDAYS,
    WHICH,
)
from jiyi.text.dates_holidays import HOLIDAYS
from jiyi.text.dates_rules import Amount, Change, Measure, Scene, from_now, rolling

__all__ = [
    "ago",
    "ahead",
    "dated",
    "day_of_month",
    "day_of_some_month",
    "feast",
    "last_several",
    "month_alone",
    "month_in_year",
    "named_day",
    "nth_of",
    "ordinal_of",
    "part",
    "part_of_this",
    "quarter_of",
    "recent",
    "season_of",
    "two_away",
    "unit_around",
    "unit_beside",
    "unit_near",
    "weekday_alone",
    "weekday_in_week",
    "weekday_numbered",
    "weekend",
]

_NOT_AHEAD = re.compile(r"(?:n't|not|never)\b[^.,;!?\n]*$|(?:times?|once|twice) $")


def _month(match: re.Match[str]) -> int:
    return MONTHS.index(match["m"][:3]) + 1


def _weekday(said: str) -> int:
    return WEEKDAYS.index(said[:3])


def _year(said: str | None, scene: Scene) -> int | None:
    if said is None:
        return None
    if said[0].isdigit():
        return int(said)
    if said[0] == "'":
        return int(said[1:]) + (2000 if int(said[1:]) <= 50 else 1900)
    return scene.now.year + STEP[WHICH[said.split()[0]]]


def _doubtful(match: re.Match[str], scene: Scene) -> bool:
    """Return whether "may" or "march" may be a verb."""
    at = match.start("m")
    if match["m"] not in ("may", "march") or scene.capital(at):
        return False
    return scene.word_before(at) not in BEFORE_MONTH


def dated(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day or days of 7 May 2023, May 7th, May 1-3."""
    said, at = match.groupdict(), match.start()
    if scene.text[max(0, at - 1) : at] in (":", "."):  # 10:30 May 7
        return None
    sure = said["o"] or said["y"] or said.get("of") == " of " or scene.word_before(at) in BEFORE_DAY
    if not sure and _doubtful(match, scene):
        return None
    last = int(said["e"]) if said["e"] else None
    return placed(
        lambda number: month_day(number, _month(match), int(said["d"]), last),
        scene.today,
        _year(said["y"], scene),
        WHICH.get(scene.word_before(at), "past"),
    )


def ordinal_of(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of the fifth of May."""
    day = ORDINALS.index(match["w"]) + 1
    return placed(lambda number: month_day(number, _month(match), day), scene.today, _year(match["y"], scene))


def month_in_year(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the month of May 2023, May last year."""
    number = _year(match["y"], scene)
    if number is None or (_doubtful(match, scene) and not match["y"][0].isdigit()):
        return None
    return month_day(number, _month(match))


def month_alone(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the month of in May, last May; alone only of names that are no other word."""
    said, at = match["w"], match.start("m")
    word = said or scene.word_before(at)
    if word in ANY or (word == "this" and match["m"] in ("may", "march") and not scene.capital(at)):
        return None
    known = said is not None or word in BEFORE_MONTH or match["m"] in SURE_MONTHS
    known = known or scene.preposition_before(at) or (match["m"] == "august" and scene.capital(at))
    if not known and not scene.capital(at) and word not in BEFORE_PART:
        return None
    which: Which = WHICH[said] if said else "past"
    found = placed(lambda number: month_day(number, _month(match)), scene.today, None, which)
    return replace(found, weak=not known)


def named_day(match: re.Match[str], scene: Scene) -> Days:
    """Return the day of yesterday."""
    day = scene.today + DAYS[match[0]]
    return Days(day, day + 1)


def recent(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of recently."""
    return rolling(scene, Amount(0, RECENT[match[0]]), "day", -1)


def day_of_month(match: re.Match[str], scene: Scene) -> Days:
    """Return the day of the 5th of last month."""
    return nth(shifted(scene.today, "month", STEP[WHICH[match["w"]]]), "day", int(match["d"]))


def day_of_some_month(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the latest day that on the 15th fits."""
    known = scene.word_before(match.start()) in BEFORE_DAY
    return day_number(scene.today, int(match["d"])) if known else None


def unit_near(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of last week; "the past week" and "the last week" are the last seven days."""
    said, unit = match["w"], UNITS[match["u"]]
    step = STEP[WHICH[said]]
    if step and scene.text.startswith(" of ", match.end()):  # the last week of school
        return None
    if unit == "weekend" or step == 0 or not (match["the"] or "past" in said or said == "coming"):
        return shifted(scene.today, unit, step)
    return rolling(scene, Amount(1, 1), unit, step)


def weekend(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the latest weekend that over the weekend fits."""
    if scene.word_before(match.start()) not in ("over", "on", "at", "during", "was"):
        return None
    return latest_weekend(scene.today)


def two_away(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of the week before last, the Friday after next."""
    sign = -1 if match["s"] == "before last" else 1
    if match["u"] in UNITS:
        return shifted(scene.today, UNITS[match["u"]], 2 * sign)
    day = weekday_near(scene.today, _weekday(match["u"]), sign) + 7 * sign
    return Days(day, day + 1)


def weekday_in_week(match: re.Match[str], scene: Scene) -> Days:
    """Return the day of Friday last week, last week on Friday."""
    day = shifted(scene.today, "week", STEP[WHICH[match["w"]]]).first + _weekday(match["d"])
    return Days(day, day + 1)


def weekday_numbered(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of Friday the 27th."""
    ahead = match["w"] is not None and WHICH[match["w"]] != "last"
    base = scene.today - weekday(scene.today) if ahead else scene.today
    return day_number(base, int(match["n"]), _weekday(match["d"]), 1 if ahead else -1)


def weekday_alone(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of last, this, next Friday; Friday is the latest one, by Friday the coming one."""
    said, name = match["w"], _weekday(match["d"])
    word = scene.word_before(match.start())
    if word in ANY or (not match["d"].endswith("day") and not _is_day(match, scene, word)):
        return None
    if said is None:
        return near_weekday(scene.today, name, ahead=word in FORWARD)
    if WHICH[said] == "last":
        day = weekday_near(scene.today, name, -1)
    elif said.endswith("coming"):
        day = weekday_near(scene.today, name, 1)
    else:
        day = shifted(scene.today, "week", STEP[WHICH[said]]).first + name
    return Days(day, day + 1)


def _is_day(match: re.Match[str], scene: Scene, word: str) -> bool:
    """Return whether "sun", "sat", "wed" and their like are days here."""
    known = match["w"] is not None or word in BEFORE_DAY
    return known and (scene.capital(match.start("d")) or match["d"] not in ALSO_WORDS)


def _amount(said: str) -> Amount:
    said = said.removesuffix(" of")
    if said in VAGUE:
        return Amount(*VAGUE[said])
    number = NUMBERS[said] if said in NUMBERS else float(said)
    return Amount(number, number)


def _measured(match: re.Match[str], more: float = 0) -> tuple[Amount, Measure]:
    amount, said = _amount(match["n"]), match["u"]
    times = 2 if said == "fortnight" else 1
    unit: Measure = "hour" if said == "hour" else "minute" if said == "minute" else UNITS[said]
    return Amount(amount.low * times + more, amount.high * times + more), unit


def ago(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of two weeks ago, a year and a half ago, two Fridays ago."""
    at = match.start()
    if scene.text[max(0, at - 1) : at] in (".", ","):  # of a longer number
        return None
    if match["d"]:
        times = int(_amount(match["n"]).high)
        day = weekday_near(scene.today, _weekday(match["d"]), -1) - 7 * (times - 1)
        return Days(day, day + 1)
    return from_now(scene, *_measured(match, 0.5 if match["h"] or match["i"] else 0), -1)


def ahead(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of in three days, two weeks from now; not of "haven't met in a week"."""
    head = scene.text[max(0, match.start() - 40) : match.start()]
    if match[0] == "in a day" or _NOT_AHEAD.search(head):
        return None
    return from_now(scene, *_measured(match), 1)


def last_several(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the days of the past two weeks, the next few days; not of "batteries last two weeks"."""
    if match["w"] == "last" and not match["the"] and scene.word_before(match.start()) not in BEFORE_LAST:
        return None
    return rolling(scene, *_measured(match), STEP[WHICH[match["w"]]])


def season_of(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the season of summer 2022, last summer; alone only after "over the", "since" and their like."""
    name, said = match["s"], match["w"]
    name = "autumn" if name == "fall" else name
    number = _year(match["y"], scene)
    if number is not None and match["y"] == "this year" and name == "winter" and scene.now.month < 3:
        number -= 1
    if number is None and said is None:
        head = scene.text[max(0, match.start() - 11) : match.start()]
        found = placed(lambda at: season(at, name), scene.today, None)
        return replace(found, weak=not head.endswith(("over the ", "during the ", "since ")))
    return placed(lambda at: season(at, name), scene.today, number, WHICH[said] if said else "past")


def quarter_of(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the quarter of Q1 2023; alone only after "in" and its like, since Q1 may be a question."""
    number = _year(match["y"], scene)
    if number is None and scene.word_before(match.start()) not in BEFORE_MONTH:
        return None
    return placed(lambda at: quarter(at, int(match["q"])), scene.today, number)


def feast(match: re.Match[str], scene: Scene) -> Days | None:
    """Return the day of Christmas 2022, last Christmas, Thanksgiving."""
    if scene.word_before(match.start()) in ANY:
        return None
    name = next(name for words, name in FEASTS.items() if re.fullmatch(words, match["f"]))
    which: Which = WHICH[match["w"]] if match["w"] else "past"
    return placed(HOLIDAYS[name], scene.today, _year(match["y"], scene), which)


def part_of_this(match: re.Match[str], scene: Scene) -> Days:
    """Return the days of the end of the month."""
    return narrowed(shifted(scene.today, UNITS[match["u"]], 0), PARTS[match["p"]])


def part(match: re.Match[str], _scene: Scene) -> Change:
    """Read early, in the middle of, at the end of."""
    return part_of(PARTS[match["p"]])


def unit_around(match: re.Match[str], _scene: Scene) -> Change:
    """Read the week of."""
    return containing(UNITS[match["u"]])


def nth_of(match: re.Match[str], _scene: Scene) -> Change:
    """Read the first week of, the last Friday of, the second half of."""
    said, unit = match["o"], match["u"]
    count = -1 if said == "last" else int(said[0]) if said[0].isdigit() else ORDINALS.index(said) + 1
    return nth_in(UNITS[unit], count) if unit in UNITS else nth_in("day", count, _weekday(unit))


def unit_beside(match: re.Match[str], _scene: Scene) -> Change:
    """Read the week before, two weeks after, the Friday before."""
    sign = 1 if match["s"] in ("after", "following") else -1
    said = match["u"]
    if said not in UNITS:
        return nearest_weekday(_weekday(said), sign)
    unit = UNITS[said]
    amount = _amount(match["n"] or "one")
    if said == "fortnight":
        amount = Amount(2 * amount.low, 2 * amount.high)
    if match["the"] or match["n"] is None or unit == "weekend":
        return next_to(unit, sign * int(amount.high))
    return counted_from(amount, unit, sign)
