"""Whether the best messages hold what is asked for: a time, a number, a name; by signs, zh and en.

A memory may talk of a thing at length and still lack the one point asked for, or may have been
told to forget it. The signs look at the message that says most of the question's words.
"""

import re
from collections.abc import Mapping, Sequence
from math import exp
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.weights import UNANSWERED
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait

__all__ = ["ANSWER_SIGNS", "AnswerSign", "answer_signs", "unanswered"]

AnswerSign = Literal["lacks", "yes_or_no", "asks", "taken_back", "unheard_of", "any_answer"]
"""What speaks for or against an answer being there."""

ANSWER_SIGNS: tuple[AnswerSign, ...] = get_args(AnswerSign)
"""The signs in the order of the columns."""

_LOOKED_AT = 10  # messages, the best ones
_MEANING = 0.05  # of the words covered, for a deviation of "apart"
_FAR = -6.0  # deviations

_CLOCK = (
    r"\d{1,2}[:：.]\d\d|[零一二两三四五六七八九十\d] ?点|\b\d{1,2} ?(?:am|pm)\b|\b(?:noon|midnight)\b"
    r"|早上|晚上|睡前"
    r"|\b(?:at|past|from|by|to|quarter) (?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
)
_CALENDAR = (
    r"\d{1,2} ?月|[一二三四五六七八九十]月|\d{1,2} ?[号日]|(?:周|星期|礼拜)[一二三四五六日天]|20\d\d"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|\b\d{1,2}(?:st|nd|rd|th)\b|明天|昨天|[月年][初底末]|[上下]周"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
)
_AMOUNT = (
    r"\d|[零一二两三四五六七八九十百千万半][个名位次天周年岁元块斤公米分秒套台条张杯页楼层倍人家种口]"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred)\b"
    r"|\b(?:twice|once|half|bucks)\b"
)
_CODE_EN = "version|port|address|password|key|token|ip|number|code|endpoint|path|url"
_KINDS = [  # what is asked for, and what it looks like
    (re.compile(asks, re.IGNORECASE), re.compile(looks, flags))
    for asks, looks, flags in (
        (r"几点|什么时间|what time", _CLOCK, re.IGNORECASE),
        (
            r"哪一?天|几月|几号|什么时候|何时|周几|星期几|哪年|\bwhen\b"
            r"|(?:what|which) (?:day|date|month|year|weekday)",
            f"{_CALENDAR}|{_CLOCK}",
            re.IGNORECASE,
        ),
        (
            r"多少|几[^乎率何号月点]|多[大长久高重远宽]"
            r"|\bhow (?:many|much|long|old|far|often|high|tall|big|fast)",
            _AMOUNT,
            re.IGNORECASE,
        ),
        (
            r"(?:版本|端口|地址|口令|密码|账号|商户号|短号|车次|编号|电话|号码)[^，。]{0,4}(?:是|多少|什么|哪)"
            r"|哪个(?:版本|端口)"
            rf"|\b(?:what|which)(?:'s| is| was)?(?: \w+){{0,4}} (?:{_CODE_EN})\b",
            r"\d|[\w-]+[./_][\w./-]+",
            re.NOFLAG,
        ),
        (r"\bwho\b(?! asked)|\bwhose\b|\bname\b|\bcalled\b", r"\b[A-Z][a-z]{2,}", re.NOFLAG),
    )
]
_YES_OR_NO = re.compile(
    r"[吗嘛]\s*[?？]?\s*$|有没有|是不是|要不要|能不能|还是.{1,12}[?？]|对不对|[了过]没有?[?？]|, (?:\w+ )?or "
    r"|^(?:and |so |but |\w+[,:] )?(?:is|are|was|were|do|does|did|has|have|had|can|could|may|should|must|will"
    r"|would|am)\b",
    re.IGNORECASE,
)
_OF_A_CHANGE = re.compile(  # it asks about the change itself, or about what came instead
    r"删|忘|别记|撤|作废|作数|抹|清空|还要|还用|替|从哪|改|换|delete|remove|wipe|erase|forget|strike|scratch|drop"
    r"|purge|replace|instead|pick|still|call off|stop|\bwho ",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z]+[-_]?\d[\w.-]*|[A-Za-z]+[-_][A-Za-z\d-]+|/[\w/.-]+")
_QUESTION_WORD = re.compile(r"[A-Za-z0-9][\w./:-]*|[\u4e00-\u9fff]{2}")


def answer_signs(
    table: Candidates, features: Features, again: NDArray[Any], rows: Sequence[int], texts: Sequence[str]
) -> list[float]:
    """Return the signs in the order of `ANSWER_SIGNS`; each 0 to 1.

    ``lacks``: the question asks for a time, a date, a number, a code or a name, and the more
    of its words a message has, the less there is of that kind in it; ``any_answer``: it asks
    for none of these; ``yes_or_no``: it can be answered by yes or no; ``asks``: the message
    that fits best asks or supposes; ``taken_back``: what fits best was retracted later, and the
    question is not about that; ``unheard_of``: an identifier in it ("edge-03") is in no message.

    Args:
        table: the candidates.
        features: theirs, and the question.
        again: (n, n), what share of i's words of the question a later message j has, 0 where it is not later.
        rows: the messages, as rows of the table, best first.
        texts: their words.
    """
    text = features.question.text
    here, texts = np.asarray(rows, np.intp)[:_LOOKED_AT], texts[:_LOOKED_AT]
    fit = _fit(features, here)
    best, traits = int(fit.argmax()), table.traits[here]
    asking = (traits & Trait.MOSTLY_ASKS.value) != 0
    kinds = [looks for asks, looks in _KINDS if asks.search(text)]
    rests = [_without(words, text) for words in texts]
    told = [all(looks.search(rest) for looks in kinds) for rest in rests]
    found = fit[np.array(told) & ~asking] / max(float(fit[best]), 1e-9)
    yes_or_no = bool(_YES_OR_NO.search(text))
    about = yes_or_no or bool(_OF_A_CHANGE.search(text))
    names = [name.lower() for name in _IDENTIFIER.findall(text)]
    known = " ".join(texts).lower()
    return [
        1 - max(0.0, float(found.max(initial=0))) if kinds else 0.0,
        float(yes_or_no),
        float((traits[best] & (Trait.MOSTLY_ASKS | Trait.SUPPOSES).value) != 0),
        0.0 if about else _taken_back(table, again, here, fit / max(float(fit[best]), 1e-9)),
        float(any(name not in known for name in names)),
        float(not kinds),
    ]


def unanswered(signs: Sequence[float], weights: Mapping[str, float] = UNANSWERED) -> float:
    """Return the probability, 0 to 1, that the messages lack the point asked for."""
    logit = weights["constant"] + sum(
        weights[name] * sign for name, sign in zip(ANSWER_SIGNS, signs, strict=True)
    )
    return 1 / (1 + exp(-max(-50.0, min(50.0, logit))))


def _fit(features: Features, here: NDArray[Any]) -> NDArray[Any]:
    """Return how well each message fits: the words it covers, less what it is far in meaning."""
    meaning = features.column("apart")[here].astype(np.float64)
    return np.asarray(features.cover[here] + _MEANING * np.maximum(meaning - meaning.max(), _FAR))


def _taken_back(table: Candidates, again: NDArray[Any], here: NDArray[Any], fit: NDArray[Any]) -> float:
    """Return how well the best message fits that a later session takes back."""
    count = len(here)
    traits, roles = table.traits[here], table.roles[here]
    no_word = (Trait.MOSTLY_ASKS | Trait.REPORTS).value
    takes = ((traits & Trait.RETRACTS.value) != 0) & ((traits & no_word) == 0)
    takes &= roles != ROLES.index("assistant")
    apart = table.session[here][:, None] != table.session[here][None, :]
    point = np.minimum(1, 1.5 * again[:count, :count]) * apart
    return float(np.clip((point * takes[None, :]).max(axis=1) * fit, 0, 1).max())


def _without(words: str, question: str) -> str:
    """Return a message without the words of the question: what it says beside them."""
    for word in set(_QUESTION_WORD.findall(question)):
        words = words.replace(word, " ")
    return words
