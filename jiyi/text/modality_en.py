"""English turns of phrase by which a text supposes, corrects, changes or takes back.

A pattern is looked for only where one of its hint words occurs: most texts have none.
"""

import re
from collections.abc import Mapping

__all__ = ["HINTS_EN", "PHRASES_EN"]

_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = (
    "(?:january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
)
_DOC_WORDS = """
    docs doc documentation document documents wiki readme manual handbook guide runbook playbook sheet
    spreadsheet slides slide deck template page site website footer header sign poster label sticker invite
    invitation calendar phone app ticket changelog notebook list table badge note notes comment config
    script
    fridge board whiteboard diagram map brochure flyer leaflet email mail memo contract card entry entries
    draft directory book timetable schedule form screenshot signature bio profile copy
"""
_DOC = f"(?:{'|'.join(_DOC_WORDS.split())})"
_SAYS = (
    "(?:says?|said|saying|claim(?:s|ed|ing)?|lists?|listed|listing|describ(?:es?|ed|ing)|shows?|showing|states?"
    "|stated|stating|mentions?|mentioned|has|have|quotes?|quoting|reads?|telling|tells?|told|gives?|prints?"
    "|printed|displays?|still)"
)
_THE = "(?:the |this |that |my |our |your |its |his |her |their )?"
_SPAN = "(?:day|week|weekend|month|night|sprint|term|season)s?"

_ALL: Mapping[str, tuple[str, str]] = {
    "HYPOTHETICAL": (
        """
        if might maybe perhaps would could suppose supposing someday eventually unless hypothetically
        considering
        thinking wondering suggested suggests suggesting proposes proposed propose possibly probably idea
        wish
        wished shall would've i'd we'd they'd he'd she'd may promise one should
        """,
        r"""
        \bif\b[^.!?]*\b(?:might|may|would|could|should|ever|will|[a-z]+'(?:d|ll))\b
        \b(?:might|would|could|[a-z]+'d)\b[^.!?]*\bif\b|\bshould \d
        \b(?:might|maybe|perhaps|suppos(?:e|ing)|some ?day|eventually|possibly|hypothetically|wondering)\b
        \bmay (?:also |even |well |have to )?(?:be|try|move|switch|change|go|need)\b
        \bmay (?:also |even |well |have to )?(?:have|use|drop|add|get|end|leave)\b
        \b(?:i|we|they|he|she)'d\b|\bwould(?:'ve| have)\b|\bcould (?:be|move|switch|use|go|try)\b
        \b(?:thinking (?:of|about)|considering)\b|\bsuggest(?:s|ed|ing)?\b|\bpropos(?:e|es|ed|ing)\b
        \bone day\b|\bno promise|\bidea of\b|\bwe'll see\b
        """,
    ),
    "NEGATED": (
        "not such false untrue myth never didn't isn't wasn't aren't",
        r"""
        \b(?:that|this|it)(?:'s| is| was) not (?:true|the case|so)\b
        \b(?:isn't|wasn't|aren't) (?:true|the case|so)\b
        \bno such\b|\bnot true\b|\bnot proposing\b|\bnever (?:said|happened|agreed)\b
        \bdidn't (?:say|happen|agree)\b
        \b(?:untrue|false|myth)\b
        """,
    ),
    "REPORTED": (
        f"""
        {_DOC_WORDS} heard hear reportedly apparently supposedly allegedly rumour rumor rumours rumors
        says claims
        stale outdated obsolete recall remember thought still according quotes hearing out-of-date
        """,
        rf"""
        \b{_DOC}\b(?: [\w']+){{0,5}} {_SAYS}\b|\bhear[ds]? (?:that|it|from|about)\b|\bkeep hearing\b
        \b(?:reportedly|apparently|supposedly|allegedly|rumou?rs?|according to)\b
        \b(?:stale|outdated|out of date|out-of-date|obsolete)\b|\bi (?:recall|remember|thought)\b
        \bstill (?:says?|claims?|lists?|shows?|describes?|has)\b
        \bstill (?:telling|tells|reads|quotes?|mentions?|points?|called)\b
        \bquotes? (?:our|the|us)\b|\bsays (?:that )?(?:it|the|he|she|they)\b
        """,
    ),
    "CHANGED": (
        """
        moved moves move moving relocated switched switch switches switching changed changes changing
        change now from
        renamed renaming became becomes become replaced replaces replacing raising raised raises lowered
        lowering lowers
        bumped bumping bumps upgraded upgrading migrated migrating converted rebooked rescheduled extended
        extend
        stretch stretched shortened shorten trimmed cut dropped drops instead longer anymore more nowadays
        days takes
        took taking pointed points goes go going swapped swap updated new reissued rotating rotated
        expressed since as
        left retired expired stopped quit decommissioned adjusted superseded increased reduced increases
        reduces
        got get is are was were been has have down up here another
        """,
        rf"""
        \b(?:moved|moves|moving|relocated) (?:[\w'-]+ ){{0,3}}(?:to|into|from|on|out|over|house)\b
        \bha(?:d|s|ve) moved\b
        \bswitch(?:ed|es|ing)?(?: [\w'-]+){{0,3}} (?:to|over|from|off)\b|\bha(?:s|ve) changed\b
        \b(?:was|were|been) moved\b
        \bchang(?:ed|es|ing)(?: [\w'-]+){{0,3}} (?:to|from|into)\b
        \bfrom (?:now|here|today|tonight|this|next|tomorrow|then|version|release|{_DAY}|\d+\.\d)\b
        \bas of {_THE}(?:now|today|tonight|this|next|tomorrow|\d|{_DAY}|{_MONTH}|version|release)
        \b(?:is|are|was|were|been|got|get|gets|be) (?:now|renamed|replaced|raised)\b
        \b(?:is|are|was|were|been|got|get|gets|be) (?:lowered|bumped|upgraded|migrated|converted)\b
        \b(?:is|are|was|were|been|got|get|gets|be) (?:extended|shortened|trimmed)\b
        \b(?:is|are|was|were|been|got|get|gets|be) (?:swapped|pointed|expressed|superseded)\b
        \b(?:is|are|was|were|been|got|get|gets|be) (?:retired|rotated|reissued)\b
        \b(?:is|are|was|were|been|got|get|gets|be) (?:rebooked|rescheduled|decommissioned)\b
        \brenam(?:ed|ing)\b|\b(?:became|becomes|ha(?:s|ve) become)\b|\breplac(?:ed|es|ing)\b
        \brais(?:ed|es|ing)\b
        \b(?:lower(?:ed|s|ing)|bump(?:ed|s|ing)|increas(?:ed|es|ing))\b(?: \S+){{0,6}} (?:to|from)\b
        \breduc(?:ed|es|ing)\b(?: \S+){{0,6}} (?:to|from)\b
        \b(?:extend(?:ed|ing)?|stretch(?:ed|ing)?|shorten(?:ed|ing)?)\b(?: \S+){{0,6}} (?:to|from)\b
        \b(?:trimm(?:ed|ing)|cut)\b(?: \S+){{0,6}} (?:to|from)\b
        \b(?:rebooked|rescheduled|upgraded|migrated|swapped|trimmed)\b|\bup(?:graded)? to \w|\bdown to \d
        \bno longer\b|\bany ?more\b|\bnowadays\b|\bthese days\b|\binstead\b|\bt(?:akes?|aking|ook) over\b
        \bfrom here on\b
        \b(?:goes|go|going) (?:to|from|dark|down|up|with)\b|\b(?:go|going|gone) [\w-]+ for everything\b
        \bnew (?:name|number|address|policy|rule|job|version|password)\b
        \bnew (?:key|office|place|phone|time|slot|plan|amount|rate)\b
        \bnew (?:price|limit|default|owner|manager|boss|firmware|gateway)\b
        \bnew (?:watch|team|school|home|flat|car|hours|schedule)\b
        \bnow\b(?! and then)|\bsince \S+ \d+(?:\.\d+)+|\brotating to\b|\bstopped \w+ing\b|\bquit\b
        \bretired\b|\bexpired\b
        """,
    ),
    "CORRECTED": (
        """
        wrong misread mistaken mistake typo actually correction oops error misheard misspoke mistyped
        misremembered
        miscounted mislabelled mislabeled misquoted meant mixed confused fact really erratum incorrect not
        """,
        r"""
        \b(?:got|had|gave|wrote|said|put|told|typed|copied|entered)\b(?: [\w']+){0,5} wrong\b
        \bwrong (?:number|letter|date|day|name|one|value|time)\b
        \bwrong (?:port|address|figure|digit|version|year|key|room|column)\b
        \bwrong (?:unit|line|thing|person|price|amount|place|about|way)\b
        \bmis(?:read|heard|spoke|typed|remembered)\b
        \bmis(?:counted|spelled|calculated|labell?ed|quoted)\b|\bmistaken?\b|\btypo\b|\bactually\b
        \bcorrection\b|\boops\b
        \bin error\b|\bi meant\b|\bmeant to (?:say|write|type)\b|\bmixed (?:up|it|them)\b
        \bi was confused\b|\bin fact\b
        , not \S+[.,;!]|\bnot [\w.:/-]+[,;] (?:but|it's|it is)\b|\bit(?:'s| is| was) really\b
        \bincorrect\b|\berratum\b
        """,
    ),
    "RETRACTED": (
        """
        forget scratch drop dropped delete deleted remove removed ignore cancel cancelled canceled off
        strike struck
        unsay wipe wiped erase erased void retract retracted withdraw withdrawn withdrew disregard
        nevermind mind undo
        abandon abandoned scrap scrapped rescind rescinded nixed purge axed shelved clear lose bin don't
        """,
        r"""
        (?<!don't )(?<!not )(?<!never )\bforget (?:that|it|this|about|the|what|my|all|i|everything)\b
        \bscratch (?:that|the|it|this|\w+[,.])
        \b(?:drop|delete|remove|erase|wipe|strike) (?:that|it|this|the|my|all|every)\b
        \b(?:purge|scrap|cancel|clear|lose|bin) (?:that|it|this|the|my|all|every)\b
        \b(?:drop|delete|remove|erase|wipe|strike|cancel|clear) (?:what|anything|everything|our|his|her|any)\b
        \b(?:please|you to) (?:drop|delete|remove|erase|wipe|strike|cancel)\b
        \b(?:ignore|disregard) (?:that|it|this|the|what)\b
        \bcall(?:ed)? (?:it |the \w+ |that )?off\b|\bcancel(?:l?ed)?\b|\bstruck from\b|\bunsay\b|\bvoid\b
        \bretract(?:ed)?\b
        \bwithdr(?:aw|awn|ew)\b|\bnever ?mind\b|\bundo\b|\babandon(?:ed)?\b|\bscrapped\b|\brescind
        \bnixed\b|\baxed\b|\bshelved\b
        \bdon't (?:note|record|save|keep|store|remember|plan|log|bring)\b
        \b(?:been|is|was|got|were) (?:dropped|deleted|removed|erased|wiped|scrapped)\b
        """,
    ),
    "REVERTED": (
        """
        back revert reverted reverting reverts restored restore restoring rolled rollback once return
        returns returned
        returning before original was used resume resumed
        """,
        r"""
        \b(?:go|goes|going|went|gone|get|got|be|is|are|it's|we're) (?:\w+ )?back\b
        \b(?:set|put|switch(?:ed)?|moved?|changed?) (?:\w+ )?back\b
        \bback (?:to|on) \w|\brevert(?:ed|ing|s)?\b|\brestor(?:ed?|ing)\b|\broll(?:ed)? ?back\b
        \bonce (?:more|again)\b
        \breturn(?:s|ed|ing)? to\b|\b(?:like|as) (?:it was )?before\b|\bas it (?:was|used to)\b
        \bthe original \w
        \b(?:come|comes|came|bring|brought) back\b|\bresumed?\b
        """,
    ),
    "TEMPORARY": (
        """
        until till only temporarily temporary weekend meantime interim for while exception override
        time-boxed one-off
        from standing covering
        """,
        rf"""
        \b(?:until|till) (?!now)(?:the |next |this )?(?:{_DAY}|{_MONTH}|\d|end|he|she|they)
        \b(?:until|till) (?!now)(?:the |next |this )?(?:i|we|it|then|tomorrow|tonight|week|month)
        \bthis (?:week|weekend|month|once) only\b
        \b(?:only|just) (?:for )?(?:this|today|tonight|until|till|these) ?
        \btemporar(?:y|ily)\b|\bfor (?:now|the time being|the moment|today only|tonight only)\b
        \bthis weekend\b
        \bfor (?:this|the|those|these|the next) (?:\w+ ){{0,2}}{_SPAN}\b
        \b(?:dinner|it) is .{{0,20}} for \w+ {_SPAN}\b
        \bin the meantime\b|\binterim\b|\b(?:an|the|one) exception\b|\boverride\b|\btime-boxed\b|\bone-off\b
        \bwhile (?!i'm at it)(?:(?:he|she|they|i|we) (?:is|are|am)|(?:he|she|they|i|we)'(?:s|re|m)) \w+
        \bfrom (?:\w+ )?\d+\w*(?: \S+){{0,2}} (?:to|until|till|through)\b|\bstanding in for\b
        \bcovering for\b
        """,
    ),
    "PLANNED": (
        """
        plan plans planning planned will going gonna from next tomorrow soon upcoming scheduled intend
        intends aim due
        starting beginning effective on by i'll we'll they'll it'll he'll she'll decommissioning as
        """,
        rf"""
        \bplan(?:s|ning|ned)? (?:to|on|for)\b|\bgoing to\b|\bgonna\b|\bwill\b|\b(?:we|they|it|he|she)'ll\b
        \bintends? to\b
        \bdue (?:on|to|in)\b
        \b(?:from|starting|beginning|effective|by) (?:next |the )?(?:{_DAY}|{_MONTH}|next|tomorrow)\b
        \b(?:from|starting|beginning|effective|by) \d+(?:st|nd|rd|th)?(?: of)? {_MONTH}\b
        \bnext (?:{_DAY}|{_MONTH})\b
        \bnext (?:week|month|year|quarter|sprint|release|minor|version)\b|\bscheduled (?:for|on)\b
        \bsoon\b|\bupcoming\b
        \btomorrow\b|\bdecommissioning\b
        """,
    ),
}


def _pattern(phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(line.strip() for line in phrases.strip().splitlines()))


HINTS_EN: Mapping[str, frozenset[str]] = {name: frozenset(hints.split()) for name, (hints, _) in _ALL.items()}
"""By the name of a mode: words of which one must be there."""

PHRASES_EN: Mapping[str, re.Pattern[str]] = {name: _pattern(phrases) for name, (_, phrases) in _ALL.items()}
"""By the name of a mode: what shows it, in lower case."""
