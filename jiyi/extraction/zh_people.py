"""Chinese patterns for people: who they are, what they like, whom they know, what they decide and plan."""

import re

from jiyi.extraction.points import IDENT
from jiyi.extraction.rule import ME, Rule

__all__ = ["KIN_ZH", "PEOPLE_ZH"]

KIN_ZH = (
    "女儿|儿子|孩子|老婆|妻子|老公|丈夫|妈妈|爸爸|母亲|父亲|妈|爸|哥哥|弟弟|姐姐|妹妹|爷爷|奶奶|外公"
    "|外婆|男朋友|女朋友|男友|女友|未婚妻|未婚夫|室友"
    "|同事|老板|上司|领导|导师|老师|徒弟|师父|表哥|表姐|表弟|表妹|侄子|侄女|外甥女?|婆婆|公公|岳父"
    "|岳母|邻居|猫|狗|助理|秘书|同桌|班主任|朋友|闺蜜"
)
"""Words for whom somebody is to somebody else."""

_NAME = r"[「“\"]?(?:[A-Z][A-Za-z]+(?: [A-Z][a-z]+)?|[\u4e00-\u9fff·]{2,4})[」”\"]?"
_TAIL = r"(?:吧|了|呢|啊|呀|哈|哦|啦|的|就行|就好|一下)*$"
_JOB = (
    r"(?:[\u4e00-\u9fffA-Za-z+#/ ]{0,10}(?:工程师|程序员|老师|教师|医生|护士|律师|会计|设计师|经理"
    r"|总监|主管|学生|研究生|博士生|大学生|高中生|作家|记者"
    r"|编辑|司机|厨师|警察|公务员|销售|运营|产品经理|架构师|分析师|顾问|翻译|画家|演员|歌手|摄影师"
    r"|教练|教授|研究员|店长|店员|老板|创始人|自由职业者|实习生|运维|开发))"
)
_VERY = r"(?:很|特别|最|比较|超级?|真的?|一直|还是|更|非常|挺|蛮|都|也|从小就?|就|平时|其实|尤其|十分|有点)*"
_WHEN = (
    r"(?:明天|后天|明晚|今晚|今天|周末|下周末?|下个?月|下下周|明年|年底|月底|这周[一二三四五六日末]?"
    r"|周[一二三四五六日天]|下周[一二三四五六日天]"
    r"|(?:\d{4} ?年)?\s?[\d一二三四五六七八九十]{1,3}\s?月"
    r"(?:\s?[\d一二三四五六七八九十]{1,3}\s?[日号]?|底|初|中旬)?"
    r"|[\d一二三四五六七八九十]{1,3}号)"
    r"(?:凌晨|早上|上午|中午|下午|晚上|夜里|之前|前)?"
)
_DO = (
    r"(?:把|升|去|搬|换|开|参加|交|做|办|买|见|飞|出差|考|面试|结婚|上线|下线|发布|迁|切|停|回|开始"
    r"|举办|举行|启动|关|拆|装|带|和|跟|请|拜访|体检|手术|签|提交|完成)"
)
_OTHER_OBJECT = r"(?![你您这那它他她吗不上]|的)"

PEOPLE_ZH = (
    Rule(
        category="profile",
        pattern=re.compile(
            rf"(?:你好|大家好)?(?:我叫|我的名字(?:是|叫)|我名叫|我是叫)\s?(?P<o>{_NAME}){_TAIL}"
        ),
        hints=("我叫", "我的名字", "我名叫"),
        subject=ME,
        predicate="姓名",
        confidence=0.8,
    ),
    Rule(
        category="profile",
        pattern=re.compile(rf"我(?:现在|目前|以前)?(?:是|当|做)(?:一?[名个位])?(?P<o>{_JOB}){_TAIL}"),
        hints=("我",),
        subject=ME,
        predicate="职业",
        confidence=0.7,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            r"我(?:现在|目前|刚)?在(?!找|一家|一个|这|那|家)(?P<o>[^，。在了找]{2,16}?)(?:上班|工作"
            r"|任职|当[\u4e00-\u9fff]{2,6}"
            r"|读书|上学|读研|读博|实习){1}" + _TAIL
        ),
        hints=("上班", "工作", "任职", "当", "读书", "上学", "读研", "读博", "实习"),
        subject=ME,
        predicate="工作单位",
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            rf"我(?:现在|目前|一个人|们)?(?:住在?|家住|定居在?|搬到|搬去)了?(?P<o>[^，。了]{{2,14}}?){_TAIL}"
        ),
        hints=("住", "定居", "搬"),
        subject=ME,
        predicate="住址",
    ),
    Rule(
        category="profile",
        pattern=re.compile(rf"我(?:是|来自|老家在?是?)(?P<o>[\u4e00-\u9fff]{{2,8}}?)(?:人){_TAIL}"),
        hints=("人",),
        subject=ME,
        predicate="籍贯",
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            rf"我(?:今年|现在)?(?:已经)?\s?(?P<o>(?:\d{{1,3}}"
            rf"|[一二三四五六七八九十两]{{1,3}})\s?岁)(?:多|半)?{_TAIL}"
        ),
        hints=("岁",),
        subject=ME,
        predicate="年龄",
    ),
    Rule(
        category="preference",
        pattern=re.compile(rf"我对(?P<o>[^，。]{{1,10}}?)(?:严重)?过敏{_TAIL}"),
        hints=("过敏",),
        subject=ME,
        predicate="过敏",
        confidence=0.8,
    ),
    Rule(
        category="preference",
        pattern=re.compile(
            rf"我{_VERY}(?:不(?:太|是很|怎么|大|再)?(?:喜欢|爱)|讨厌|受不了|厌恶"
            rf"|反感)(?P<o>{_OTHER_OBJECT}[^，。！？的]{{1,12}}?){_TAIL}"
        ),
        hints=("不", "讨厌", "受不了", "厌恶", "反感"),
        subject=ME,
        predicate="讨厌",
        denied=True,
    ),
    Rule(
        category="preference",
        pattern=re.compile(
            rf"我{_VERY}(?:喜欢|爱(?=[吃喝看听玩]|上)|热爱|偏爱|钟爱"
            rf"|酷爱)(?P<o>{_OTHER_OBJECT}[^，。！？的得]{{1,12}}?){_TAIL}"
        ),
        hints=("喜欢", "爱"),
        subject=ME,
        predicate="喜欢",
    ),
    Rule(
        category="preference",
        pattern=re.compile(
            rf"我{_VERY}(?P<p>最喜欢的[\u4e00-\u9fff]{{1,6}})(?:是|叫)(?P<o>[^，。！？]{{1,14}}?){_TAIL}"
        ),
        hints=("最喜欢的",),
        subject=ME,
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"我(?:的|家的?)?(?P<p>{KIN_ZH})(?:的名字)?(?:叫做?|名叫|是叫)(?P<o>{_NAME}){_TAIL}"
        ),
        hints=("叫",),
        subject=ME,
        confidence=0.75,
    ),
    Rule(
        category="relation",
        pattern=re.compile(rf"(?P<o>{_NAME})是(?:我的?(?P<me>)|(?P<s>{_NAME})的)(?P<p>{KIN_ZH}){_TAIL}"),
        hints=("是",),
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>(?![^在就任]{{0,4}}[我你他她它们的最])(?:{_NAME}))(?:在|就职于"
            rf"|任职于)(?!找)(?P<o>[^，。了中找些]{{2,14}}?)(?:上班|工作|任职"
            rf"|当[\u4e00-\u9fff]{{2,6}}){_TAIL}"
        ),
        hints=("上班", "工作", "任职", "就职", "当"),
        predicate="工作单位",
        confidence=0.5,
    ),
    Rule(
        category="relation",
        pattern=re.compile(rf"(?P<s>{_NAME})(?:直接)?(?:向|跟)(?P<o>{_NAME})汇报{_TAIL}"),
        hints=("汇报",),
        predicate="上级",
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?:从[^，]{{1,5}}起)?\s?(?P<s>{IDENT}|[^，。由]{{0,8}}\b[a-z]{{3,20}}"
            rf"|[\u4e00-\u9fff]{{2,8}})\s?(?:从[^，]{{1,6}}起)?(?:都|改|以后|现在|就)*"
            rf"(?:由(?=[^，]{{2,8}}(?:接|负责|维护|管|来带))|(?<![还移上转])交给"
            rf"|(?<=[a-z ])归)(?P<o>[\u4e00-\u9fff]{{2,3}}?|[A-Z][a-z]+)(?:接手?|负责|维护|管理?"
            rf"|来[管带])?{_TAIL}"
        ),
        hints=("由", "交给", "归"),
        predicate="负责人",
        confidence=0.65,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>.{{0,8}}{IDENT}|.{{0,6}}\b[a-z]{{3,20}})\s?(?:现在)?(?:是)?(?P<o>我)(?:在"
            rf"|来)?(?:维护|负责"
            rf"|管){_TAIL}"
        ),
        hints=("维护", "负责", "管"),
        predicate="负责人",
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            rf"(?:我们?|咱们?|大家)?(?:最后|最终)?(?:决定|定了|敲定|拍板|说好"
            rf"|约定)了?\s?(?P<s>[^，。]{{0,12}}?)(?:统一|一律)?(?:用"
            rf"|采用|选用|改用|选)\s?"
            rf"(?P<o>[A-Za-z][\w.+# -]*\w|[\u4e00-\u9fff]{{2,8}}?)(?:作为[^，。]{{1,8}}"
            rf"|来?做[^，。]{{1,8}})?{_TAIL}"
        ),
        hints=("决定", "定了", "敲定", "拍板", "说好", "约定"),
        predicate="选用",
        confidence=0.7,
    ),
    Rule(  # ledger-api 的数据访问层定 SQLAlchemy
        category="decision",
        pattern=re.compile(
            rf"(?P<s>[^，。我你他]{{1,30}}?)(?:最后|最终|就|已经)*(?:决定|定了?)(?:统一|一律)?(?:用"
            rf"|采用|选用|换|改用"
            rf"|选)?\s?(?P<o>[A-Za-z][\w.+#-]+(?: [A-Z0-9][\w.+#-]*)?){_TAIL}"
        ),
        hints=("决定", "定"),
        predicate="选用",
        confidence=0.65,
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            rf"(?:另外记个计划[，,])?(?P<s>)(?P<d>{_WHEN})[，,]?(?:我们?|咱们?)?(?:就|再|也|一起)*(?:要"
            rf"|打算|计划|准备|会"
            rf"|得)?(?P<o>{_DO}[^，。！？完该过了]{{1,24}}?){_TAIL}"
        ),
        hints=tuple("月号天周年晚"),
        subject=ME,
        predicate="计划",
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            rf"我们?(?P<d>{_WHEN})?(?:已经)?(?:打算|计划|准备"
            rf"|决定)(?P<o>(?:{_WHEN})?{_DO}[^，。！？]{{1,24}}?){_TAIL}"
        ),
        hints=("打算", "计划", "准备", "决定"),
        subject=ME,
        predicate="计划",
    ),
    Rule(
        category="todo",
        pattern=re.compile(
            rf"(?P<d>(?:{_WHEN}|要|请|一定|千万|到时候?|每天"
            rf"|[^，。我你记]{{0,8}}?\d[^，。我你记]{{0,6}}?)?\s?)(?:记得(?!是|很|有"
            rf"|当|以前|上次|小时|自己|吗|清|不|曾|最)|别忘了|别忘|不要忘了|不要忘记|别忘记"
            rf"|提醒我(?:一下)?|TODO[:：]|待办[:：])\s?"
            rf"(?P<o>[^，。！？你我了这那给说]{{1}}[^，。！？]{{1,30}}?){_TAIL}"
        ),
        hints=("记得", "别忘", "不要忘", "提醒我", "todo", "待办"),
        subject=ME,
        predicate="待办",
        denied=True,
    ),
)
"""Rules for people."""
