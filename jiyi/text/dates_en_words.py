"""The English words for times, as tables and parts of patterns; for lower-case text."""

from jiyi.text.dates_calendar import Part, Unit, Which
from jiyi.text.dates_rules import either, heads, words

__all__ = [
    "ALSO_WORDS",
    "ANY",
    "BEFORE_DAY",
    "BEFORE_LAST",
    "BEFORE_MONTH",
    "BEFORE_PART",
    "BEGINS",
    "DAY",
    "DAYS",
    "FEASTS",
    "FORWARD",
    "FULL_WEEKDAY",
    "IN_YEAR",
    "MONTH",
    "MONTHS",
    "NO_FEAST",
    "NUMBER",
    "NUMBERS",
    "ORDINALS",
    "PARTS",
    "RECENT",
    "SAID_WHICH",
    "STEP",
    "SURE_MONTHS",
    "TH",
    "UNIT",
    "UNITS",
    "VAGUE",
    "WEEKDAY",
    "WEEKDAYS",
    "WHICH",
    "YEAR",
]


MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
)
"""A month, whole or abbreviated, without the dot."""

MONTHS = words("jan feb mar apr may jun jul aug sep oct nov dec")
"""How the months begin, January first."""
SURE_MONTHS = frozenset(words("january february july september october november december"))
"""Months that are no other word and no name."""

FULL_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
"""A weekday, not abbreviated."""
WEEKDAY = rf"(?:{FULL_WEEKDAY}|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)\b"
"""A weekday, whole or abbreviated, without the dot."""
WEEKDAYS = words("mon tue wed thu fri sat sun")
"""How the weekdays begin, Monday first."""

DAY = r"(?:3[01]|[12][0-9]|0?[1-9])"
"""The number of a day of a month."""
TH = r"(?:st|nd|rd|th)"
"""What makes a number an ordinal."""
YEAR = r"(?:(?:1[5-9]|20)[0-9]{2}(?![0-9])|'[0-9]{2}(?![0-9a-z])|(?:last|this|next) year\b)"
"""A year: 2022, '22, last year."""
IN_YEAR = (
    rf"(?:(?:, ?|[/-]| (?:of |in )?| [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}} (?:[a-z]{{3,4}} )?)(?P<y>{YEAR}))?"
)
"""The year behind a date, if there is one; " 10:00:00 2023" is how ctime writes it."""

_COUNTS = words(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
NUMBERS = {word: float(number) for number, word in enumerate(_COUNTS, 1)} | {
    "a": 1, "an": 1, "half a": 0.5, "half an": 0.5, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
}  # fmt: skip
"""How many each word says."""
VAGUE = {
    "a couple": (1, 3), "couple": (1, 3), "a few": (2, 7), "few": (2, 7), "several": (3, 9), "some": (3, 9),
}  # fmt: skip
"""From how many to how many the vague ones are taken to mean."""

NUMBER = rf"(?:[0-9]{{1,4}}(?:\.5)?|(?:a )?couple(?: of)?|{either([*NUMBERS, *VAGUE])})"
"""How many, in digits or words, clear or vague."""
ORDINALS = words(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
"""First to twentieth."""

UNIT = r"(?:day|night|weekend|week|fortnight|month|quarter|year)"
"""A unit that is counted, without its s."""
UNITS: dict[str, Unit] = {
    "night": "day", "morning": "day", "evening": "day", "afternoon": "day", "day": "day",
    "weekend": "weekend", "week": "week", "fortnight": "week", "month": "month", "quarter": "quarter",
    "half": "half", "year": "year",
}  # fmt: skip
"""What each unit is; a fortnight is two weeks."""

WHICH: dict[str, Which] = {
    "last": "last", "this past": "last", "this last": "last", "past": "last", "previous": "last",
    "this": "this", "current": "this",
    "next": "next", "coming": "next", "upcoming": "next", "this coming": "next", "this upcoming": "next",
}  # fmt: skip
"""Which of those that come back each word says."""
SAID_WHICH = either(WHICH)
"""Any word of `WHICH`."""
STEP: dict[Which, int] = {"last": -1, "this": 0, "next": 1}
"""How many units away from the present one that is."""

DAYS = {
    "the day before yesterday": -2, "day before yesterday": -2, "yesterday": -1, "last night": -1,
    "last evening": -1, "today": 0, "tonight": 0, "this morning": 0, "this afternoon": 0, "this evening": 0,
    "tomorrow": 1, "tmrw": 1, "the day after tomorrow": 2, "day after tomorrow": 2,
}  # fmt: skip
"""How many days from today each word is."""
RECENT = {
    "recently": 14, "lately": 14, "these days": 14, "the other day": 7, "the other night": 7,
}  # fmt: skip
"""How many days back the vague words reach."""

PARTS: dict[str, Part] = {
    "beginning": "start", "start": "start", "early": "start",
    "middle": "middle", "mid": "middle", "end": "end", "late": "end",
}  # fmt: skip
"""Which part of it each word says."""

BEFORE_MONTH = frozenset(words("in since during until till by from last this next before after around"))
"""Words behind which "may" is a month."""
BEFORE_PART = frozenset(words("early late mid of"))
"""Words behind which "may" is a month, but only a part of an expression."""
ANY = frozenset(words("every each any a an one another some most other"))
"""Words behind which a weekday or month is any, none in particular."""
FORWARD = frozenset(words("by until till"))
"""Words behind which a weekday is the coming one."""
BEFORE_DAY = frozenset(words("on by since until till from before after"))
"""Words behind which "Sat." or "the 15th" is a day."""
BEFORE_LAST = frozenset(words("in over for during within my our"))
"""Words behind which "last" is no verb."""
ALSO_WORDS = frozenset(words("sun sat wed mon fri"))
"""Weekdays that are also other words."""

FEASTS = {
    r"christmas eve": "christmas eve", r"christmas(?: day)?|xmas": "christmas", r"boxing day": "boxing",
    r"new year'?s eve": "new year's eve", r"new year'?s day": "new year",
    r"valentine'?s(?: day)?": "valentine", r"(?:international )?women'?s day": "women",
    r"st\.? patrick'?s day": "st patrick", r"april fools?'?(?: day)?": "april fools",
    r"(?:international )?workers'? day|may day": "labour",
    r"(?:international )?children'?s day": "children",
    r"independence day|(?:the )?(?:fourth|4th) of july": "july 4", r"teachers'? day": "teachers",
    r"(?:chinese|china's) national day": "national", r"hallowe'?en": "halloween",
    r"singles'? day|double 11": "singles", r"mother'?s'? day": "mother",
    r"father'?s'? day": "father", r"thanksgiving(?: day)?": "thanksgiving",
    r"black friday": "black friday", r"good friday": "good friday", r"ash wednesday": "ash wednesday",
    r"easter monday": "easter monday",
    r"easter(?: sunday)?": "easter", r"(?:chinese|lunar) new year'?s eve": "spring festival eve",
    r"(?:chinese|lunar) new year(?:'s(?: day)?)?|spring festival": "spring festival",
    r"lantern festival": "lantern", r"qingming(?: festival)?|tomb[- ]sweeping day": "qingming",
    r"dragon boat festival": "dragon boat", r"qixi(?: festival)?": "qixi",
    r"(?:the )?mid-?autumn(?: festival)?|moon festival": "mid-autumn",
    r"double ninth festival": "double ninth",
}  # fmt: skip
"""Patterns for holidays, with the name each has in `dates_holidays`; the first that fits wins."""
NO_FEAST = (
    r"(?! (?:trees?|gifts?|presents?|cards?|part(?:y|ies)|cookies?|decorations?|lights?|movies?|songs?"
    r"|carols?|music|costumes?|candy|eggs?|bunny|shopping|themed?|spirit|stockings?|cake|season|sales?)\b)"
)
"""Words named after a holiday, which say nothing of its day."""

_NOUN = (
    r"(?:weekend|fortnight|day|night|morning|evening|afternoon|week|month|quarter|year|hour|minute"
    rf"|{FULL_WEEKDAY})"
)
_COUNT = either([*NUMBERS, *VAGUE])
_SIDE = r"(?:before|prior|preceding|after|following|of)\b"

_TO = r"(?: ?(?:-|–|—|to|and|&) ?[0-9]{1,2}(?:st|nd|rd|th)?)?"

BEGINS = [
    r"[0-9](?:[0-9]{3}(?:\b|q)|[0-9]{7}|[0-9]{3}[-–—~/. ]|[0-9]?[-/.][0-9]{1,2}[-/.][0-9]|[0-9]?/[0-9])",
    rf"[0-9](?:[0-9]?(?:st|nd|rd|th)?{_TO}(?: of |[ /-])(?:{'|'.join(MONTHS)}))",
    rf"[0-9](?:[0-9]{{0,3}}(?:\.5)? (?:and a half )?{_NOUN})",
    *words("january february march april may june july august september october november december"),
    *(rf"{month}\b" for month in words("jan feb mar apr jun jul aug sept? oct nov dec")),
    *(rf"{day}(?:day)?\b" for day in words("mon tues wednes thurs fri satur sun tue wed thur? sat")),
    *words("yesterday today tonight tomorrow tmrw recently lately spring summer autumn fall winter q[1-4]"),
    *words("last next past previous coming upcoming current these early late mid"),
    *(rf"{word} of\b" for word in words("beginning start middle end very")),
    *words("christmas xmas boxing valentine women international workers independence teachers children"),
    *words("chin hallow singles double mother father thanksgiving black easter lunar lantern qing tomb"),
    *words("dragon qixi moon"), "good f", "ash w", "new y", r"st\.? p",
    *heads([*NUMBERS, *VAGUE], rf" (?:and a half )?{_NOUN}"),
    *heads([*VAGUE, *ORDINALS], " of "),
    *heads(ORDINALS[:5], f" {_NOUN}"),
    rf"in (?:[0-9]|{_COUNT} )", "this ",
    *heads(words("day night morning evening afternoon month year week weekend fortnight"), f"s? {_SIDE}"),
    rf"the (?:[0-9]|{_COUNT} |{_NOUN}|{either(ORDINALS)} |last|past|previous|next|coming|upcoming|current"
    r"|other|beginning|start|middle|end |very|mid|early|late)",
]  # fmt: skip
"""How an expression may begin."""
