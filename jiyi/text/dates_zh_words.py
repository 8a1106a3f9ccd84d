"""The Chinese words for times, as tables and parts of patterns."""

import re

from jiyi.text.dates_calendar import Part, Unit
from jiyi.text.dates_rules import Amount, Measure, words

__all__ = [
    "BEGINS",
    "COUNT",
    "DAY",
    "DAYS",
    "DAYS_OFF",
    "FEAST",
    "FEASTS",
    "MONTH",
    "MONTH_WORD",
    "PARTS",
    "RECENT",
    "SEASON",
    "SEASONS",
    "SHORT_SEASON",
    "STEPS",
    "UNITS",
    "WEEK",
    "WEEKDAY",
    "YEAR",
    "YEARS",
    "measured",
    "number",
]

_ONES = "〇一二三四五六七八九"
_DIGITS = {character: value for value, character in enumerate(_ONES)} | {"零": 0, "○": 0, "两": 2, "元": 1}

YEARS = {"大前年": -3, "前年": -2, "去年": -1, "今年": 0, "本年": 0, "明年": 1, "后年": 2, "大后年": 3}
"""How many years from this one each word is."""
YEAR = (
    r"(?:(?:(?:1[5-9]|20)[0-9]{2}|[一二][〇○零一二三四五六七八九]{3}) ?年"
    r"|[0-9]{2}年(?= ?(?:1[0-2]|0?[1-9]|[一二三四五六七八九十]{1,2})月|年?[初底末]|[春夏秋冬])"
    r"|大前年|(?<![以之目提先生从])前年|(?<!过)去年|今年|本年|(?<![证声表申])明年|大后年"
    r"|(?<![以之今最先然往此而随])后年)(?![龄级纪代份迈]|轻人)"
)
"""A year of four digits, of two before a month, or one like 去年; 以前年轻, 说明年龄 hold none."""

MONTH = r"(?:1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九元])"
"""The number of a month."""
MONTH_WORD = (
    r"月(?:份|(?![薪球亮色饼娘牙嫂]|光(?!顾)|经(?![常过历由])|台(?![风湾])|相(?![亲识遇约])|天(?![气津])|初[一二三四五六七八九十]"
    r"|十五(?![日号])|一次))"
)
"""月 where a month is meant: not 12月薪, 五月天 (a band) or 八月十五 (by the Chinese calendar)."""

DAY = (
    r"(?:3[01]|[12][0-9]|0?[1-9]|三十一?|廿[一二三四五六七八九]?|二十[一二三四五六七八九]?"
    r"|十[一二三四五六七八九]?|[一二三四五六七八九])"
)
"""The number of a day of a month."""
WEEK = r"(?:周|星期|礼拜)"
"""A week, and what begins the name of a weekday."""
WEEKDAY = (
    r"(?:一(?!起(?![床来飞])|直(?!接)|[样定般共些切边次个天趟块同路月年步点度])|[二三四五六](?![十百千个次天节期])"
    r"|日(?![常均本程语子期记])|天(?![天气空]))"
)
"""What follows 周 in a weekday: not 下周一起去, 这周三次, 下周日程."""

_NO_NUMBER = "(?<![0-9一二三四五六七八九十周期拜百零〇])"
_NO_PLACE = "(?![0-9一二三四五六七八九十路班村号])"
_FEASTS = {
    "new year": "元旦节?", "spring festival eve": "除夕夜?|大年三十|年三十",
    "spring festival": "春节|大年初一|正月初一|农历新年|过年期间|过年的时候|过年时",
    "lantern": "元宵节?|正月十五", "valentine": "情人节", "women": "(?:三八)?妇女节|三八节",
    "qingming": "清明节?(?!上河)", "labour": f"(?:五一)?劳动节|{_NO_NUMBER}五一{_NO_PLACE}节?",
    "children": f"(?:六一)?儿童节|{_NO_NUMBER}六一{_NO_PLACE}",
    "mother": "母亲节", "father": "父亲节", "dragon boat": "端午节?", "qixi": "七夕节?", "teachers": "教师节",
    "mid-autumn": "中秋节?|八月十五(?![日号])",
    "national": "(?<![李王张刘陈赵])国庆节?|十一(?=长假|假期|黄金周|放假)",
    "double ninth": "重阳节?", "halloween": "万圣节", "singles": "双十一|双11|光棍节",
    "double 12": "双十二|双12", "thanksgiving": "感恩节", "christmas eve": "平安夜",
    "christmas": "圣诞节|圣诞(?![节老树礼帽卡歌装])", "easter": "复活节",
    "black friday": "黑色星期五", "st patrick": "圣帕特里克节",
    "april fools": "愚人节",
}  # fmt: skip
FEASTS = {words: name for name, words in _FEASTS.items()}
"""Patterns for holidays, with the name each has in `dates_holidays`; the first that fits wins."""
DAYS_OFF = r"(?:节?假期|小?长假|黄金周|期间|放假)"
"""Behind a holiday: the days off around it."""

FEAST = rf"(?:{'|'.join(FEASTS)})"
"""Any of `FEASTS`."""

SEASONS = {
    "春": "spring", "夏": "summer", "秋": "autumn", "冬": "winter", "暑": "summer break",
    "寒": "winter break",
}  # fmt: skip
"""The season or school holiday by the first character of its name."""
SEASON = r"(?:[春夏秋冬][天季]|暑假|寒假)"
"""A season or school holiday."""
SHORT_SEASON = r"(?:[春夏秋冬](?![令威普雨节分至游装眠]))"
"""A season of one character: 2022年夏."""

_LESS = r"[一二三四五六七八九十百两]"
_NUMBER = rf"(?:[0-9]{{1,3}}(?:\.5)?|十几|二十几|几十|好几|[几数半]|{_LESS}{{1,5}})"  # one to 999, or vague
_UNIT = r"(?:天|日|周末|周|星期|礼拜|季度|月|年|小时|钟头|分钟)"
COUNT = (
    rf"(?P<n>{_NUMBER}) ?(?P<r>[多来余])?(?P<g>个)?(?P<k>半)?(?P<v>多)?"
    rf"(?P<u>{_UNIT})(?P<w>多)?(?P<x>半)?(?![级龄代气空使])"
)
"""How many of what: 三天, 两个多月, 一年半, 十几天."""

UNITS: dict[str, Unit] = {
    "天": "day", "日": "day", "周末": "weekend", "周": "week", "星期": "week", "礼拜": "week",
    "季度": "quarter", "月": "month", "年": "year",
}  # fmt: skip
"""What each unit is."""
STEPS = {"上": -1, "前": -1, "去": -1, "这": 0, "本": 0, "今": 0, "下": 1, "明": 1}
"""How many units away from the present one each word says."""

DAYS = {
    "大前天": -3, "前天": -2, "前晚": -2, "昨天": -1, "昨日": -1, "昨晚": -1, "昨夜": -1, "昨儿": -1,
    "今天": 0, "今日": 0, "今早": 0, "今晨": 0, "今晚": 0, "今夜": 0, "今儿": 0,
    "明天": 1, "明日": 1, "明早": 1, "明晚": 1, "明儿": 1, "后天": 2, "大后天": 3,
}  # fmt: skip
"""How many days from today each word is."""
RECENT = {
    "最近": 14, "近来": 14, "近日": 14, "近期": 14, "这阵子": 14, "这段时间": 14, "这些天": 14,
    "这些日子": 14, "前些天": 14, "前些日子": 14, "前不久": 14, "不久前": 14,
    "前段时间": 30, "前一段时间": 30, "前阵子": 30, "前一阵子": 30, "前一阵": 30, "前些时候": 30,
}  # fmt: skip
"""How many days back the vague words reach."""

PARTS: dict[str, Part] = {
    "初": "start", "上旬": "start", "中": "middle", "中旬": "middle",
    "底": "end", "末": "end", "下旬": "end",
}  # fmt: skip
"""Which part of it each word says."""

_VAGUE = {"几": (2, 7), "数": (2, 7), "好几": (3, 9), "十几": (11, 19), "二十几": (21, 29), "几十": (20, 90)}


def number(said: str) -> int:
    """Return the number written in digits or Chinese, up to 999, or digit by digit (二〇二三).

    Raises:
        ValueError: it is no number.
    """
    if said.isdigit() and said.isascii():
        return int(said)
    said = said.replace("廿", "二十")
    if not any(character in said for character in "十百"):
        return int("".join(str(_DIGITS[character]) for character in said))
    total, digit = 0, 0
    for character in said:
        if character in "十百":
            total += (digit or 1) * (10 if character == "十" else 100)
            digit = 0
        else:
            digit = _DIGITS[character]
    return total + digit


def _amount(said: str) -> tuple[float, float]:
    """Return from how many to how many ``said`` means: 三, 几, 两三, 半, 1.5."""
    if said in _VAGUE:
        return _VAGUE[said]
    if said == "半":
        return 0.5, 0.5
    if said.endswith(".5"):
        return float(said), float(said)
    if len(said) == 2 and said[0] in _DIGITS and said[1] in _DIGITS:  # 两三, 三五
        low, high = _DIGITS[said[0]], _DIGITS[said[1]]
        if not low < high:
            raise ValueError(said)
        return low, high
    if not said.isascii() and len(said) > 1 and not any(character in said for character in "十百"):
        raise ValueError(said)
    found = number(said)
    return found, found


def measured(match: re.Match[str]) -> tuple[Amount, Measure] | None:
    """Return what a match of `COUNT` says; None where it counts nothing, as 三月 (March) or 三个年.

    Raises:
        ValueError: it is no number.
    """
    said = match.groupdict()
    unit, single = said["u"], bool(said["g"])
    if (unit == "月" and not single) or (single and unit in ("天", "日", "年", "周", "分钟")):
        return None
    low, high = _amount(said["n"])
    if said["k"] or said["x"]:  # 一个半月, 两年半
        low, high = low + 0.5, high + 0.5
    if said["r"] and said["n"].endswith("十"):  # 十多天
        high += 9
    elif said["r"] or said["v"] or said["w"]:  # 三个多月, 一年多
        high += 1
    measure: Measure = "hour" if unit in ("小时", "钟头") else "minute" if unit == "分钟" else UNITS[unit]
    return Amount(low, high), measure


_COUNTED = (
    r" ?(?:[多来余]?个|[多来余]?[天日周年月季号]|[多来余]?半?(?:星期|礼拜|小时|钟头|分钟)|[至到~～–—-]"
    r"|[0-9一二三四五六七八九十百〇○零]|\.5)"
)

BEGINS = [
    f"[0-9一二三四五六七八九十两几数半廿元]{_COUNTED}", "十几", "好几", "大[前后年]",
    "[上下][上下一个周星礼月季半两几数]", "这[一个周星礼月季两几数半三四五六七八九十0-9阵段些]",
    "本[周星礼月年季]", "前[天晚年几两数些不段阵一]", "后[天年]", "过[去几两]", "最近",
    "近[日来期一二两三四五六七八九十几半0-9]", "今[天日早晨晚夜儿年后春夏秋冬]",
    "明[天日早晚儿年春夏秋冬]", "去[年春夏秋冬]", "昨", "周[一二三四五六日末]", "月[初底末]",
    "年[初底末三]", "第[一二三四1-4]季", "q[1-4]",
    *words("未来 接下 往后 不久 此前 星期 礼拜 暑假 寒假 除夕 春节 农历 正月 情人 妇女 三八 清明 劳动"),
    *words("五一 儿童 六一 母亲 父亲 端午 七夕 教师 中秋 八月 国庆 十一 重阳 万圣 双十 双1 光棍 感恩"),
    *words("平安 圣 复活 黑色 愚人 元"),
]  # fmt: skip
"""How an expression may begin."""
