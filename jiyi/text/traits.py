"""Traits and worth of a text, and the modes of a clause or message, by simple signs in Chinese and English.

They are meant for ranking and for reading facts: each is right far more often than not and very fast, but
none understands the text. A hundred characters take 20 to 60 microseconds for traits, 10 to 40 for modes;
only the first 2,000 characters are read.
"""

import re
from enum import IntFlag
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from jiyi.text.lexicon import fill_parts, lexicon, read_toml

__all__ = ["Mode", "Trait", "asks_last", "message_modes", "modes", "salience", "traits"]

_SAMPLE = 2_000
_SMALL_TALK = 60  # maximum characters of a greeting


class Trait(IntFlag):
    """Traits of a text.

    The numbers are stored with records: each keeps its meaning, and new ones are added at the end.
    """

    QUESTION = 1  # a question mark, or 吗 or 呢 at the end
    NUMBER = 2  # a digit or a number word
    DATE = 4  # a date, or words such as "last week", 昨天, 3月
    NAME = 8  # a capitalised word inside a sentence, 《a title》, a quoted name
    FIRST_PERSON = 16  # I, my, we, 我, 咱们
    SECOND_PERSON = 32  # you, your, 你, 您
    NEGATION = 64  # not, never, don't, 不, 没
    DECISION = 128  # remember, note that, decided, 记住, 决定, 以后
    GREETING = 256  # only a greeting, thanks or an acknowledgement
    ASKS_LAST = 512  # it ends with a question
    MOSTLY_ASKS = 1024  # questions are half of it, or contain all its numbers and names
    SUPPOSES = 2048  # if, might, 如果, 说不定
    REPORTS = 4096  # a document or hearsay says it: 文档上写着, "the wiki says"
    CHANGES = 8192  # a new value replaces an old one: 改成, "moved to", "from now on"
    CORRECTS = 16384  # an earlier statement was wrong: 写错了, "misread"
    RETRACTS = 32768  # an earlier statement is withdrawn: 当我没说, "forget that"
    REVERTS = 65536  # back to what was before: 恢复, "back to"
    TEMPORARY = 131072  # for a while only: 只有这周, "until Friday"
    PLANS = 262144  # will be: 打算, 下周起, "plan to"


class Mode(IntFlag):
    """What a text does besides stating something; without any flag it is a plain statement.

    Each but `NEGATED` has the number of the trait that messages get from it.
    """

    ASKED = 1024  # it contains a question
    HYPOTHETICAL = 2048  # if, might, some day: 如果, 说不定, 到时候再说
    NEGATED = 1 << 32  # denied as a whole: 没这回事, "that's not the case"
    REPORTED = 4096  # a document or hearsay says it: 文档上写着, "the slides describe"
    CHANGED = 8192  # a new value replaces an old one: 改成, 从今天起, "moved to", "from now on"
    CORRECTED = 16384  # an earlier statement was wrong: 写错了, "misread", "I had the wrong letter"
    RETRACTED = 32768  # an earlier statement is withdrawn: 当我没说, 删了吧, "scratch that", "called off"
    REVERTED = 65536  # back to what was before: 退回, 恢复原来, "back to", "once more"
    TEMPORARY = 131072  # for a while only: 只有这周, 这三天, "until Friday"
    PLANNED = 262144  # will be: 打算, 下周起, "plan to", "from May 10"


_QUESTION, _NUMBER, _DATE, _NAME, _I, _YOU, _NO, _DECISION, _GREETING, _ASKS_LAST = (
    sign.value for sign in list(Trait)[:10]
)

_CLUES = (  # a trait, the list of its words in English, its pattern in Chinese
    (_NUMBER, "numbers", "number_zh"),
    (_DATE, "dates", "date_zh"),
    (_I, "first_person", "first_person_zh"),
    (_YOU, "second_person", "second_person_zh"),
    (_NO, "denials", "denial_zh"),
    (_DECISION, "decides", "decides_zh"),
)

_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)*")
_NOT_WORDS = re.compile(r"[\W_]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_DIGIT = re.compile(r"\d")

_AFTER_A_SENTENCE = " \t\n.!~…。！～”\"'）)」"

_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")
_CLAUSE = re.compile(r"(?<![A-Za-z'])[A-Za-z']++ [A-Za-z']++ [A-Za-z']")  # English inside Chinese, not a name
_ASKS = re.compile(r"[?？](?![A-Za-z0-9_=&/])|[吗呢] *(?:[，。！、,.!~…\n]|$)")

_ASKED, _REPORTED, _CORRECTED = Mode.ASKED.value, Mode.REPORTED.value, Mode.CORRECTED.value
_UNCERTAIN = (Mode.HYPOTHETICAL | Mode.PLANNED).value
_UPDATES = (Mode.CHANGED | Mode.CORRECTED | Mode.RETRACTED | Mode.REVERTED).value

_MAX_ACKNOWLEDGEMENT = 45  # bytes: 15 Chinese characters, 8 words of English
_SMALL_TALK_WORTH, _PHRASE, _NODDED, _ORDINARY = 0.2, 0.25, 0.3, 0.5
_PERSONAL, _MOST_DETAIL, _NEW, _OPEN, _KEY = 0.75, 0.8, 0.85, 0.9, 1.0
_MOSTLY_ASKS, _SUPPOSES = Trait.MOSTLY_ASKS.value, Trait.SUPPOSES.value

_signs = cache(partial(lexicon, __package__, "traits"))
_worth_signs = cache(partial(lexicon, __package__, "salience"))


def traits(text: str) -> Trait:
    """Return the traits of a text, ``Trait(0)`` without any."""
    signs, found = _signs(), _punctuation(text)
    sample = text[:_SAMPLE]
    lower = sample.lower().replace("’", "'")
    words = set(_LATIN.findall(lower))
    chinese = not sample.isascii() and _HAN.search(sample)
    for trait, listed, pattern in _CLUES:
        if not words.isdisjoint(getattr(signs, listed)) or (
            chinese and getattr(signs, pattern).search(sample)
        ):
            found |= trait
    if not words.isdisjoint(signs.pointers) and signs.pointed.search(lower):
        found |= _DATE
    if not words.isdisjoint(signs.decides_hints) and signs.decides_phrase.search(lower):
        found |= _DECISION
    if "remember" in words and not found & _QUESTION:  # not "do you remember ...?"
        found |= _DECISION
    if words:
        found |= (_NAME if signs.capitalised.search(sample) else 0) | (_NO if "n't" in lower else 0)
    if _DIGIT.search(sample):
        found |= _NUMBER | (_DATE if signs.date_digits.search(lower) else 0)
    elif len(text) <= _SMALL_TALK and _is_small_talk(lower, words, signs):
        found |= _GREETING
    if signs.title.search(sample):
        found |= _NAME
    return Trait(found | message_modes(text).value & ~Mode.NEGATED.value)


def asks_last(text: str) -> bool:
    """Return whether a text ends with a question, much faster than `traits`."""
    return bool(_punctuation(text) & _ASKS_LAST)


def _punctuation(text: str) -> int:
    end = text[-20:].rstrip(_AFTER_A_SENTENCE)
    if end.endswith(("?", "？", "吗", "呢")):
        return _QUESTION | _ASKS_LAST
    return _QUESTION if "?" in text or "？" in text else 0


def _is_small_talk(lower: str, words: set[str], signs: SimpleNamespace) -> bool:
    """Return whether a short text is a greeting, thanks, an acknowledgement or a reaction."""
    if signs.reacts.fullmatch(lower.strip()):
        return True
    if not words <= signs.greets | signs.greets_with:
        return False
    rest = _NOT_WORDS.sub("", _LATIN.sub("", lower))
    if not rest:
        return not words.isdisjoint(signs.greets)
    return bool(signs.greets_zh.fullmatch(rest) and not signs.fills_zh.fullmatch(rest))


def modes(text: str) -> Mode:
    """Return the modes of a text, ``Mode(0)`` for a plain statement."""
    return Mode(_modes(text[:_SAMPLE]))


def message_modes(text: str) -> Mode:
    """Return the modes of a message as a whole.

    ASKED stays only if questions are at least half of it or contain all its numbers and names. HYPOTHETICAL
    and PLANNED are dropped if the message also changes, corrects or retracts something, and REPORTED if it
    corrects: "the docs were wrong, it is 8444" is no report.
    """
    sample = text[:_SAMPLE]
    found = _modes(sample)
    if found & _ASKED and not _mostly_asks(sample):
        found &= ~_ASKED
    if found & _UPDATES and not found & _REPORTED:
        found &= ~_UNCERTAIN
    if found & _CORRECTED:
        found &= ~_REPORTED
    return Mode(found)


def _modes(sample: str) -> int:
    found = _ASKED if _ASKS.search(sample) else 0
    chinese = not sample.isascii() and _HAN.search(sample)
    for value, starts, pattern in _mode_phrases("zh") if chinese else ():
        # Trying a pattern only at its possible first characters takes a fifth of the time.
        if any(pattern.match(sample, start.start()) for start in starts.finditer(sample)):
            found |= value
    if not chinese or _CLAUSE.search(sample):
        lower = sample.lower().replace("’", "'")
        words = _words(lower)
        for value, hints, pattern in _mode_phrases("en"):
            if not words.isdisjoint(hints) and pattern.search(lower):
                found |= value
    return found


def _mostly_asks(text: str) -> bool:
    signs = _signs()
    if signs.suggests.search(text):
        return True
    asking, stated = list[str](), list[str]()
    for part in signs.clause.findall(text):
        (asking if signs.ends_asking.search(part) else stated).append(part)
    if sum(map(len, asking)) >= sum(map(len, stated)):
        return True
    return any(map(signs.value.search, asking)) and not any(map(signs.value.search, stated))


@cache
def _mode_phrases(language: str) -> list[tuple[int, Any, re.Pattern[str]]]:
    """Return each mode with its hints (English words or a pattern of first characters) and its pattern."""
    table = read_toml(__package__, "modality")[language]
    parts = {name: f"(?:{part})" for name, part in table.pop("parts").items()}
    rows: list[tuple[int, Any, re.Pattern[str]]] = []
    for name, row in table.items():
        pattern = re.compile("|".join(fill_parts(row["phrases"], parts).split("\n")[:-1]))
        by_words = "hints" in row
        hints = _words(fill_parts(row["hints"], parts)) if by_words else re.compile(f"[{row['starts']}]")
        rows.append((Mode[name].value, hints, pattern))
    return rows


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def salience(text: str) -> float:
    """Return how much a text is worth keeping, from 0 to 1.

    About 1.0 for decisions and "remember this"; .9 for to-dos; .85 for changes and corrections; .75 for
    statements of people about themselves and stressed ones; .65 to .8 for details (numbers, dates, names,
    errors, paths, commands, code: more kinds score higher); .5 for ordinary text; .3 and below for greetings,
    acknowledgements and phrases; 0 for no text. The highest that applies counts. Questions and suppositions
    are no decisions. Only the first 2,000 characters are read.
    """
    sample = text[:_SAMPLE]
    if not sample.strip():
        return 0.0
    lower = sample.lower().replace("’", "'")
    signs = traits(sample).value
    if signs & _GREETING:
        return _SMALL_TALK_WORTH
    words = _worth_signs()
    named = signs & _NAME or words.person_zh.search(sample)
    kinds = signs & _NUMBER, signs & _DATE, named, words.error.search(lower), words.code.search(sample)
    details = sum(map(bool, kinds))
    short = len(text[: _MAX_ACKNOWLEDGEMENT + 1].encode("utf-8", "replace")) <= _MAX_ACKNOWLEDGEMENT
    nods = short and details <= bool(signs & _NAME) and words.nods.match(lower)  # "Hey Ana!"
    says_more = signs & (_QUESTION | _UPDATES)
    if nods and not (says_more or _decides(lower, signs) or words.todo.search(lower)):
        return _NODDED
    worth = min(_MOST_DETAIL, 0.6 + 0.05 * details) if details else _ORDINARY
    if signs & _DATE and details == 1:
        worth = _ORDINARY + 0.05  # "today" alone is no detail
    if not signs & _MOSTLY_ASKS:
        worth = max(worth, _statement_score(lower, signs))
    if signs & _SUPPOSES and worth < _OPEN:
        worth -= 0.05
    if worth <= _ORDINARY and words.polite.search(lower):
        return _PHRASE
    return round(worth, 2)


def _statement_score(lower: str, signs: int) -> float:
    """Return the score of a statement without its details."""
    words = _worth_signs()
    if _decides(lower, signs):
        return _KEY
    if words.todo.search(lower):
        return _OPEN
    if signs & _UPDATES and not signs & _SUPPOSES:
        return _NEW
    return _PERSONAL if words.told_of_self.search(lower) or words.stressed.search(lower) else _ORDINARY


def _decides(lower: str, signs: int) -> bool:
    if _worth_signs().key_words.search(lower):
        return not signs & _SUPPOSES
    if not signs & _DECISION:
        return False
    rest = _worth_signs().not_decided.sub(" ", lower)
    return len(rest) == len(lower) or bool(traits(rest).value & _DECISION)
