"""Parses a question: its terms, names, times and what it asks for."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from operator import methodcaller
from typing import Literal

from jiyi.clock import to_micros, utc_from_micros
from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.times import next_occurrence
from jiyi.extraction.values import load_patterns
from jiyi.text import TimeSpan, analyse, find_dates, has_date, query_terms
from jiyi.text.analyse import stopwords

DAY = 86_400 * 1_000_000  # in microseconds
_MAX_QUESTION_CHARS = 200  # a longer text states something rather than asks one thing
_DAY = timedelta(days=1)
_DEFAULT_VALIDITY = timedelta(days=14)  # of a temporary statement without an end
_NO_SPACES = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # kana, Han, Hangul: no spaces between words
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
_MAX_REPEAT_CHARS = 1_000  # of a message that only asks a question
_MIN_SHORT_NAME = 3  # letters of a short form of a name
_ROLES = {
    *("user", "assistant", "system", "tool", "ai", "bot", "human", "developer"),
    *("用户", "助手", "系统", "机器人"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedTime:
    """The time at which the answer must hold."""

    kind: Literal["now", "then"]  # the present or a future day, or a past time
    moment: int  # in microseconds since 1970; the end of a day or month, or the day before it begins
    changed: bool = False  # a word such as "now" implies that something has changed


def cues(section: str) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of a section of cues.toml."""
    return load_patterns("cues", section, "jiyi.long_term.recall")


def _parse_asked_time(text: str, spans: Sequence[TimeSpan], asked_at: int) -> _AskedTime | None:
    """Return the time a question with these dates asks about; None for history, or if it is no question."""
    patterns = cues("asked_time")
    is_question = len(text) <= _MAX_QUESTION_CHARS and _asks(text.strip())
    if not is_question or patterns["history"].search(text):
        return None
    of_language = cues("asked_time.zh" if is_chinese(text) else "asked_time.en")
    says_now = of_language["now"].search(text) is not None
    if spans:
        start, end = to_micros(spans[0].start), to_micros(spans[0].end)
        if patterns["to_come"].search(text) and end <= asked_at:
            start, end = start + 365 * DAY, end + 365 * DAY
        if start > asked_at:
            return _AskedTime(kind="now", moment=end, changed=says_now)
        if _asks_about_past(text, over=end <= asked_at):
            until, rest = text[: spans[0].at], text[spans[0].at + len(spans[0].text) :]
            before = patterns["until"].search(until) or patterns["before"].match(rest)
            return _AskedTime(kind="then", moment=start - DAY if before else min(end, asked_at))
    if of_language["past"].search(text) and not says_now:
        return None
    return _AskedTime(kind="now", moment=asked_at, changed=says_now)


def _asks_about_past(text: str, *, over: bool) -> bool:
    """Return whether a question asks about the time it names, which has begun and may be over.

    In Chinese a weekday alone means every week: 周三夜里谁值班. In English it takes a past-tense verb or a
    past year: in "Where do the Tuesday Larks meet?" the day is part of a name.
    """
    if is_chinese(text):
        patterns = cues("asked_time.zh")
        return over and (not patterns["no_date"].search(text) or patterns["date"].search(text) is not None)
    patterns = cues("asked_time.en")
    is_past = patterns["then"].search(text) or (over and patterns["year"].search(text))
    return bool(is_past) and not patterns["now"].search(text)


def validity(text: str, said_at: int, zone: tzinfo = UTC) -> tuple[int, int]:
    """Return the start and end of the validity of a temporary statement, in microseconds since 1970.

    It ends with the last date named (这周三到周五, "until Friday", "until October"), or after a fortnight if
    no future date is named. It starts on the first date if there are several or it is longer than a day,
    else on the day it was said.
    """
    now = utc_from_micros(said_at)
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    dates = find_dates(text, now, zone) if has_date(text) else []
    spans = [span for span in (next_occurrence(span, now) for span in dates) if span.end > now]
    end = max((span.end for span in spans), default=today + _DEFAULT_VALIDITY)
    is_period = len(spans) > 1 or any(span.end - span.start > _DAY for span in spans)
    has_start = is_period and not load_patterns("forms", "times")["until"].search(text[: spans[0].at])
    return to_micros(max(today, spans[0].start) if has_start else today), to_micros(end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A parsed question."""

    text: str  # unchanged
    terms: tuple[str, ...]  # distinct search terms
    entities: frozenset[str]  # terms of the names, titles and numbers in it
    ranges: tuple[tuple[int, int], ...]  # times it names: start and end in microseconds since 1970
    asked_at: int  # in microseconds since 1970
    when: bool  # it asks for a time
    how_many: bool  # it asks for a number
    own: bool  # it is about the asker
    you_said: bool  # it asks what the assistant said
    i_said: bool  # it asks what the asker said
    time: _AskedTime | None  # at which the answer must hold; None if it does not matter


def parse_question(text: str, asked_at: datetime, zone: tzinfo = UTC) -> Question:
    """Parse a question in Chinese or English; any text is accepted."""
    spans = find_dates(text, asked_at, zone)
    return Question(
        text=text,
        terms=tuple(query_terms(text)),
        entities=frozenset(_entity_terms(text)),
        ranges=tuple((to_micros(span.start), to_micros(span.end)) for span in spans),
        asked_at=to_micros(asked_at),
        time=_parse_asked_time(text, spans, to_micros(asked_at)),
        **{name: bool(pattern.search(text)) for name, pattern in cues("question").items()},
    )


def asks_again(text: str, terms: Collection[str]) -> bool:
    """Return whether a text asks a question and has no terms but those given."""
    own_terms = _terms_if_question(text) if len(text) <= _MAX_REPEAT_CHARS else None
    return own_terms is not None and own_terms.issubset(terms)


@lru_cache(maxsize=4096)  # records are often found again
def _terms_if_question(text: str) -> frozenset[str] | None:
    """Return the terms of a text that asks a question, else None."""
    return frozenset(query_terms(text)) if _asks(text) else None


def _asks(text: str) -> bool:
    patterns = cues("asked_time")
    return bool(patterns["asks_first"].match(text) or patterns["asks"].search(text))


def named_speakers(text: str, speakers: Sequence[str]) -> list[int]:
    """Return the positions of the speakers that a text names, by any part of the name or a short form.

    A short form is at least three letters, capitalised, with which the name begins: "Mel" for Melanie.
    Chinese, Japanese and Korean names must be complete. Roles such as "user" or "AI" are not names, and
    neither is "will" in lower case or at the start of a sentence.
    """
    return list(_find_named_speakers(text, tuple(speakers)))


@lru_cache(maxsize=256)  # a search calls it twice
def _find_named_speakers(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    words = _possible_names(text)
    lowered, short = set(map(str.lower, words)), tuple(map(str.lower, filter(_may_be_short_name, words)))
    has_short_form = methodcaller("startswith", short)
    named = []
    for place, name in enumerate(speakers):
        parts, cjk = _name_parts(name)
        if cjk in text if cjk else not lowered.isdisjoint(parts) or any(map(has_short_form, parts)):
            named.append(place)
    return tuple(named)


@lru_cache(maxsize=4096)
def _name_parts(name: str) -> tuple[tuple[str, ...], str]:
    """Return a name's words in lower case, or a CJK name as a whole; nothing for a role (助手)."""
    if name.lower() in _ROLES:
        return (), ""
    if _CJK.search(name):
        return (), name.strip()
    return tuple(part for part in _WORD.findall(name.lower()) if len(part) > 1), ""


def _may_be_short_name(word: str) -> bool:
    """Return whether a word may be the short form of a name."""
    return len(word) >= _MIN_SHORT_NAME and word[0].isupper() and word.lower() not in _stop_words()


def remove_names(text: str, names: Sequence[str]) -> str:
    """Return a question without these names and their short forms; unchanged if nothing else is left."""
    if not names:
        return text
    rest, words = text, _possible_names(text)
    for name in names:
        is_cjk = _CJK.search(name) is not None
        for word in _words_naming(name, text, words):
            edges = ("", "") if is_cjk else (rf"(?<!{_LETTER})", rf"(?:['’]s)?(?!{_LETTER})")
            rest = re.sub(edges[0] + re.escape(word) + edges[1], " ", rest)
    rest = " ".join(rest.split())
    return rest if _ANY_LETTER.search(rest) else text


def _possible_names(text: str) -> set[str]:
    """Return the words of a text except function words in lower case or at the start of a sentence."""
    return {
        match[0]
        for match in _WORD.finditer(text)
        if match[0].lower() not in _stop_words()
        or not (match[0].islower() or _starts_sentence(text, match.start()))
    }


def _starts_sentence(text: str, place: int) -> bool:
    before = text[max(0, place - 20) : place].rstrip()
    return not before or before.endswith(_SENTENCE_ENDS)


def _words_naming(name: str, text: str, words: set[str]) -> set[str]:
    """Return those of a text's words that refer to somebody of this name."""
    parts, cjk = _name_parts(name)
    if cjk:
        return {cjk} if cjk in text else set()
    return {
        word
        for word in words
        if word.lower() in parts
        or (_may_be_short_name(word) and any(part.startswith(word.lower()) for part in parts))
    }


def _entity_terms(text: str) -> Iterator[str]:
    """Yield the terms of names, titles and numbers; a capital at the start of a sentence makes no name."""
    for match in _ENTITY.finditer(text):
        words = match[0]
        if _starts_sentence(text, match.start()):
            first, _, rest = words.partition(" ")
            alone = not rest and first.isalpha() and first.istitle()
            if alone or first.lower().split("'")[0] in _stop_words():
                words = rest
        yield from analyse(words) if words else ()


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(stopwords().english | stopwords().english_question)
