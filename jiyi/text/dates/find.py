"""Finds the time expressions of a text: merges the matches of both languages with their neighbours."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from functools import cache, partial

from jiyi.clock import aware
from jiyi.text.dates.calendar import Days
from jiyi.text.dates.grammar import Piece, load_grammar
from jiyi.text.dates.slots import Context
from jiyi.text.lexicon import lexicon

__all__ = ["TimeSpan", "find_dates", "has_date"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """A stretch of time that a text names."""

    start: datetime  # aware, inclusive
    end: datetime  # aware, exclusive, after start
    text: str  # the words
    at: int  # where in the text they begin
    exact: bool  # False if the year (for "Friday", the week) was guessed, or the words are vague


_english = partial(load_grammar, "en", lead=r"\b")
_chinese = partial(load_grammar, "zh")
_chinese_after = partial(load_grammar, "zh", "after_date")  # changes what is right before it: 6月9日前一周

_LATIN = re.compile(r"[0-9a-z]")
_NORMAL = str.maketrans(  # full width, and traditional characters of the words
    "　’０１２３４５６７８９ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ－／：．"
    "週後個號禮過這兩幾數節來聖誕國慶勞動間時鐘從開現陣農曆萬雙復兒",
    " '0123456789abcdefghijklmnopqrstuvwxyz-/:."
    "周后个号礼过这两几数节来圣诞国庆劳动间时钟从开现阵农历万双复儿",
)
_joins = cache(partial(lexicon, __package__, "joins"))
_MAX_GAP = 12
_FIRST, _LAST = date(1, 1, 3).toordinal(), date(9999, 12, 29).toordinal()  # a zone may move them by a day


def find_dates(text: str, now: datetime, zone: tzinfo = UTC) -> list[TimeSpan]:
    """Return the time expressions of ``text`` as said at ``now``, in order, without overlaps.

    Spans are whole days in ``zone``; only what lasts until now ("since May", "recently")
    ends at ``now``. Expressions that mean no day of the calendar (30 February) are left out.

    NaiveDatetime: ``now`` has no time zone.
    """
    try:
        context = Context(text=_normalize(text), raw=text, now=aware(now, "now").astimezone(zone))
    except OverflowError:  # the first or last hours of the calendar
        return []
    pieces = _apply_prefixes(context, _find_pieces(context))
    pieces = _merge(pieces, partial(_without_lone_weekday, context))
    pieces = _merge(pieces, partial(_as_range, context))
    return [*filter(None, (_to_time_span(context, _extend_to_now(context, piece)) for piece in pieces))]


def has_date(text: str) -> bool:
    """Return whether ``text`` may hold a time expression; where this is False, `find_dates` finds none."""
    plain = _normalize(text)
    english = bool(_LATIN.search(plain)) and _english().any(plain)
    return english or (not plain.isascii() and _chinese().any(plain))


def _normalize(text: str) -> str:
    """Return ``text`` in lower case, half width and simplified, every character in its place."""
    plain = text.lower()
    if len(plain) != len(text):  # "İ" becomes two characters
        plain = "".join(low if len(low := character.lower()) == 1 else character for character in text)
    if not plain.isascii():
        plain = plain.translate(_NORMAL)
    return plain.replace("_2", " 2").replace("_1", " 1")  # log_2023-05-07


def _find_pieces(context: Context) -> list[Piece]:
    """Return the pieces that both languages find, in order, each with the words after it that change it."""
    latin, chinese = _LATIN.search(context.text), not context.text.isascii()
    found = [*(_english().find(context) if latin else ()), *(_chinese().find(context) if chinese else ())]
    pieces: list[Piece] = []
    for piece in sorted(found, key=lambda piece: (piece.at, -piece.end)):
        if not pieces or piece.at >= pieces[-1].end:
            pieces.append(_apply_suffixes(context, piece) if chinese else piece)
    return pieces


def _apply_suffixes(context: Context, piece: Piece) -> Piece:
    for _ in range(2):  # 6月9日前一周的第一天
        after = _chinese_after().match(context, piece.end) if piece.days else None
        if after is None or (changed := _apply_change(after, piece)) is None:
            return piece
        piece = Piece(piece.at, after.end, changed)
    return piece


def _apply_change(change: Piece, piece: Piece) -> Days | None:
    if change.change is None or piece.days is None:
        return None
    try:
        days = change.change(piece.days)
    except (ValueError, OverflowError):  # no such day
        return None
    return days and replace(days, weak=False)


def _apply_prefixes(context: Context, pieces: list[Piece]) -> list[Piece]:
    """Put words such as "the week before" together with the expression that follows."""
    merged: list[Piece] = []
    for piece in reversed(pieces):
        if piece.days is not None:
            merged.append(piece)
            continue
        beside = merged and _separated_by(context, piece, merged[-1], "prefix_gap")
        if beside and (days := _apply_change(piece, merged[-1])):
            merged[-1] = Piece(piece.at, merged[-1].end, days)
    return merged[::-1]


def _separated_by(context: Context, first: Piece, second: Piece, gap: str) -> bool:
    if second.at - first.end > _MAX_GAP:
        return False
    return getattr(_joins(), gap).fullmatch(context.text, first.end, second.at) is not None


def _merge(pieces: list[Piece], join: Callable[[Piece, Piece], Piece | None]) -> list[Piece]:
    """Replace neighbours by what ``join`` makes of them."""
    merged: list[Piece] = []
    for piece in pieces:
        if merged and (both := join(merged[-1], piece)):
            merged[-1] = both
        else:
            merged.append(piece)
    return merged


def _without_lone_weekday(context: Context, first: Piece, second: Piece) -> Piece | None:
    """Leave out the weekday that only accompanies a date: Sunday, 7 May 2023; 5月7日（周日）."""
    if not (first.days and second.days and _separated_by(context, first, second, "day_gap")):
        return None
    is_weekday = [days.guessed == "week" for days in (first.days, second.days)]
    if is_weekday == [True, False] and second.days.unit == "day":
        return second
    return first if is_weekday == [False, True] and first.days.unit == "day" else None


def _as_range(context: Context, first: Piece, second: Piece) -> Piece | None:
    """Join "from A to B", "A - B" and "between A and B"."""
    if not (first.days and second.days):
        return None
    if not _separated_by(context, first, second, "to"):
        before = context.text[max(0, first.at - 12) : first.at]
        between = before.endswith(("between ", "between the ")) or context.text.startswith("之间", second.end)
        if not (between and _separated_by(context, first, second, "both")):
            return None
    days = _join_days(first.days, second.days)
    return Piece(first.at, second.end, days) if days else None


def _join_days(left: Days, right: Days) -> Days | None:
    """Return the stretch from ``left`` to ``right``; a year that only one of them names counts for both."""
    exact = left.exact and right.exact
    try:
        if left.guessed == "year" and right.guessed == "":
            at = date.fromordinal(right.first).year
            dated = left.in_year(at)
            left = dated if dated.first <= right.first else left.in_year(at - 1)
            exact = right.exact
        elif right.guessed == "year":
            at = date.fromordinal(left.first).year
            dated = right.in_year(at)
            right = dated if dated.first >= left.first else right.in_year(at + 1)
            exact = left.exact
    except (ValueError, OverflowError):
        return None
    if right.guessed == "week" and right.first < left.first:
        later = 7 * ((left.first - right.first + 6) // 7)
        right = replace(right, first=right.first + later, end=right.end + later)
    weak = left.weak and right.weak and not left.unit == right.unit == "year"
    if right.first < left.first or right.end <= left.end or weak:
        return None
    return Days(left.first, right.end, "span", exact, left.guessed, open=right.open)


def _extend_to_now(context: Context, piece: Piece) -> Piece:
    """Extend an expression with "since" until now."""
    days = piece.days
    if days is None or days.weak or days.open or days.first >= context.today:
        return piece
    before, joins = context.text[max(0, piece.at - _MAX_GAP) : piece.at], _joins()
    begins = joins.beginning.search(before) and joins.starting.match(context.text, piece.end)
    if not (begins or joins.since.search(before) or joins.until_now.match(context.text, piece.end)):
        return piece
    return Piece(piece.at, piece.end, replace(days, end=context.today + 1, unit="span", open=True))


def _to_time_span(context: Context, piece: Piece) -> TimeSpan | None:
    days = piece.days
    if days is None or days.weak or not _FIRST <= days.first < days.end <= _LAST:
        return None
    zone = context.now.tzinfo
    start, end = (datetime.fromordinal(day).replace(tzinfo=zone) for day in (days.first, days.end))
    if days.open and context.now > start:
        end = context.now
    words = context.raw[piece.at : piece.end]
    return TimeSpan(start=start, end=end, text=words, at=piece.at, exact=days.exact)
