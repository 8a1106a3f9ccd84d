"""Parsing a question: what the ranking's features need to know about it."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from operator import methodcaller
from typing import Literal

from jiyi.clock import to_micros, utc_from_micros
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.times import next_occurrence as ahead
from jiyi.extraction.values import load_patterns as patterns
from jiyi.text import TimeSpan, analyse, find_dates, has_date, query_terms
from jiyi.text.analyse import stopwords

__all__ = [
    "DAY",
    "Question",
    "asks_again",
    "cues",
    "named_speakers",
    "read_question",
    "validity",
    "without_names",
]

DAY = 86_400 * 1_000_000  # microseconds of a day
_LONG = 200  # characters; a longer text tells something rather than asks one thing
_DAY = timedelta(days=1)
_FORTNIGHT = timedelta(days=14)  # taken for granted where a text names no end
_NO_SPACES = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # kana, Han, Hangul: words stand side by side
_LETTER = rf"[^\W{_NO_SPACES}]"
_NAME = rf"(?:[A-Z](?:{_LETTER}|[&.'’\-])*|{_LETTER}*\d(?:{_LETTER}|[.\-:])*)"
_ENTITY = re.compile(
    r"《[^》]{1,60}》|“[^”]{1,60}”|\"[^\"]{1,60}\"|「[^」]{1,60}」"
    rf"|(?<!{_LETTER})(?<!['’]){_NAME}(?:\s+(?:of |the |and )?{_NAME})*"
)
_WORD = re.compile(rf"[^\W_{_NO_SPACES}]+")
_CJK = re.compile(rf"[{_NO_SPACES}]")
_ANY_LETTER = re.compile(r"[^\W_]")
_SENTENCE_ENDS = (".", "?", "!", "。", "？", "！")
_LONGEST_ASKED = 1_000  # characters of a message that asks and says nothing besides
_SHORT = 3  # letters of a short form of a name, at least
_ROLES = {
    *("user", "assistant", "system", "tool", "ai", "bot", "human", "developer"),
    *("用户", "助手", "系统", "机器人"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedTime:
    """The time at which what is asked for shall hold."""

    kind: Literal["now", "then"]  # now, which may be a day to come, or a time gone by
    moment: int  # in microseconds since 1970; of a day, a month: its end, or the day before it
    changed: bool = False  # by a word such as "now", who asks takes it that something has changed


def cues(section: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a section of cues.toml."""
    return patterns("cues", section, "jiyi.long_term.recall")


def _asked_time(text: str, spans: Sequence[TimeSpan], asked_at: int) -> _AskedTime | None:
    """Return what time a question that names these asks about; None: of history, or it is no question."""
    signs = cues("asked_time")
    if len(text) > _LONG or not signs["asks"].search(text.strip()) or signs["history"].search(text):
        return None
    of_language = cues("asked_time.zh" if is_chinese(text) else "asked_time.en")
    of_now = of_language["now"].search(text) is not None
    if spans:
        start, end = to_micros(spans[0].start), to_micros(spans[0].end)
        if signs["to_come"].search(text) and end <= asked_at:
            start, end = start + 365 * DAY, end + 365 * DAY
        if start > asked_at:
            return _AskedTime(kind="now", moment=end, changed=of_now)
        if _names_the_past(text, over=end <= asked_at):
            until, rest = text[: spans[0].at], text[spans[0].at + len(spans[0].text) :]
            before = signs["until"].search(until) or signs["before"].match(rest)
            return _AskedTime(kind="then", moment=start - DAY if before else min(end, asked_at))
    if of_language["past"].search(text) and not of_now:
        return None
    return _AskedTime(kind="now", moment=asked_at, changed=of_now)


def _names_the_past(text: str, *, over: bool) -> bool:
    """Return whether a time that a question names, and that has begun or is over, is what it asks about.

    In Chinese a weekday alone is the one of every week: 周三夜里谁值班. In English it takes a verb of the
    past or a year gone by: in "Where do the Tuesday Larks meet?" the day is a name.
    """
    if is_chinese(text):
        signs = cues("asked_time.zh")
        return over and (not signs["no_date"].search(text) or signs["date"].search(text) is not None)
    signs = cues("asked_time.en")
    told = signs["then"].search(text) or (over and signs["year"].search(text))
    return bool(told) and not signs["now"].search(text)


def validity(text: str, said_at: int, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return from when until when a temporary statement holds, in microseconds since 1970.

    这周三到周五, "until Friday", "until October": until the last date that is named, from the first
    where another follows it or it is a stretch, else from the day it was said; a fortnight where none lies
    ahead.
    """
    now = utc_from_micros(said_at)
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found = find_dates(text, now, zone) if has_date(text) else []
    spans = [span for span in (ahead(span, now) for span in found) if span.end > now]
    end = max((span.end for span in spans), default=today + _FORTNIGHT)
    stretch = len(spans) > 1 or any(span.end - span.start > _DAY for span in spans)
    begins = stretch and not patterns("forms", "times")["until"].search(text[: spans[0].at])
    return to_micros(max(today, spans[0].start) if begins else today), to_micros(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a question asks, as far as simple signs show."""

    text: str  # as it was asked
    terms: tuple[str, ...]  # to search with, distinct
    entities: frozenset[str]  # terms of the names, titles and numbers in it
    ranges: tuple[tuple[int, int], ...]  # times it names, begin and end in microseconds since 1970
    asked_at: int  # when it is asked, in microseconds since 1970
    when: bool  # it asks for a time
    how_many: bool  # it asks for a number
    own: bool  # the one who asks speaks of himself
    you_said: bool  # it asks what the assistant said
    i_said: bool  # it asks what the one who asks said
    time: _AskedTime | None  # the time at which the answer shall hold; None: of no matter


def read_question(text: str, asked_at: datetime, zone: tzinfo = UTC) -> Question:
    """Parse a question; Chinese and English, any text is fine."""
    signs = cues("question")
    spans = find_dates(text, asked_at, zone)
    return Question(
        text=text,
        terms=tuple(query_terms(text)),
        entities=frozenset(_entities(text)),
        ranges=tuple((to_micros(span.start), to_micros(span.end)) for span in spans),
        asked_at=to_micros(asked_at),
        time=_asked_time(text, spans, to_micros(asked_at)),
        **{name: bool(sign.search(text)) for name, sign in signs.items()},
    )


def asks_again(text: str, terms: Collection[str]) -> bool:
    """Say whether a text asks, and has no term that is not among those of a question."""
    asked = _asked(text) if len(text) <= _LONGEST_ASKED else None
    return asked is not None and asked.issubset(terms)


@lru_cache(maxsize=4096)  # what is found once is found again
def _asked(text: str) -> frozenset[str] | None:
    """Return the terms of a text that asks; None of one that does not."""
    return frozenset(query_terms(text)) if cues("asked_time")["asks"].search(text) else None


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return the places of the speakers that a text names, by any of their names or a short form.

    "Mel" names Melanie: three letters or more, capitalised, that a name begins with. A Chinese,
    Japanese or Korean name is named as a whole. Roles such as "user" or "AI" are not names, and
    "will" in lower case or first in a sentence is not somebody of that name.
    """
    return list(_named(text, tuple(speakers)))


@lru_cache(maxsize=256)  # a search asks twice
def _named(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    words = _names_perhaps(text)
    whole, short = set(map(str.lower, words)), tuple(map(str.lower, filter(_may_be_short, words)))
    begins = methodcaller("startswith", short)
    named = []
    for place, name in enumerate(speakers):
        parts, cjk = _parts(name)
        if cjk in text if cjk else not whole.isdisjoint(parts) or any(map(begins, parts)):
            named.append(place)
    return tuple(named)


@lru_cache(maxsize=4096)
def _parts(name: str) -> tuple[tuple[str, ...], str]:
    """Return a name's words in lower case, or all of it if named as a whole; nothing of a role (助手)."""
    if name.lower() in _ROLES:
        return (), ""
    if _CJK.search(name):
        return (), name.strip()
    return tuple(part for part in _WORD.findall(name.lower()) if len(part) > 1), ""


def _may_be_short(word: str) -> bool:
    """Say whether a word may be the short form of a name."""
    return len(word) >= _SHORT and word[0].isupper() and word.lower() not in _stop()


def without_names(text: str, names: Sequence[str]) -> str:
    """Return a question without these names and their short forms; as it was if nothing else is left."""
    rest, words = text, _names_perhaps(text)
    for name in names:
        whole = _CJK.search(name) is not None
        for word in _called(name, text, words):
            edges = ("", "") if whole else (rf"(?<!{_LETTER})", rf"(?:['’]s)?(?!{_LETTER})")
            rest = re.sub(edges[0] + re.escape(word) + edges[1], " ", rest)
    rest = " ".join(rest.split())
    return rest if _ANY_LETTER.search(rest) else text


def _names_perhaps(text: str) -> set[str]:
    """Return the words of a text but for function words in lower case or first in a sentence."""
    return {
        match[0]
        for match in _WORD.finditer(text)
        if match[0].lower() not in _stop() or not (match[0].islower() or _begins(text, match.start()))
    }


def _begins(text: str, place: int) -> bool:
    before = text[max(0, place - 20) : place].rstrip()
    return not before or before.endswith(_SENTENCE_ENDS)


def _called(name: str, text: str, words: set[str]) -> set[str]:
    """Return what of a text, which has these words, calls somebody of this name."""
    parts, cjk = _parts(name)
    if cjk:
        return {cjk} if cjk in text else set()
    return {
        word
        for word in words
        if word.lower() in parts
        or (_may_be_short(word) and any(part.startswith(word.lower()) for part in parts))
    }


def _entities(text: str) -> Iterator[str]:
    """Give the terms of names, titles and numbers; a capital at a sentence's begin makes no name."""
    for match in _ENTITY.finditer(text):
        words = match[0]
        if _begins(text, match.start()):
            first, _, rest = words.partition(" ")
            alone = not rest and first.isalpha() and first.istitle()
            if alone or first.lower().split("'")[0] in _stop():
                words = rest
        yield from analyse(words) if words else ()


@cache
def _stop() -> frozenset[str]:
    return frozenset(stopwords().english | stopwords().english_question)
