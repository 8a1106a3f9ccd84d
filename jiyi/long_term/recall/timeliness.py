"""What time a question asks about: now, a time it names, or neither. Chinese and English, by rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["AskedTime", "asked_time"]

_DAY = 86_400 * 1_000_000  # microseconds
_LONG = 200  # characters; a longer text tells something rather than asks one thing

_HAN = re.compile(r"[\u4e00-\u9fff]")
_ASKS = re.compile(
    r"[?？]\s*[\"”』」]?\s*$|吗|呢$|谁|什么|几|多少|哪|怎么|如何|是否|是不是|有没有"
    r"|^(?:what|which|who|whose|when|where|why|how|is|are|do|does|did|was|were|can|should|must|may|has|have"
    r"|tell me|remind me|list)\b",
    re.IGNORECASE,
)
_HISTORY = re.compile(
    r"为什么|为啥|为何|谁(?:说|告诉|通知|宣布|提)|几次|几回|多少次|根因|原因"
    r"|\bwhy\b|how (?:many times|often)|who (?:said|told)|what (?:made|stopped|caused)",
    re.IGNORECASE,
)
_PAST_ZH = re.compile(
    r"当初|之前|以前|原来|最早|最初|一开始|曾|第一次|历史|怎么会|谁(?:问|让|建议|劝|发现|决定|买|送)|被谁"
    r"|谁[^，。？]{0,6}的[？?]?$|多少回|一共|总共|按顺序|过吗|过没|什么时候让|上次|上回|那次|刚才|昨天|前天"
    r"|消息|从哪儿?(?:看|听|知道|来的)|还是你"
)
_NOW_ZH = re.compile(r"现在|目前|如今|当前|眼下|还(?:要|在|是|有|用|能|会|算|作)|最新|最近|今年|今后|以后")
_NO_DATE_ZH = re.compile(
    r"最近|这几天|这阵子|(?<![上这本那])(?<!上个)(?:每?周|星期|礼拜)[一二三四五六日天](?!那)"
)
_DATE_ZH = re.compile(r"[月号日]")
_PAST_EN = re.compile(
    r"\b(?:did|was|were|had|originally|formerly|previously|before|used to|at first|initially|earlier"
    r"|first|history|whose idea|so far|ha(?:s|ve) \w+ (?:been|had|ever)|\w+ed by"
    r"|last (?:time|week|month|year|night)"
    r"|who (?:asked|suggested|recorded|passed|announced|advised|mentioned|noticed|would rather))\b",
    re.IGNORECASE,
)
_THEN_EN = re.compile(
    r"\b(?:did|was|were|had|would(?:'ve| have|(?: \w+){1,2} have)|used to|\w{2,}ed|as of|went|ran|held|got"
    r"|lived|ate|paid|set|took)\b",
    re.IGNORECASE,
)
_STILL_EN = re.compile(
    r"\b(?:now|still|currently|these days|nowadays|at the moment|succeed|any ?more)\b", re.IGNORECASE
)
_TO_COME = re.compile(r"到了|等到|到时|\bwill\b|\bgoing to\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """The time at which what is asked for shall hold."""

    kind: Literal["now", "then"]  # now, which may be a day to come, or a time gone by
    moment: int  # in microseconds since 1970; of a day, a month: its end


def asked_time(text: str, ranges: Sequence[tuple[int, int]], asked_at: int) -> AskedTime | None:
    """Return what time a question asks about; None where it asks of history, or is no question.

    Args:
        text: the question.
        ranges: times it names, begin and end in microseconds since 1970.
        asked_at: when it is asked, as well.
    """
    if len(text) > _LONG or not _ASKS.search(text.strip()) or _HISTORY.search(text):
        return None
    chinese = _HAN.search(text) is not None
    if ranges:
        start, end = ranges[0]
        if _TO_COME.search(text) and end <= asked_at:
            start, end = start + 365 * _DAY, end + 365 * _DAY
        if start > asked_at:
            return AskedTime(kind="now", moment=end)
        if end <= asked_at and (_names_then_zh(text) if chinese else _names_then_en(text)):
            return AskedTime(kind="then", moment=end)
    past, now = (_PAST_ZH, _NOW_ZH) if chinese else (_PAST_EN, _STILL_EN)
    if past.search(text) and not now.search(text):
        return None
    return AskedTime(kind="now", moment=asked_at)


def _names_then_zh(text: str) -> bool:
    """A weekday alone is the one of every week: 周三夜里谁值班."""
    return not _NO_DATE_ZH.search(text) or _DATE_ZH.search(text) is not None


def _names_then_en(text: str) -> bool:
    """A date with a verb of the past; in "Where do the Tuesday Larks meet?" it is a name."""
    return _THEN_EN.search(text) is not None and not _STILL_EN.search(text)
