"""Chinese patterns for points with values, changes, corrections, renames and reversions."""

import re

from jiyi.extraction.points import IDENT, NUMBER_ZH, POINT_ZH, UNIT_ZH, VALUE_ZH
from jiyi.extraction.rule import Rule

__all__ = ["LEADS_ZH", "POINTS_ZH"]

_TAIL = r"(?:\s|吧|了|呢|啊|呀|哈|哦|啦|的|左右|上下|为止|即可|就行|就够了?|才报|就报)*(?=$|[（(])"
_ADV = (
    r"(?:现在|目前|如今|已经|已|从今天起|从今晚起|今天起|统一|一律|就|也|都|还|才|正式|应该|确定|固定"
    r"|暂时|先|再|的|又|今年|改回)*"
)
_IS = r"(?:是|为|[:：=]|叫做?|设为|设成|设在|定为|定在|定成|等于|有)"
_CHANGE = (
    r"(?:[改调换升提降拉放挪延加减缩扩转变涨搬迁切定]成?|升级|降级|更新|调整|提高|提升|降低|放宽|延长"
    r"|缩短|增加|减少|扩容|变更|切换|迁移)"
)
_NAMED = rf"(?:[「“\"]?(?:{IDENT}|[A-Za-z][\w.-]+|[\u4e00-\u9fff]{{2,8}})[」”\"]?)"

LEADS_ZH = re.compile(
    r"(?:(?:备忘|记一?下|提醒一下|另外|此外|还有|对了|顺便说一?声?|顺便|然后|而且|不过|但是|但|嗯"
    r"|好的?|行|那么?|请|麻烦|记住|帮我(?:记|存)(?:着|住|一?下)?"
    r"|你?帮我记|观察完了|定了|决定了|注意|更新一?下|更正一?下|补充一?下|说一?下|同步一?下|通知|公告"
    r"|今天|昨天|昨晚|今早|现在|目前|如今|以后|今后|往后"
    r"|从今以后|从[^，,：:]{1,8}起|(?:今天|今晚|本周|这周|下周.?|明天)?(?:起|开始)|元旦前的?|已经"
    r"|确认一?下|我们?(?:这边)?(?:决定|约定|统一|规定)?把"
    r"|所以|因为|因此|其实|实际上|反正|总之"
    r"|总算|终于|果然|一起|统一|各位|大家|又)[\s，,：:]*)+"
)
"""What only leads in to a Chinese clause."""

_CHANGED_TO = rf"{_ADV}{_CHANGE}(?:到|至|成|为|回|了)*\s?(?P<o>{VALUE_ZH}){_TAIL}"

POINTS_ZH = (
    Rule(
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?P<f>.{{0,26}}?(?:{POINT_ZH}))\s?{_ADV}{_IS}{_ADV}\s?(?P<o>{VALUE_ZH}){_TAIL}"
        ),
        hints=("是", "为", ":", "：", "=", "叫", "设", "定", "等于", "有"),
        own=False,
    ),
    Rule(
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"把?(?P<f>.{{0,26}}?(?:{POINT_ZH}))\s?(?:从\s?(?P<old>{VALUE_ZH})\s?)?{_CHANGED_TO}"
        ),
        hints=tuple("改调换升提降拉放挪延加减缩扩转变涨切定"),
        own=False,
        confidence=0.7,
    ),
    Rule(
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?P<f>.{{0,26}}?(?:{POINT_ZH}))\s?(?P<o>\d[\d.,]*\s?{UNIT_ZH}|\d+(?:\.\d+){{1,3}}"
            rf"|{NUMBER_ZH}{UNIT_ZH}|\d{{1,12}}"
            rf"|{IDENT}){_TAIL}"
        ),
        hints=tuple("0123456789一二三四五六七八九十两半"),
        own=False,
        confidence=0.55,
    ),
    Rule(  # authn 的负责人换成小冉
        category="relation",
        pattern=re.compile(
            rf"(?P<f>.{{0,20}}?(?:负责人|维护人|维护者|owner|联系人|班主任|组长|导师|主治医生"
            rf"|项目经理))\s?{_ADV}(?:是|为|叫|换成|改成|改为"
            rf"|变成|[:：])了?\s?"
            rf"(?P<o>我|[A-Z][a-z]+|[\u4e00-\u9fff]{{2,4}}?){_TAIL}"
        ),
        hints=("负责人", "维护", "owner", "联系人", "班主任", "组长", "导师", "主治医生", "项目经理"),
    ),
    Rule(  # amount 字段的单位是元
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?P<f>.{{0,26}}?单位)\s?{_ADV}(?:是|为|改成|改为|换成|变成)\s?(?P<o>{UNIT_ZH}|[a-zA-Z/]+"
            rf"|[\u4e00-\u9fff]{{1,3}}){_TAIL}"
        ),
        hints=("单位",),
    ),
    Rule(  # remark 是 varchar(200); hk-4 是 10.8.3.22
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>.{{0,16}}{IDENT}|.{{0,10}} [a-z]{{3,20}})\s?{_ADV}(?:是"
            rf"|为)\s?(?P<o>{VALUE_ZH}){_TAIL}"
        ),
        hints=("是", "为"),
        own=False,
        confidence=0.5,
    ),
    Rule(  # prod 的 k3s 升到 1.31; ledger-api 换 Tortoise 吧
        category="attribute",
        pattern=re.compile(
            rf"把?(?P<s>.{{0,10}}{IDENT}|.{{0,10}}\b[A-Za-z]\w+"
            rf"|[\u4e00-\u9fff]{{2,8}})\s?(?:从\s?(?P<old>{VALUE_ZH})\s?)?"
            rf"(?:(?:内网|端口|地址))?{_CHANGED_TO}"
        ),
        hints=tuple("改调换升提降拉放挪延加减缩扩转变涨搬迁切定"),
        confidence=0.5,
    ),
    Rule(  # 02 那台不是 8443，实际开的是 8444
        category="attribute",
        pattern=re.compile(
            rf"(?:^|[，,。：:])\s?(?P<s>[^，,。：:]{{0,16}}?)\s?(?:并?不是|不在"
            rf"|不叫)\s?(?P<old>{VALUE_ZH})\s?[，,]\s?"
            rf"(?:而是|是|(?:实际|其实|应该|正确的?|真正的?)(?:开的|上)?(?:是|为|叫"
            rf"|在)?)\s?(?P<o>{VALUE_ZH})(?=$|[，,。；;！!])"
        ),
        hints=("不是", "不在", "不叫"),
        whole=True,
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>.{{0,12}}?{_NAMED})\s?{_ADV}(?:更名为?|改名为?|改名叫|改叫|重命名为|以后叫|现在叫"
            rf"|改称为?)\s?(?P<o>{_NAMED}){_TAIL}"
        ),
        hints=("更名", "改名", "改叫", "重命名", "以后叫", "现在叫", "改称"),
        predicate="alias",
        action="rename",
        confidence=0.8,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>.{{0,12}}?{_NAMED})\s?{_ADV}(?:又叫|也叫|又名|别名(?:是|叫)?|俗称|简称|外号(?:是|叫)?"
            rf"|大家都?(?:管它)?叫它?)\s?(?P<o>{_NAMED}){_TAIL}"
        ),
        hints=("又叫", "也叫", "又名", "别名", "俗称", "简称", "外号", "大家"),
        predicate="alias",
        confidence=0.7,
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            rf"(?P<s>[^，,]{{1,16}}?)\s?{_ADV}(?:退回|回退到?|恢复[成到为]?|还原[成到为]?|改回|换回"
            rf"|切回|调回|搬回|回到|用回)(?:到|了|成)?"
            rf"(?:最早|最初|原来|以前|之前|原先)?的?(?:那[套个种版])?\s?(?P<o>{VALUE_ZH}"
            rf"|[\u4e00-\u9fff]{{0,6}}?)(?:那个点\w?)?{_TAIL}"
        ),
        hints=("退", "恢复", "还原", "改回", "换回", "切回", "调回", "搬回", "回到", "用回"),
        action="revert",
    ),
)
"""Rules for things and their points."""
