"""Which sentences a text has, and how much a text is worth keeping.

`salience` is judged by signs, as `jiyi.text.traits` finds them, with a few more that only
matter here: errors, commands, to-dos, what people tell about themselves. It understands
nothing; it is right often enough to say what leaves a full window first.
"""

import re

from jiyi.text.traits import Trait, traits

__all__ = ["salience", "sentences"]

_SAMPLE = 2_000  # characters that decide, as for `traits`
_NOD = 45  # bytes an acknowledgement has at most: 15 Chinese characters, 8 words of English
_SMALL_TALK, _PHRASE, _NODDED, _ORDINARY = 0.2, 0.25, 0.3, 0.5
_PERSONAL, _MOST_DETAIL, _NEW, _OPEN, _KEY = 0.75, 0.8, 0.85, 0.9, 1.0

_QUESTION, _NUMBER, _DATE, _NAME, _DECISION, _GREETING = (
    sign.value
    for sign in (Trait.QUESTION, Trait.NUMBER, Trait.DATE, Trait.NAME, Trait.DECISION, Trait.GREETING)
)
_CHANGED = (Trait.CHANGES | Trait.CORRECTS | Trait.RETRACTS | Trait.REVERTS).value
_ASKS, _SUPPOSES = Trait.MOSTLY_ASKS.value, Trait.SUPPOSES.value

_KEY_WORDS = re.compile(
    r"重要[:：]|务必|切记|牢记|千万别|千万不要|必须|禁止|不得|最终方案|拍板|敲定|就这么定|结论"
    r"|\b(?:important:|this is important|it is important that|important to (?:note|remember)|critical:"
    r"|must(?: not|n't)?|mandatory|final answer|we(?:'ll| will) go with|let's go with|approved|signed off"
    r"|agreed to)(?:\b|(?<=:))"
)
_STRESSED = re.compile(r"重要|关键|注意|\b(?:important|critical|crucial|essential|key point|conclusion)\b")
_TODO = re.compile(
    r"待办|待处理|待确认|待定|还需要|还要|还没(?!事)|尚未|未完成|接下来要|下一步|提醒我|别忘"
    r"|\b(?:to-?dos?|fixme|action items?|next steps?|still (?:need|have|has) to|still needs?|need(?:s)? to"
    r"|remind me|follow up|outstanding|not yet|pending|open question)\b"
)
_NOT_DECIDED = re.compile(  # words that only look like "remember this" or "from now on"
    r"\b(?:i|we|you|they|he|she)(?:'ll|'d| will| still| do| can| can't| don't)? remember\b"
    r"|\bremember (?:when|how)\b|\b(?:haven't|hasn't|not|yet to) decided?\b"
    r"|以后(?:再|有|的|呢|可能)|[了完过]以后|(?:还|没|不能?|未)(?:没)?(?:有)?决定"
    r"|已经?记|记(?:住|下|好)了|我(?:会|来)?记|记不住"
    r"|\bnever mind\b|\bdo(?:n't| not) mind\b|\bby now\b|\b(?:right|until|for|just) now\b"
)
_ERROR = re.compile(
    r"报错|错误|失败|异常|超时|崩溃|拒绝|告警|宕机|故障|溢出|泄漏"
    r"|\b(?:\w*errors?|\w*exceptions?|fail(?:ed|s|ure|ing)?|timed?[ -]?out|traceback|refused|denied"
    r"|panic|crash(?:ed|es)?|fatal|oom|segfault|not found|broken|bug)\b"
)
_CODE = re.compile(  # each alternative begins with a fixed or rare character: three times as fast
    r"`|[=!<>]=|->|/(?:(?<=[\s(：:，。~.]/)|(?<=\A/))[\w.-]|_(?<=[a-z0-9]_)\w|@(?<=\w@)\w|\\(?<=[A-Za-z]:\\)|\((?<=\w\()\)"
    r"|://\S|-(?:(?<=[A-Za-z]-)\d|-[a-z])|[A-Z](?:(?<=[a-z][A-Z])[a-z]|[A-Z_]{2})"
    r"|\.(?<=\w\.)(?:py|js|ts|go|rs|java|cpp|sh|sql|ya?ml|json|toml|ini|conf|cfg|md|txt|csv|log|html|css|db|env)\b"
    r"|(?:sudo|docker|kubectl|git(?<=\bgit)|npm|pip(?<=\bpip)|apt(?<=\bapt)|curl|ssh(?<=\bssh)|systemctl) \S"
)
_SELF = re.compile(
    r"我(?:叫|是|姓|住|在.{1,12}(?:工作|上班)|的名字|今年|喜欢|讨厌|不喜欢|习惯|偏好|对.{1,10}过敏|不吃|不能吃|负责)"
    r"|我(?:老婆|老公|妻子|丈夫|女儿|儿子|妈|爸|女朋友|男朋友)"
    r"|\b(?:my name is|call me|i(?:'m| am) (?:a|an|from|allergic|called|vegan|vegetarian|based)"
    r"|i (?:live|work|prefer|like|love|hate)"
    r"|my (?:wife|husband|daughter|son|mother|father|birthday|partner|girlfriend|boyfriend)|allergic to)\b"
)
_PERSON_ZH = re.compile(
    r"(?:小|老|阿)[王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕]"
    r"|[王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯董程曹袁邓许沈](?:总|哥|姐|工|老师|经理|主任|医生|律师|教授)"
)
_NODS = re.compile(
    r"\s*(?:好的?|嗯+|收到|明白了?|知道了|懂了|没问题|谢谢|多谢|感谢|辛苦了?|不客气|行|可以|没事|哈+|再见|拜拜|你好|您好"
    r"|已经?记[住下录]了?|记[住下]了|ok(?:ay)?|sure|thanks?(?: you| a lot| so much)?|got it|sounds good"
    r"|will do|no problem|you're welcome|np|alright|understood|noted|bye|congrat(?:s|ulations)"
    r"|good (?:morning|night|evening)|(?:great|perfect|cool|nice|wow)(?=\s*(?:[,.!~]|\Z))"
    r"|(?:hi|hello|hey)(?=(?:\W+\w+){0,2}\W*\Z)"
    r"|(?:right|exactly|true|true that)(?=\W*\Z))(?![a-z\u4e00-\u9fff])"
)
_POLITE = re.compile(
    r"希望(?:这|以上|对你|能帮)|随时(?:告诉|找|联系|问)我|还有什么(?:需要|问题|可以)|很高兴(?:能)?(?:帮|为)|有(?:任何|什么)问题"
    r"|有什么(?:可以|能)(?:为|帮)|祝你|不客气|让我(?:来)?看看|稍等|我(?:先|来|去)看(?:一下|看)?"
    r"|\b(?:how (?:can|may) i help|let me know|feel free|happy to help|glad (?:i|to|that|you)"
    r"|hope (?:this|that|it) helps|anything else|you're welcome|have a (?:great|nice|good)|i'd be happy"
    r"|is there anything|let me (?:check|see|look)|one moment)\b"
)


def salience(text: str) -> float:
    """Return how much a text is worth keeping, from 0 to 1.

    About 1.0 for decisions and "remember this"; .9 for what is still to do; .85 for what
    changes or corrects an earlier word; .75 for what people tell about themselves or stress; .65 to .8
    for details (numbers, dates, names, errors, paths, commands, code: the more kinds of them,
    the higher); .5 for ordinary words; .3 and below for greetings, nods and phrases; 0 for
    nothing. The highest that holds counts. Questions and suppositions decide nothing.

    Chinese and English alike, in about twice the time that `traits` takes; of a long text the
    first 2,000 characters decide.
    """
    sample = text[:_SAMPLE]
    if not sample.strip():
        return 0.0
    lower = sample.lower().replace("’", "'")
    signs = traits(sample).value
    if signs & _GREETING:
        return _SMALL_TALK
    details = _details(sample, lower, signs)
    nods = (
        len(text) <= _NOD
        and len(text.encode("utf-8", "replace")) <= _NOD
        and details <= bool(signs & _NAME)
        and _NODS.match(lower)
    )  # "Hey Ana!"
    if nods and not signs & _QUESTION and not _holds(lower, signs):
        return _NODDED
    worth = _ORDINARY if not details else min(_MOST_DETAIL, 0.6 + 0.05 * details)
    if signs & _DATE and details == 1:
        worth = _ORDINARY + 0.05  # "today" alone is no detail
    if not signs & _ASKS:
        worth = max(worth, _told(lower, signs))
    if signs & _SUPPOSES and worth < _OPEN:
        worth -= 0.05
    if worth <= _ORDINARY and _POLITE.search(lower):
        return _PHRASE
    return round(worth, 2)


def _details(sample: str, lower: str, signs: int) -> int:
    """Return how many kinds of details a text has."""
    return (
        bool(signs & _NUMBER)
        + bool(signs & _DATE)
        + bool(signs & _NAME or _PERSON_ZH.search(sample))
        + bool(_ERROR.search(lower))
        + bool(_CODE.search(sample))
    )


def _told(lower: str, signs: int) -> float:
    """Return what a text that states something is worth for what it states."""
    if _decides(lower, signs):
        return _KEY
    if _TODO.search(lower):
        return _OPEN
    if signs & _CHANGED and not signs & _SUPPOSES:
        return _NEW
    return _PERSONAL if _SELF.search(lower) or _STRESSED.search(lower) else _ORDINARY


def _decides(lower: str, signs: int) -> bool:
    if _KEY_WORDS.search(lower):
        return not signs & _SUPPOSES
    if not signs & _DECISION:
        return False
    rest = _NOT_DECIDED.sub(" ", lower)
    return len(rest) == len(lower) or bool(traits(rest).value & _DECISION)


def _holds(lower: str, signs: int) -> bool:
    """Say whether a nod brings more with it: a decision, a change, something to do."""
    return bool(signs & _CHANGED or _decides(lower, signs) or _TODO.search(lower))


_FENCE = re.compile(r"^[ \t]*```[^\n]*\n.*?(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_END = re.compile(
    r"[。！？；]+[”’」』）)\"']*"  # these end a sentence wherever they stand
    r"|[.!?]+[”’」』）)\"']*(?=\s|\Z|[\u4e00-\u9fff])"  # these only before a space or Chinese: 1.5, a.b, ?x=1
    r"|\n"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|st|prof|e\.g|i\.e|vs|no|approx|etc|a\.k\.a|fig|inc|ltd|jr|sr|[a-z])|^\s*\d{1,3})\.\Z",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in order, each with its marks, without white space around it.

    - Nothing but white space is lost.
    - A line break ends a sentence; a fenced block of code is one piece with its fences.
    - Full stops in numbers, versions, paths, addresses and after usual abbreviations end nothing.

    Linear in the length of the text.
    """
    found: list[str] = []
    start = 0
    for fence in _FENCE.finditer(text) if "```" in text else ():
        found += _plain(text[start : fence.start()])
        found.append(fence[0].strip())
        start = fence.end()
    return found + _plain(text[start:])


def _plain(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        if end[0][0] == "." and _ABBREVIATED.search(text[max(start, end.end() - 8) : end.end()]):
            continue
        if part := text[start : end.end()].strip():
            found.append(part)
        start = end.end()
    if part := text[start:].strip():
        found.append(part)
    return found
