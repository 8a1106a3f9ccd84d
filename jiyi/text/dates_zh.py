"""Patterns of time expressions in Chinese."""

from jiyi.text.dates_rules import Rule, Rules
from jiyi.text.dates_zh_meanings import (
    ago_or_ahead,
    day_of_some_month,
    edge,
    feast,
    half_of_this,
    in_that_year,
    last_several,
    month_alone,
    month_near,
    months,
    named_day,
    next_day,
    nth_of,
    quarter_alone,
    quarter_near,
    recent,
    school_break,
    season_near,
    unit_around,
    unit_before,
    units_beside,
    units_from,
    week_near,
    weekday_alone,
    weekday_beside,
    weekend,
)
from jiyi.text.dates_zh_words import (
    BEGINS,
    COUNT,
    DAY,
    DAYS_OFF,
    FEAST,
    MONTH,
    MONTH_WORD,
    RECENT,
    SEASON,
    SHORT_SEASON,
    WEEK,
    WEEKDAY,
    YEAR,
)

__all__ = ["CHINESE", "CHINESE_BEHIND"]

_TO = r"(?:至|到|[-–—~～])"
_NO_MORE = r"(?![端台面沿锋排缀提途景往任夫妻女男盾续果方备悔后])"  # 前端, 后台, 前任
_NOT_UP = r"(?<![马晚早路网线一身])"  # 马上周末, 晚上周杰伦
_IN_MONTH = (
    rf"(?P<m>{MONTH}) ?{MONTH_WORD}(?: ?(?P<d>{DAY})(?:(?: ?[日号])? ?{_TO} ?(?P<e>{DAY}) ?[日号]"
    r"| ?[日号](?![线楼])|(?=[，。,;；！？!?)）、]|$|[上下]午|[早晚]| ?[至到~～–—这那])))?"
    r"(?P<n>的?(?:[上中下]旬|[初底末]))?(?! ?[0-9]{1,2} ?[日号])"
)
_RULES: list[Rule] = [
    (
        rf"(?<![0-9-])(?:(?P<y>{YEAR}) ?)?(?P<a>{MONTH}) ?{_TO} ?(?P<m>{MONTH}) ?{MONTH_WORD}"
        rf"(?! ?{DAY} ?[日号])",
        months,
    ),
    (
        rf"(?<![0-9第])(?P<y>{YEAR})(?: ?的? ?(?:{_IN_MONTH}|(?P<s>{SEASON}|{SHORT_SEASON})"
        rf"|第?(?P<q>[一二三四1-4])季度|q(?P<k>[1-4])|(?P<h>[上下])半年|(?P<f>{FEAST})(?P<b>{DAYS_OFF})?"
        r"|(?P<t>今[天日])|(?P<p>年?[初底末](?![一二三四五六七八九十])|年中)))?",
        in_that_year,
    ),
    (rf"(?:(?P<w>上一?个|这个|下一?个))?(?P<f>{FEAST})(?P<b>{DAYS_OFF})?", feast),
    (rf"(?<![0-9第每.点零〇一二两三四五六七八九十百几历])(?<!每年){_IN_MONTH}", month_alone),
    (
        r"大前天|大后天|(?<![以之目提先生从空])前[天晚]|昨[天日晚夜儿]|今(?:[天早晨晚夜儿]|日(?!头条))"
        r"|(?<![证声表])(?<!说(?=明天气(?!温)))明(?:[天早晚]|日(?!方舟)|儿(?!子))|(?<![以之今最先然往此而天年月周日])后天(?!的?(?:努力|培养|形成|习得|因素))",
        named_day,
    ),
    (
        rf"{_NOT_UP}(?P<w>[上下]一|[上下]{{1,4}}|这一?|本)个?{WEEK}"
        rf"(?:(?:的?{WEEK})?(?P<d>{WEEKDAY})|(?:的?周)?(?P<e>末))?"
        r"(?![围边密期刊报杰游旋长身易岁折]|年(?![会假底初]))",
        week_near,
    ),
    (
        rf"{_NOT_UP}(?P<w>[上下]{{1,4}}|这|本)(?:一?个)?{MONTH_WORD}"
        rf"(?:的? ?(?:(?P<d>{DAY}) ?[日号]|(?P<p>月?[初底末](?![一二三四五六七八九十])|[上中下]旬)))?",
        month_near,
    ),
    (rf"{_NOT_UP}(?P<w>[上下]{{1,4}}|这|本)(?:一?个)?季度", quarter_near),
    (
        rf"(?<![0-9第.一二两三四五六七八九十百千万每]){COUNT}(?:[之以])?(?P<s>[前后]){_NO_MORE}",
        ago_or_ahead,
    ),
    (r"(?P<h>[上下])半年(?!级)", half_of_this),
    (
        rf"(?<![以之目提先从生空附靠临将经通不超])(?P<p>过去|最近|未来|接下来|今后|往后|[近这前上过])的?这?{COUNT}",
        last_several,
    ),
    ("|".join(sorted(RECENT, key=len, reverse=True)), recent),
    (rf"(?<![0-9每各上下这本一二两三四五六七八九十几半多个]){WEEK}(?P<d>{WEEKDAY})", weekday_alone),
    (r"(?<![0-9每上下这本一两几双])(?<![每一]个)周末(?!愉快|快乐)", weekend),
    (
        r"(?<![0-9每])第?(?P<q>[一二三四1-4])季度"
        r"|q(?P<k>[1-4])(?=季度|的|财报|目标|业绩|营收|预算|计划)",
        quarter_alone,
    ),
    (rf"(?P<w>去|今|明|上一?个|这个|下一?个)(?P<s>{SEASON}|(?<=[去今明]){SHORT_SEASON})", season_near),
    (r"(?<!每年)(?<![个年])[暑寒]假", school_break),
    (
        rf"(?<![0-9月第十百千])(?P<d>{DAY}) ?(?:[号日](?=[那当这]天|[上下]午|[晚早]|凌晨|中午|夜里)"
        r"|号(?=起(?![床来飞])|[之以]?[前后](?![门面台])))",
        day_of_some_month,
    ),
    (
        r"(?<![0-9一二三四五六七八九十个本这上下每份年月当新])(?P<u>[月年])"
        r"(?P<p>[底末]|初(?![一二三四五六七八九十]))",
        edge,
    ),
]
_BEHIND: list[Rule] = [
    (rf"的?(?:[之以])?(?P<s>[前后])的?{COUNT}", units_beside),
    (r"的上一?个?(?P<u>周末|周|星期|礼拜|月)", unit_before),
    (r"的?(?:第二天|次日|隔天|翌日)", next_day),
    (
        rf"的?(?:[之以])?(?P<s>[前后])的?(?:那个|上个|下个|第一个)?(?:{WEEK}(?P<d>{WEEKDAY})|周末)",
        weekday_beside,
    ),
    (rf"{COUNT}(?:[之以])?(?P<s>[前后]){_NO_MORE}", units_from),
    (r"的?(?:所在的?)?(?:那一?个?|当)(?P<u>周末|(?:周|星期|礼拜)(?![一二三四五六日天])|月)", unit_around),
    (
        rf"的?(?:第(?P<o>[一二三四五1-5])|最后一)个?(?P<u>周末|天|季度|月|{WEEK}(?:(?P<d>{WEEKDAY}))?)",
        nth_of,
    ),
]

CHINESE = Rules(_RULES, begins=BEGINS)
"""What finds time expressions in Chinese."""

CHINESE_BEHIND = Rules(_BEHIND)
"""What changes the expression right before it: the words of 6月9日前一周."""
