"""Patterns of time expressions in English, and of those written in digits alone."""

from jiyi.text.dates_digits import DIGITS, YEAR_ALONE
from jiyi.text.dates_en_meanings import (
    ago,
    ahead,
    dated,
    day_of_month,
    day_of_some_month,
    feast,
    last_several,
    month_alone,
    month_in_year,
    named_day,
    nth_of,
    ordinal_of,
    part,
    part_of_this,
    quarter_of,
    recent,
    season_of,
    two_away,
    unit_around,
    unit_beside,
    unit_near,
    weekday_alone,
    weekday_in_week,
    weekday_numbered,
    weekend,
)
from jiyi.text.dates_en_words import (
    BEGINS,
    DAY,
    DAYS,
    FEASTS,
    FULL_WEEKDAY,
    IN_YEAR,
    MONTH,
    NO_FEAST,
    NUMBER,
    ORDINALS,
    RECENT,
    SAID_WHICH,
    TH,
    UNIT,
    WEEKDAY,
    YEAR,
)
from jiyi.text.dates_rules import Rule, Rules, either

__all__ = ["ENGLISH"]

_FEAST_BEGINS = (
    "christmas|xmas|new year|valentine|thanksgiving|easter|halloween|chinese|lunar|spring f|mid-?autumn"
    "|dragon|black f|good f|independence|mother'|father'|lantern"
)
_LATER = (  # what must follow "Friday after", since "after work" is no day
    rf"(?= (?:the )?(?:last |this |next |yesterday|today|tomorrow|{MONTH}|{FULL_WEEKDAY}|{_FEAST_BEGINS}"
    rf"|[0-9]{{1,2}}(?:{TH}|/| {MONTH})|[0-9]{{4}}|(?:{'|'.join(ORDINALS)}) of))"
)
_RULES: list[Rule] = [
    *DIGITS,
    (
        rf"(?P<n>{NUMBER})(?P<h> and a half)? (?:(?P<u>{UNIT}|hour|minute)|(?P<d>{FULL_WEEKDAY}))s?"
        r"(?P<i> and a half)? (?:ago\b|back(?= (?:when|i|we|he|she|they|that)\b|[^ ]|$))",
        ago,
    ),
    (rf"(?P<n>{NUMBER}) (?P<u>{UNIT})s? from (?:now|today)\b", ahead),
    (rf"in (?P<n>{NUMBER}) (?P<u>day|week|fortnight|month|year)s?(?:' time)?\b(?! (?:ago|of)\b)", ahead),
    (
        rf"(?P<d>{DAY})(?P<o>{TH})?(?: ?(?:-|–|—|to|and|&) ?(?P<e>{DAY}){TH}?)?(?P<of> of |[ /-])"
        rf"(?P<m>{MONTH})(?:\.(?= (?:[12][0-9]{{3}}|')))?{IN_YEAR}",
        dated,
    ),
    (r"(?P<y>(?:19|20)[0-9]{2})[ /-]?q(?P<q>[1-4])\b", quarter_of),
    (rf"q(?P<q>[1-4])\b(?:(?: of |, ?|[ /-])(?P<y>{YEAR}))?", quarter_of),
    YEAR_ALONE,
    (
        rf"(?:(?P<w>{SAID_WHICH}) )?(?P<f>{'|'.join(FEASTS)})\b(?:,? (?:of |in )?(?P<y>{YEAR}))?{NO_FEAST}",
        feast,
    ),
    (rf"{either(DAYS)}\b", named_day),
    (rf"{either(RECENT)}\b", recent),
    (rf"(?P<d>{WEEKDAY})(?:,| of)? (?P<w>last|this|next) week\b", weekday_in_week),
    (rf"(?P<w>last|this|next) week(?:'s|,)?(?: on)? (?P<d>{WEEKDAY})", weekday_in_week),
    (
        rf"(?:the )?(?P<u>week|weekend|month|year|{FULL_WEEKDAY}) (?P<s>before last|after next)\b"
        rf"(?! (?:week|month|year|{WEEKDAY}|{MONTH}|{_FEAST_BEGINS}))",
        two_away,
    ),
    (rf"the (?P<d>{DAY}){TH} (?:day )?of (?P<w>last|this|next) month\b", day_of_month),
    (
        rf"the (?P<d>{DAY}){TH}\b(?=[.,;:!?)，。；：！？、）]|$| ?[-–—] ?[0-9]"
        r"| (?:and|at|we|i|he|she|they|it|when|but|so|to|until|after|before|with|in)\b)",
        day_of_some_month,
    ),
    (
        rf"(?P<the>the )?(?:(?P<n>{NUMBER}) )?(?P<u>day|night|evening|morning|week|fortnight|weekend|month"
        rf"|year|{FULL_WEEKDAY})s? (?P<s>before|prior to|preceding|after|following){_LATER}",
        unit_beside,
    ),
    (
        rf"(?:the )?(?P<o>first|second|third|fourth|fifth|last|1st|2nd|3rd|4th|5th) "
        rf"(?P<u>day|weekend|week|month|quarter|half|{FULL_WEEKDAY}) of\b",
        nth_of,
    ),
    (
        r"(?:the )?(?P<p>beginning|start|middle|end) of (?:the|this) (?P<u>week|month|year|quarter)\b"
        r"(?! (?:of|before|after)\b)",
        part_of_this,
    ),
    (
        r"(?:the )?(?:very )?(?P<p>(?:beginning|start|middle|end)(?= of\b)|early|late|mid)(?: of| in)?\b",
        part,
    ),
    (
        rf"(?:the )?(?P<u>weekend|week|day|night|morning|evening|afternoon|month|year) of\b{_LATER}",
        unit_around,
    ),
    (
        rf"(?P<the>the |these |this )?(?P<w>past|last|previous|next|coming) (?!an?\b|half)(?P<n>{NUMBER}) "
        rf"(?P<u>{UNIT}|hour|minute)s?\b",
        last_several,
    ),
    (rf"(?P<the>the )?(?P<w>{SAID_WHICH}) (?P<u>weekend|week|month|quarter|year)\b", unit_near),
    (r"the weekend\b", weekend),
    (
        rf"(?:(?P<w>{SAID_WHICH}) )?(?P<d>{WEEKDAY}),? (?:the )?(?P<n>{DAY}){TH}\b(?! (?:of\b|{MONTH}))",
        weekday_numbered,
    ),
    (
        rf"(?:(?P<w>{SAID_WHICH}) )?(?P<d>{WEEKDAY})(?! (?:morning|afternoon|evening|night)s\b)",
        weekday_alone,
    ),
    (
        rf"(?:(?P<w>{SAID_WHICH}) )?(?P<s>spring|summer|autumn|fall|winter)\b(?:,? (?:of )?(?P<y>{YEAR}))?",
        season_of,
    ),
    (
        rf"(?P<m>{MONTH})\.? {{1,2}}(?:the )?(?P<d>{DAY})(?P<o>{TH})?(?![0-9a-z%/]|[.:][0-9])"
        rf"(?: ?(?:-|–|—|to|through|until|and|&) ?(?P<e>{DAY}){TH}?(?![0-9a-z%/]|:[0-9]))?{IN_YEAR}",
        dated,
    ),
    (rf"(?:the )?(?P<w>{either(ORDINALS)}) of (?P<m>{MONTH}){IN_YEAR}", ordinal_of),
    (rf"(?P<m>{MONTH})\.?(?:,? (?:of )?|[-/])(?P<y>{YEAR})", month_in_year),
    (rf"(?:(?P<w>{SAID_WHICH}) )?(?P<m>{MONTH})(?!\.? {{1,2}}(?:the )?[0-9])", month_alone),
]

ENGLISH = Rules(_RULES, lead=r"\b", begins=BEGINS)
"""What finds time expressions in English."""
