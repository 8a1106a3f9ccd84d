"""Traits of a text, recognised by simple signs in Chinese and English.

They are meant for ranking: each is right far more often than not and very fast, but none understands the
text. A hundred characters take 20 to 60 microseconds; only the first 2,000 characters are read.
"""

import re
from enum import IntFlag
from functools import cache, partial
from types import SimpleNamespace

from jiyi.text.lexicon import lexicon
from jiyi.text.modality import Mode, message_modes

__all__ = ["Trait", "asks_last", "traits"]

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


_QUESTION, _NUMBER, _DATE, _NAME, _I, _YOU, _NO, _DECISION, _GREETING, _ASKS_LAST = (
    sign.value for sign in list(Trait)[:10]
)
# The traits from the eleventh on are the modes in their order, without `NEGATED`.
_MODES = [mode.value for mode in Mode if mode is not Mode.NEGATED]
_TRAITS_BY_MODE = list(zip(_MODES, (trait.value for trait in list(Trait)[10:]), strict=True))

_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)*")
_NOT_WORDS = re.compile(r"[\W_]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_DIGIT = re.compile(r"\d")

_ASKS_ZH = ("吗", "呢")
_AFTER_A_SENTENCE = " \t\n.!~…。！～”\"'）)」"

_signs = cache(partial(lexicon, __package__, "traits"))


def traits(text: str) -> Trait:
    """Return the traits of a text, ``Trait(0)`` without any."""
    signs, found = _signs(), _punctuation(text)
    sample = text[:_SAMPLE]
    lower = sample.lower().replace("’", "'")
    words = set(_LATIN.findall(lower))
    if words:
        found |= _english(sample, lower, words, signs)
        if "remember" in words and not found & _QUESTION:  # not "do you remember ...?"
            found |= _DECISION
    if not sample.isascii() and _HAN.search(sample):
        found |= _chinese(sample, signs)
    if _DIGIT.search(sample):
        found |= _NUMBER | (_DATE if signs.date_digits.search(lower) else 0)
    elif len(text) <= _SMALL_TALK and _is_small_talk(lower, words, signs):
        found |= _GREETING
    if signs.title.search(sample):
        found |= _NAME
    modes = message_modes(text).value
    for mode, trait in _TRAITS_BY_MODE:
        if modes & mode:
            found |= trait
    return Trait(found)


def asks_last(text: str) -> bool:
    """Return whether a text ends with a question, much faster than `traits`."""
    return bool(_punctuation(text) & _ASKS_LAST)


def _punctuation(text: str) -> int:
    end = text[-20:].rstrip(_AFTER_A_SENTENCE)
    if end.endswith(("?", "？", *_ASKS_ZH)):
        return _QUESTION | _ASKS_LAST
    return _QUESTION if "?" in text or "？" in text else 0


def _english(sample: str, lower: str, words: set[str], signs: SimpleNamespace) -> int:
    found = 0
    for listed, trait in (
        (signs.numbers, _NUMBER),
        (signs.dates, _DATE),
        (signs.first_person, _I),
        (signs.second_person, _YOU),
        (signs.denials, _NO),
        (signs.decides, _DECISION),
    ):
        if not words.isdisjoint(listed):
            found |= trait
    if not words.isdisjoint(signs.pointers) and signs.pointed.search(lower):
        found |= _DATE
    if not words.isdisjoint(signs.decides_hints) and signs.decides_phrase.search(lower):
        found |= _DECISION
    return found | (_NAME if signs.capitalised.search(sample) else 0) | (_NO if "n't" in lower else 0)


def _chinese(sample: str, signs: SimpleNamespace) -> int:
    found = 0
    number, date, denies, decides = signs.number_zh, signs.date_zh, signs.denial_zh, signs.decides_zh
    for sign, trait in ((number, _NUMBER), (date, _DATE), (denies, _NO), (decides, _DECISION)):
        if sign.search(sample):
            found |= trait
    if "我" in sample or "咱" in sample:
        found |= _I
    if "你" in sample or "您" in sample:
        found |= _YOU
    return found


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
