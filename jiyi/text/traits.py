"""What kind of thing a text says, by cheap signs in Chinese and English.

The signs are meant for ranking: each is right far more often than not and costs next to
nothing; none of them understands the text. A hundred characters take 20 to 60 microseconds;
of a long text the first 2,000 characters decide.
"""

import re
from enum import IntFlag

from jiyi.text.modality import Mode, stance

__all__ = ["Trait", "traits"]

_SAMPLE = 2_000
_SMALL_TALK = 60  # characters a greeting has at most


class Trait(IntFlag):
    """Signs a text can carry.

    The numbers are stored with records: each keeps its meaning, new ones come behind.
    """

    QUESTION = 1  # it asks: a question mark, or 吗 or 呢 at its end
    NUMBER = 2  # a digit or a number word
    DATE = 4  # a date, or words such as "last week", 昨天, 3月
    NAME = 8  # a capitalised word inside a sentence, 《a title》, a quoted name
    FIRST_PERSON = 16  # I, my, we, 我, 咱们
    SECOND_PERSON = 32  # you, your, 你, 您
    NEGATION = 64  # not, never, don't, 不, 没
    DECISION = 128  # remember, note that, decided, 记住, 决定, 以后
    GREETING = 256  # nothing but a greeting, thanks or a nod
    ASKS_LAST = 512  # it ends by asking
    MOSTLY_ASKS = 1024  # its questions are half of it, or hold all its numbers and names
    SUPPOSES = 2048  # if, might, 如果, 说不定
    REPORTS = 4096  # what a document or hearsay says: 文档上写着, "the wiki says"
    CHANGES = 8192  # a new value for an old: 改成, "moved to", "from now on"
    CORRECTS = 16384  # an earlier word was wrong: 写错了, "misread"
    RETRACTS = 32768  # an earlier word is taken back: 当我没说, "forget that"
    REVERTS = 65536  # back to what was before: 恢复, "back to"
    TEMPORARY = 131072  # for a while only: 只有这周, "until Friday"
    PLANS = 262144  # will be: 打算, 下周起, "plan to"


_QUESTION, _NUMBER, _DATE, _NAME, _I, _YOU, _NO, _DECISION, _GREETING, _ASKS_LAST = (
    sign.value for sign in list(Trait)[:10]
)
_BY_STANCE = [
    (Mode.ASKED.value, Trait.MOSTLY_ASKS.value),
    (Mode.HYPOTHETICAL.value, Trait.SUPPOSES.value),
    (Mode.REPORTED.value, Trait.REPORTS.value),
    (Mode.CHANGED.value, Trait.CHANGES.value),
    (Mode.CORRECTED.value, Trait.CORRECTS.value),
    (Mode.RETRACTED.value, Trait.RETRACTS.value),
    (Mode.REVERTED.value, Trait.REVERTS.value),
    (Mode.TEMPORARY.value, Trait.TEMPORARY.value),
    (Mode.PLANNED.value, Trait.PLANS.value),
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LATIN = re.compile(r"[a-z]+(?:'[a-z]+)*")
_NOT_WORDS = re.compile(r"[\W_]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_DIGIT = re.compile(r"\d")

_ASKS_ZH = ("吗", "呢")
_AFTER_A_SENTENCE = " \t\n.!~…。！～”\"'）)」"

_NUMBERS = _words(
    """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
    thousand million billion dozen dozens twice half
    """
)
_DIGITS_ZH = "〇零一二两三四五六七八九十百千万亿"
_NUMBER_ZH = re.compile(
    rf"[二两三四五六七八九十百千万亿半][个名位次回遍天日周年月岁点分秒块元角毛号楼层米里斤克只条张本件份台辆部套双家间种口杯瓶台倍成]"
    rf"|一[百千万亿年月天周岁点号米斤块元倍半]|第[{_DIGITS_ZH}]|[{_DIGITS_ZH}]{{2}}"
)

_MONTHS = "january february march april june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday"
_DATES = _words(f"{_MONTHS} {_DAYS} yesterday today tomorrow tonight ago weekend anniversary birthday")
_POINTERS = _words("last next this past coming since until may")
_POINTED = re.compile(
    r"\b(?:last|next|this|past|coming) (?:few |couple of )?"
    r"(?:night|day|week|month|year|spring|summer|autumn|fall|winter|semester|quarter|christmas|time)s?\b"
    r"|\b(?:in|since|until|by|of|last|next|this) may\b|\bmay \d|\d(?:st|nd|rd|th)? (?:of )?may\b"
)
_DATE_DIGITS = re.compile(
    r"\b(?:19|20)\d\d\b|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b|\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}/\d{1,2}\b"
)
_DATE_ZH = re.compile(
    rf"[\d{_DIGITS_ZH}](?:年|月|日|号)|[昨今明前后]天|[昨今明]晚|今早|昨夜|[去今明前后]年|[年月][初底末]"
    r"|[上下这本]个?(?:周|星期|礼拜|月|季度|学期)|(?:周|星期|礼拜)[一二三四五六日天末]"
    r"|(?:天|周|星期|月|年|小时|分钟)[之以]?[前后]|前几[天年日]|前些[天年日]|[春夏秋冬]天|生日|春节|国庆|中秋|除夕"
)

_CAPITALISED = re.compile(
    r"[a-z,;:] (?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|OK\b|Okay\b|January|February|March\b|April\b"
    r"|May\b|June\b|July\b|August\b|September|October|November|December)[A-Z][A-Za-z]"
)
_TITLE = re.compile(r"《[^》]+》|[\"“「『][A-Z\u4e00-\u9fff][^\"”」』\n]{0,40}[\"”」』]")

_FIRST = _words(
    "i i'm i've i'll i'd im ive my me mine myself we we're we've we'll we'd our ours us ourselves"
)
_SECOND = _words("you you're you've you'll you'd your yours yourself yourselves")

_NOT = _words(
    """
    not no never none nothing nobody nowhere neither nor cannot without hardly
    dont didnt doesnt cant couldnt wont wouldnt isnt wasnt havent hasnt shouldnt
    """
)
_NOT_ZH = re.compile(r"(?<![差对特分告区])[不没未无别](?![错过但仅管论少断来])")

_DECIDES = _words("decide decided decides decision agreed")
_DECIDES_HINTS = _words("note mind now forward future forget")
_DECIDES_PHRASE = re.compile(
    r"\b(?:note that|make a note|(?:keep|bear) in mind|from now on|going forward|in future|don't forget)\b"
)
_DECIDES_ZH = re.compile(
    r"记住|记一下|记下来?|记好|别忘|不要忘|决定|以后|今后|从现在起|从今|约定|说好|定下来|一律"
)

_GREETS = _words(
    """
    hi hello hey thanks thank thx ty ok okay great cool nice sure yes yeah yep yup no nope bye goodbye
    morning afternoon evening night welcome sorry perfect awesome wow haha hahaha lol alright cheers
    """
)
_GREETS_WITH = _words(
    """
    a all and again for good got have help i is it it's later much my problem right see so that that's
    the there to too very well will you you're your day one understood sounds everyone lot
    """
)
_GREETS_ZH = re.compile(
    r"(?:你好|您好|大家好|嗨|哈喽|早上好|下午好|晚上好|早安|晚安|早|谢谢|感谢|多谢|非常|太|好的?|嗯+|哦+|噢|行|可以|没问题|没事|没关系"
    r"|不客气|不用谢|再见|拜拜|收到|明白|知道|懂|辛苦|哈+|嘿+|对|是的?|当然|厉害|不错|真棒|抱歉|对不起|不好意思"
    r"|你|您|啊|呀|啦|了|吧|呢|哈|哟|呐|的|嘛|大家|各位)+"
)
_REACTS = re.compile(  # to what another one said: nothing of one's own
    r"(?:that |it )?(?:sounds?|looks?) (?:so |very |really |pretty |quite )?[a-z]{3,12}[.!]*"
    r"|(?:那|这)?(?:听|看)(?:起来|上去)(?:真|很|挺|好|太|还|是|也|不){0,3}[\u4e00-\u9fff]{1,4}(?:的|啊|呀|呢|吧|了)?[。！!~～]*"
)
_FILLS_ZH = re.compile(r"[你您啊呀啦了吧呢的嘛非常太大家各位]+")


def traits(text: str) -> Trait:
    """Return the signs a text carries; a text without any gives ``Trait(0)``."""
    found = _punctuation(text)
    sample = text[:_SAMPLE]
    lower = sample.lower().replace("’", "'")
    words = set(_LATIN.findall(lower))
    if words:
        found |= _english(sample, lower, words)
        if "remember" in words and not found & _QUESTION:  # not "do you remember ...?"
            found |= _DECISION
    if not sample.isascii() and _HAN.search(sample):
        found |= _chinese(sample)
    if _DIGIT.search(sample):
        found |= _NUMBER | (_DATE if _DATE_DIGITS.search(lower) else 0)
    elif len(text) <= _SMALL_TALK and _is_small_talk(lower, words):
        found |= _GREETING
    if _TITLE.search(sample):
        found |= _NAME
    stands = stance(text).value
    for mode, trait in _BY_STANCE:
        if stands & mode:
            found |= trait
    return Trait(found)


def _punctuation(text: str) -> int:
    end = text[-20:].rstrip(_AFTER_A_SENTENCE)
    if end.endswith(("?", "？", *_ASKS_ZH)):
        return _QUESTION | _ASKS_LAST
    return _QUESTION if "?" in text or "？" in text else 0


def _english(sample: str, lower: str, words: set[str]) -> int:
    found = 0
    if not words.isdisjoint(_NUMBERS):
        found |= _NUMBER
    if not words.isdisjoint(_DATES) or (not words.isdisjoint(_POINTERS) and _POINTED.search(lower)):
        found |= _DATE
    if _CAPITALISED.search(sample):
        found |= _NAME
    if not words.isdisjoint(_FIRST):
        found |= _I
    if not words.isdisjoint(_SECOND):
        found |= _YOU
    if "n't" in lower or not words.isdisjoint(_NOT):
        found |= _NO
    if not words.isdisjoint(_DECIDES) or (
        not words.isdisjoint(_DECIDES_HINTS) and _DECIDES_PHRASE.search(lower)
    ):
        found |= _DECISION
    return found


def _chinese(sample: str) -> int:
    found = 0
    if _NUMBER_ZH.search(sample):
        found |= _NUMBER
    if _DATE_ZH.search(sample):
        found |= _DATE
    if "我" in sample or "咱" in sample:
        found |= _I
    if "你" in sample or "您" in sample:
        found |= _YOU
    if _NOT_ZH.search(sample):
        found |= _NO
    if _DECIDES_ZH.search(sample):
        found |= _DECISION
    return found


def _is_small_talk(lower: str, words: set[str]) -> bool:
    """Say whether a short text is a greeting, thanks, a nod or a mere reaction."""
    if _REACTS.fullmatch(lower.strip()):
        return True
    if not words <= _GREETS | _GREETS_WITH:
        return False
    rest = _NOT_WORDS.sub("", _LATIN.sub("", lower))
    if not rest:
        return not words.isdisjoint(_GREETS)
    return bool(_GREETS_ZH.fullmatch(rest) and not _FILLS_ZH.fullmatch(rest))
