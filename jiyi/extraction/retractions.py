"""Sentences that take something back: "forget that", 算了，别记这个."""

import re

__all__ = ["erases", "is_bare", "takes_back"]

_VERBS = (
    r"(?:forget|scratch|strike|drop|delete|remove|wipe|erase|ignore|disregard|unsay|undo|cancel|void"
    r"|retract)"
)
_EN = re.compile(
    rf"(?:\A(?:(?:ok(?:ay)?|oh|no|wait|actually|sorry|please|so|and|then|just|but|hm+"
    rf"|on second thought)[,. ]+)*(?:let's |you can |please )?|\bplease |[,;:—] ?(?:and )?){_VERBS} "
    r"(?:that\b|this\b|it\b|the |what |everything |all |my |our |any|about|[A-Z]\w+(?:,|$))"
    r"|\b(?:don't|do not) (?:note|record|save|keep|store|remember|log) (?:that|this|it|any)"
    r"|\bnever ?mind (?:that|what|the|about)|\bunsay it\b|\bi take (?:that|it) back\b",
    re.I,
)
_ZH = re.compile(
    r"当我没说|就?当没(?:说|发生)过?|别(?:再)?记(?:了|这|那|它|吧|\Z|[，。！])|不用记了|不要记(?:了|这"
    r"|那)|忘了(?:这|那|它)[个条件]?吧?|忘掉(?:这"
    r"|那|它|吧)|作废|撤回|撤销了?|收回(?:刚|上|那|这|之前)"
    r"|请(?:帮我)?(?:把.{0,20})?(?:删|移|清|抹)(?:掉|除|了)|把[^，。]{1,24}(?:删掉|删了吧|删除|去掉"
    r"|划掉|抹掉|清掉)(?:吧|，|。|\Z|了吧)"
    r"|(?:这|那)[个条件]?(?:不算|取消|删掉|删了|去掉)(?:了|吧)?"
    r"|不作数|不算数|\A(?:算了)+[，,。！]?\s?(?:不|别|取消|删)"
)
_BARE = re.compile(
    r"(?:[\s，,。.！!…]|算了|当我没说|就?当没(?:说|发生)过?|别(?:再)?记|不用记|不要记|这个|那个|这条"
    r"|那条|这|那|它|了|吧|忘了|忘掉|作废|撤回|取消|刚才"
    r"|刚刚|上面|说的|的|话|删掉|删了|请|把|不算"
    r"|\b(?:forget|scratch|strike|drop|delete|remove|ignore|disregard|unsay|undo|cancel|never ?mind"
    r"|don't|do not|note|record|save|keep|store|remember|log|that|this|it|what"
    r"|i|just|said|please|actually|ok|okay|no|wait|sorry|oh|hm+|take|back|about|the|last|one|thing"
    r"|message)\b)+\Z",
    re.I,
)


_ERASES = re.compile(r"\b(?:delete|remove|wipe|erase)\b|删|抹掉|清掉|移除", re.I)


def takes_back(sentence: str) -> bool:
    """Return whether a sentence asks for something said to be forgotten."""
    plain = sentence.replace("’", "'")
    return (_ZH if not plain.isascii() else _EN).search(plain) is not None or (
        not plain.isascii() and _EN.search(plain) is not None
    )


def erases(sentence: str) -> bool:
    """Return whether a retraction asks for the thing itself to go, whatever its value was."""
    return _ERASES.search(sentence) is not None


def is_bare(sentence: str) -> bool:
    """Return whether a retraction names nothing: what was said last is meant."""
    return _BARE.match(sentence.replace("’", "'")) is not None
