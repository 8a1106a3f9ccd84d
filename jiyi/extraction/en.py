"""English patterns for points with values, changes, corrections, renames and reversions."""

import re

from jiyi.extraction.points import CLOCK_EN, DATE_EN, IDENT, POINT_EN, UNIT_EN, VALUE_EN
from jiyi.extraction.rule import Rule

__all__ = ["LEADS_EN", "POINTS_EN"]

_END = (
    r"(?=\s*(?:$|[—–(]| - |\b(?:now|from|as of|since|until|till|starting|instead|because|so|which|with"
    r"|by|today|tonight|again|again|for (?:the|this|now)"
    r"|after|before|this|next|on|in|at|across|please|anymore|and|but)\b))"
)
_NP = r"(?:(?:[Tt]he|[Oo]ur|[Mm]y|[Tt]his|[Tt]hat|[Aa]n?) )?(?:[\w./@'’&-]+ ){0,4}?[\w./@'’&-]+"
_IS = (
    r"(?:(?: is| are| was set| is set| are set| stays| has been set| equals| runs out|'s|’s)(?: now"
    r"| currently| always| also| only| still| just)?(?: to| at| in| on| =)?|:| =)"
)
_NOW = r"(?: now| currently| already| just| also| finally)?"
_CHANGE = (
    r"(?:moved|moves|switched|switches|changed|changes|migrated|upgraded|raised|bumped|lowered"
    r"|increased|reduced|dropped|went|goes|extended"
    r"|stretched|shortened|trimmed|cut|moved over|relocated|rebooked|rescheduled|pointed|rises|rose|grew|set)"
)
_BEING = r"(?: is| are| was| were| has been| have been| got| gets| is being| has| have)?"

LEADS_EN = re.compile(
    r"(?:(?:also|and|but|so|then|by the way|btw|fyi|note that|please note|note|remember that|remember"
    r"|just so you know|heads up|for the record|ok(?:ay)?|right|well|oh|hey|hi"
    r"|now|currently|actually|correction|update|decision|yes|yeah|no|sure|thanks|please|from (?:now"
    r"|here) on|from (?:today|tonight|this \w+|\w+day)|as of \w+|since \S+ \d[\d.]*"
    r"|after (?:last )?[^,]{1,30}(?=,)|maintenance done|for the \w+ sheet|in the end|anyway|btw|plus"
    r"|because|since|that|which means|okay)\b[\s,:;—-]*)+",
    re.I,
)
"""What only leads in to an English clause."""

POINTS_EN = (
    Rule(  # the port of edge-02 is 8443
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?:[Tt]he |[Oo]ur |[Mm]y )?(?P<p>(?:[\w-]+ )?(?i:{POINT_EN})) (?:of|for"
            rf"|on) (?P<s>{_NP}?){_IS} (?P<o>{VALUE_EN}){_END}"
        ),
        hints=(" of ", " for ", " on "),
        own=False,
    ),
    Rule(  # edge-02's port is 8443; the public API rate limit is 600 requests per minute
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?P<f>(?:[\w./@'’&-]+ ){{0,5}}?(?i:{POINT_EN})s?)(?: value)?{_IS} "
            rf"(?P<o>{VALUE_EN}){_END}"
        ),
        hints=(" is", " are", ":", "=", "equals", " was", " stays", "'s", "has been"),
        own=False,
    ),
    Rule(  # the timeout was raised from 3 s to 5 s
        category="attribute",
        point=True,
        pattern=re.compile(
            rf"(?P<f>(?:[\w./@'’&-]+ ){{0,5}}?(?i:{POINT_EN})s?){_BEING}{_NOW} {_CHANGE}(?: from "
            rf"(?P<old>{VALUE_EN}))?(?: up| down)? to (?P<o>{VALUE_EN}){_END}"
        ),
        hints=(" to ",),
        own=False,
        confidence=0.7,
    ),
    Rule(  # I'm raising the timeout of courier-sdk to 5 s
        category="attribute",
        pattern=re.compile(
            rf"(?:.{{0,40}}?\b(?:I'm|I’m|I am|[Ww]e're|[Ww]e’re|[Ww]e|I|I've|[Ww]e've|[Ww]e have|I have"
            rf"|[Ll]et's|just|they) )?(?:have |had |just )?(?:rais|mov|switch|chang|bump|lower|increas"
            rf"|reduc|extend"
            rf"|upgrad|set|drop|shorten|cut)(?:ed|d|t|ting|ing|ping|ding)? (?P<f>(?:[Tt]he |[Oo]ur "
            rf"|[Mm]y )?(?:[\w./@'’&-]+ ){{0,4}}?[\w./@'’&-]+)"
            rf"(?: from (?P<old>{VALUE_EN}))? to (?P<o>{VALUE_EN}){_END}"
        ),
        hints=(" to ",),
        confidence=0.65,
    ),
    Rule(  # billing Postgres is on 14.11; the CI image runs Node 20; vault moved to 10.0.0.7
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?)(?:(?: is| are|'s|’s){_NOW} (?:on|running|using|at version)|{_NOW} (?:runs"
            rf"|uses|runs on|upgraded to|was upgraded to|stays on)) (?P<product>(?!(?:January|February"
            rf"|March|April|May|June|July|August|September|October|November"
            rf"|December)\b)[A-Z][a-z]\w+ )?(?P<o>v?\d+(?:\.(?:\d+|x))*)(?![\w:%/-]|\.\d"
            rf"| ?{UNIT_EN}\b){_END}"
        ),
        hints=(" on ", " runs ", " uses ", "running ", "using ", "upgraded to"),
        predicate="version",
        own=False,
        confidence=0.55,
    ),
    Rule(  # edge-02 listens on port 8443
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?){_NOW} (?:listens?|listening|runs|is|lives|sits|answers)(?: now)? (?:on|at"
            rf"|in) (?P<p>port|rack) (?P<o>[\w.-]*\d[\w.-]*){_END}"
        ),
        hints=(" port ", " rack "),
        own=False,
    ),
    Rule(
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?){_NOW} (?:lives?|is|sits|runs|answers|moved)(?: now)? (?:on|at"
            rf"|to) (?P<o>\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?)(?![\w.])"
        ),
        hints=(" on ", " at ", " to "),
        predicate="address",
        own=False,
    ),
    Rule(  # gizmo has 6 executors; ci-forge is up to 10 executors
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>(?:[Tt]he |[Oo]ur )?(?:{IDENT}|[A-Z]\w+ \w+|\w+ (?:server|service|cluster|pool|box"
            rf"|queue|worker|client|fleet|node|image|gateway|database)))"
            rf"(?: has| is up to| is down to| is at| gets| got| does"
            rf"| runs)(?: now)? (?P<o>\d[\d,.]*) (?P<p>(?!of\b|years?\b|days?\b|hours?\b|minutes?\b"
            rf"|percent|more\b)[a-z]{{3,16}}s)\b"
        ),
        hints=(" has ", " is ", " gets ", " got ", " does ", " runs "),
        own=False,
    ),
    Rule(  # the registry moved to cr-east
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?){_BEING}{_NOW} {_CHANGE}(?: from (?P<old>{VALUE_EN}))?(?: up| down"
            rf"| back)? to (?P<o>{VALUE_EN}){_END}"
        ),
        hints=(" to ",),
        confidence=0.5,
    ),
    Rule(  # Mine runs out in May 2026, not 2027
        category="attribute",
        pattern=re.compile(
            rf"(?:^|[\s:])(?P<s>[\w./@'’&-]+(?: [\w./@'’&-]+){{0,3}}?)(?: is| are| was| runs out"
            rf"| expires| starts| ends| leaves)(?: really| actually)?(?: on| in"
            rf"| at)? (?P<o>{VALUE_EN}),? (?:and )?not (?:in |on |at )?(?P<old>{VALUE_EN})(?=$|[.,;!—])"
        ),
        hints=(" not ",),
        whole=True,
        confidence=0.7,
    ),
    Rule(  # it's not 8443, it's 8444
        category="attribute",
        pattern=re.compile(
            rf"(?:^|[\s:])(?P<s>[\w./@'’&-]+(?: [\w./@'’&-]+){{0,3}}?)?(?: is| are| was|'s"
            rf"|’s)? ?\b(?:not|n't) (?P<old>{VALUE_EN})[,;]? (?:but|it's|it’s|it is|actually|rather"
            rf"|they're) (?:actually |really )?(?P<o>{VALUE_EN})(?=$|[.,;!—])"
        ),
        hints=("not ", "n't "),
        whole=True,
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>{_NP}?)(?: is| was| has been| gets| got)?(?: now| officially)? (?:renamed"
            rf"|renaming)(?: to| as| into)? (?P<o>{IDENT}|[A-Z][\w.-]+(?: [A-Z][\w.-]+){{0,2}}"
            rf"|[\"“`][^\"”`]{{1,40}}[\"”`])"
        ),
        hints=("renam",),
        predicate="alias",
        action="rename",
        confidence=0.8,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>[\w.-]+) (?:becomes|became|is now called|is now known as|will be called"
            rf"|goes by) (?P<o>{IDENT}|[A-Z][\w.-]+(?: [A-Z][\w.-]+)?)(?= |$)"
        ),
        hints=("becomes", "became", "called", "known as", "goes by"),
        predicate="alias",
        action="rename",
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            r"(?P<s>(?:[Tt]he |[Oo]ur )?(?:[A-Z][\w.-]+)(?: [\w.-]+)?) (?:is"
            r"|are) (?P<o>[A-Z][\w.-]+(?: [A-Z][\w.-]+){0,2}) from (?:now|here|today)"
        ),
        hints=(" from now", " from here", " from today"),
        predicate="alias",
        action="rename",
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>(?:[Tt]he |[Oo]ur )?(?:[\w./-]+ ){{0,3}}?[\w./-]+),? (?:that |which )?(?:everyone"
            rf"|everybody|we(?: all)?|people|they|folks|the team) calls?(?: it)? (?P<o>{IDENT}"
            rf"|[A-Za-z][\w.-]{{2,}}|[\"“`][^\"”`]{{1,40}}[\"”`])(?=$| (?:has|is|runs|and|which|in|at"
            rf"|on)\b)"
        ),
        hints=(" call",),
        predicate="alias",
        confidence=0.7,
    ),
    Rule(  # the build server, which everyone calls gizmo
        category="relation",
        pattern=re.compile(
            rf"(?:\A|\s)(?P<s>(?:[Tt]he |[Oo]ur )[\w./-]+(?: [\w./-]+)?|{IDENT}), (?:which "
            rf"|that )?(?:everyone|everybody|we(?: all)?|people|they"
            rf"|folks) calls? (?P<o>[A-Za-z][\w.-]{{2,}})(?=[,.]|\Z)"
        ),
        hints=(" call",),
        predicate="alias",
        confidence=0.7,
        whole=True,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>{_NP}?),? (?:\(?a\.?k\.?a\.?|is also called|also called|is also known as"
            rf"|also known as|is nicknamed|nicknamed|is short for) (?P<o>{IDENT}"
            rf"|[A-Za-z][\w.-]{{1,}})\)?(?=$| (?:has|is|runs|and)\b)"
        ),
        hints=("aka", "a.k.a", "also called", "known as", "nicknamed", "short for"),
        predicate="alias",
        confidence=0.7,
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            rf"(?P<s>{_NP}?){_NOW} (?:returns?|returned|reverts?|reverted|is back|are back|goes back"
            rf"|went back|go back|switched back|moved back|is rolled back|rolled back|changed back"
            rf"|goes down|is) (?:to|on|at) (?P<o>{VALUE_EN}|[a-z]+(?:-[a-z]+)+)"
        ),
        hints=("return", "revert", " back", "once more", "like before", "as before", "again"),
        action="revert",
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            rf"(?P<s>{_NP}?) (?:is|are) (?P<o>[a-z]+(?:-[a-z]+)+|{VALUE_EN}) (?:once more|again"
            rf"|like before|as before)"
        ),
        hints=("once more", "again", "like before", "as before"),
        action="revert",
    ),
    Rule(  # the operation is on 8 October; dinner is at six
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?)(?: is| are| was| has been| gets)(?: now| still)?(?: booked| scheduled"
            rf"| moved| rebooked| rescheduled| set| pushed| goes| moves)? (?:on|for|to"
            rf"|at) (?P<o>{DATE_EN}(?:(?:,| at) {CLOCK_EN})?|(?<=at ){CLOCK_EN}|(?<=to ){CLOCK_EN}"
            rf"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days? at {CLOCK_EN}){_END}"
        ),
        hints=(" on ", " for ", " to ", " at "),
        predicate="time",
    ),
    Rule(  # expires on 4 May 2027
        category="attribute",
        pattern=re.compile(
            rf"(?P<s>{_NP}?) (?P<p>expires|runs out|is due|renews)(?: on| in)? (?P<o>{DATE_EN}){_END}"
        ),
        hints=("expires", "runs out", "is due", "renews"),
    ),
)
"""Rules for things and their points."""
