"""Who or what a clause is about: parts subject from predicate, and refuses what names nothing."""

import re

from jiyi.extraction.points import IDENT, POINT_EN, POINT_ZH
from jiyi.extraction.sentences import is_chinese

__all__ = ["is_name", "is_pronoun", "own_subject", "part", "thing_of", "tidy"]

_LONGEST = 32
_LONGEST_POINT = 7  # characters of a point with what qualifies it
_PRONOUN = re.compile(
    r"(?:it|its|this|that|this one|that one|它|它的|这个|那个|这台|那台|这|那|该服务|这边)\Z", re.I
)
_NO_NAME_ZH = re.compile(
    r"[你您他她它咱谁啥？?]|什么|怎么|哪|多少|几|如果|要是|觉得|认为|以为|知道|(?<!访)问(?!题|卷)"
    r"|说(?!明)|(?<!监)听(?!力)|看(?!板)|想|希望|应该|可以"
    r"|可能|为了|因为|所以|但是?|虽然|只要|只有|一般"
    r"|通常|这种|那种|这样|那样|有的|别人|人家|有人|某|不(?!锈)|没|让|给|请(?!求|假)|等(?!级|待)|再"
    r"|就(?!诊)|(?<![成首])都|也|又|很|太(?!太)|这个"
    r"|那个|的话|时候|一个|一种"
)
_NO_NAME_EN = re.compile(
    r"\b(?:he|she|they|you|your|his|her|their|them|him|who|what|which|whose|where|when|why|how|there"
    r"|here|everything|everyone|someone|something"
    r"|anyone|anything|nothing|nobody|one|ones|if|whether|because|since|although|think|thinks|thought"
    r"|guess|hope|know|say|said|says|feel|want|need"
    r"|could|should|would|might|may|can|will|do|does|did|have|has|had|be|been|being|get|got|make|made"
    r"|is|are|was|were|am|not|never|no|than|as|these"
    r"|those|some|any|each|every|most|many|other|another|such|also|just|like|so|very|really|thing"
    r"|things|kind|sort|lot|bit|way|time|today|let|it|i"
    r"|i'm|it's|that's|there's|don't|doesn't|didn't|we're|they're|you're|he's|she's)\b",
    re.I,
)
_MODIFIERS = re.compile(
    r"\A(?:监听|当前|现在|目前|线上|实际|服务的?|那边|这边|里面?|上(?!限|下)|那台|这台|那个|这个|字段|的|\s)+"
)
_DEVICE = (
    r"(?:\s?(?:网关|服务器?|容器|节点|集群|数据库|机器|主机|仓库|接口|模块|任务|队列|实例|中转机|字段"
    r"|gateway|server|service|container|node"
    r"|cluster|database|box|host|queue|module|job))"
)
_THING = re.compile(rf"[^A-Za-z，,]{{0,8}}?(?P<s>{IDENT}){_DEVICE}?(?![\\w.-])")
_HEAD = re.compile(rf"[^A-Za-z]{{0,8}}?(?P<s>{IDENT}{_DEVICE}?|[A-Za-z][\w.-]*{_DEVICE}|[A-Z][\w.-]+)")
_TRAIL_ZH = re.compile(
    r"(?:的|里|里面|中|上|那边|那台|那个|那套|这台|这个|现在|目前|如今|已经|一律|统一|都|也|还|就|再"
    r"|正式|每天|每次|固定|把|，|,|\s|：|:|今天开始|默认)+\Z"
)
_PLAIN = re.compile(
    rf"(?:[\u4e00-\u9fff\s]{{0,10}}(?<![的里]))?\s?(?P<s>{IDENT}){_DEVICE}?"
    rf"|[\u4e00-\u9fff]{{2,10}}(?<![的里])\s?(?P<t>[A-Za-z][\w.-]+)"
)
_OWN_ZH = re.compile(r"(?:我们家?|咱们?|我家?|俺)(?:的)?")
_OWN_EN = re.compile(r"(?:my|our|mine)(?:\s+|\Z)", re.I)
_ARTICLE = re.compile(r"\A(?:the|a|an|this|that)(?:\s+|\Z)", re.I)
_WORDS = re.compile(r"[\w\u4e00-\u9fff]")
_POINT_END_ZH = re.compile(rf"(?P<p>(?:{POINT_ZH}))\Z")
_POINT_END_EN = re.compile(rf"(?P<p>(?:{POINT_EN}))s?\Z", re.I)
_POINT_INSIDE = re.compile(POINT_ZH)


def tidy(name: str) -> str:
    """Return a name without what stands around it: articles, 的, adverbs, marks."""
    name = name.strip(" \t,，:：。.'’\"“”「」`-–—")
    if is_chinese(name):
        name = _TRAIL_ZH.sub("", name)
    name = _ARTICLE.sub("", name, count=1)
    plain = _PLAIN.fullmatch(name)  # 订单服务 order-svc, edge-02 网关: the name alone
    if plain:
        name = plain["s"] or plain["t"]
    return re.sub(r"['’]s?\Z", "", name).strip()


def is_pronoun(name: str) -> bool:
    """Return whether a name only points back at a thing."""
    return _PRONOUN.match(name.strip()) is not None


def is_name(name: str) -> bool:
    """Return whether a tidied name may name somebody or something."""
    if not name or len(name) > _LONGEST or not _WORDS.search(name) or is_pronoun(name):
        return False
    if name.replace(" ", "").replace(".", "").replace(":", "").isdigit():
        return False
    if is_chinese(name):
        return _NO_NAME_ZH.search(name) is None
    return _NO_NAME_EN.search(name.replace("’", "'")) is None and len(name.split()) <= 5


def own_subject(name: str, speaker: str) -> str | None:
    """Return a name that begins with "my" or 我 as the speaker's, or None where it does not.

    "my" alone is the speaker; "my mom" is "Ana's mom", 我妈 is "林芷的妈".
    """
    match = _OWN_ZH.match(name) or _OWN_EN.match(name)
    if match is None:
        return "" + speaker if name in ("I", "i") else None
    rest = tidy(name[match.end() :])
    if not rest:
        return speaker
    if is_chinese(rest):
        return f"{speaker}的{rest}"
    return f"{speaker}'s {rest}"


def thing_of(clause: str) -> str:
    """Return the thing a clause begins with, by its name: "order-svc is written in Go"; "" for none."""
    match = _THING.match(clause)
    if match is None or _POINT_INSIDE.search(clause, 0, match.start("s")):
        return ""  # a point and its value: 登录口令 Mx7-tulip-93
    return tidy(match[0])


def part(words: str) -> tuple[str, str]:
    """Return subject and predicate of words that end with a point: "edge-02 网关对外监听的端口"."""
    words = words.strip()
    return _part_zh(words) if is_chinese(words) else _part_en(words)


def _part_zh(words: str) -> tuple[str, str]:
    point = _POINT_END_ZH.search(words)
    head = _HEAD.match(words)
    if head and head.end() < len(words) and point is not None:
        rest = _MODIFIERS.sub("", words[head.end() :].rpartition("的")[2].rpartition("后")[2])
        return words[: head.end()].strip(), rest if 0 < len(rest) <= _LONGEST_POINT else point["p"]
    if "的" in words:
        subject, _, predicate = words.rpartition("的")
        return subject, predicate
    if point is None:
        return words, ""
    return words[: point.start()], point["p"]


def _part_en(words: str) -> tuple[str, str]:
    own, _, rest = words.partition("'s ") if "'s " in words else words.partition("’s ")
    if rest:
        return own, rest
    point = _POINT_END_EN.search(words)
    if point is None:
        return words, ""
    subject, predicate = words[: point.start()].strip(), point["p"]
    return subject, predicate
