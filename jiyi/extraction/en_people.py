"""English patterns for people: who they are, what they like, whom they know, what they decide and plan."""

import re

from jiyi.extraction.points import IDENT
from jiyi.extraction.rule import ME, Rule

__all__ = ["KIN_EN", "PEOPLE_EN"]

KIN_EN = (
    "daughter|son|kid|child|wife|husband|partner|fiancée?|girlfriend|boyfriend|mother|father|mom|mum"
    "|dad|brother|sister|grandma|grandmother|grandpa"
    "|grandfather|aunt|uncle|cousin|niece|nephew|roommate|flatmate|boss|manager|colleague|coworker"
    "|neighbou?r|dog|cat|puppy|kitten|teacher|mentor"
    "|assistant|best friend|friend|doctor|dentist|therapist|physio|trainer|coach|landlord|stepson"
    "|stepdaughter|mother-in-law|father-in-law"
)
"""Words for whom somebody is to somebody else."""

_NAME = (
    r"[A-Z](?:[a-zé-]|['’](?!s\b)[A-Z]?[a-z])+(?:(?: [A-Z]\.)? [A-Z](?:[a-zé-]"
    r"|['’](?!s\b)[A-Z]?[a-z])+){0,2}"
)
_JOB = (
    r"(?:[a-z-]+ ){0,3}(?:engineer|developer|programmer|teacher|nurse|doctor|manager|designer|student"
    r"|lawyer|writer|artist|chef|scientist|analyst"
    r"|architect|consultant|accountant|photographer|musician|driver|therapist|counselor|counsellor"
    r"|professor|researcher|electrician|plumber|carpenter"
    r"|pharmacist|dentist|veterinarian|vet|journalist|editor|librarian|barista|waiter|waitress|pilot"
    r"|firefighter|translator|entrepreneur|freelancer"
    r"|administrator|sysadmin|technician|director|producer|dancer|singer|coach|trainer|farmer|baker"
    r"|mechanic|paramedic|intern)"
)
_VERY = (
    r"(?: really| absolutely| just| also| still| always| especially| particularly| personally| totally"
    r"| truly| strongly| generally| usually| do)?"
)
_ACT = (
    r"(?:to )?(?!(?:it|that|this|these|those|you|your|how|when|what|where|the|some|him|her|them|his"
    r"|their|its|if|seeing that|to (?:hear|know|see (?:you|that))|one|all (?:of|the)|being able"
    r"|to think|to just|put|going back|a lot|both|each|more|most|much)\b)"
)
_THING = (
    rf"{_ACT}[a-zA-Z][\w'’-]*(?: (?!(?:because|but|so|when|since|which|that|who|if|as|though|it's|it"
    rf"|and i|and it|and making|more than|such|too|sometimes|the most|this|these|those|a lot|very much"
    rf"|so much|you|we|they|cause|while|after|before)\b)[\w'’-]+){{0,6}}"
)
_END = (
    r"(?=$|[,;—(]|: | (?:such as|too\b|as well|sometimes|the most|and making|because|but|so|when|since"
    r"|which|if|though|and I|more than|while|after|before)\b)"
)
_WHEN = r"(?:on|in|by|next|this|tomorrow|at the end of)"
_DAYS = (
    r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|May|June|July|August"
    r"|September|October|November|December"
    r"|next (?:week|month|year|weekend|spring|summer|autumn|fall|winter)|this (?:weekend|evening"
    r"|coming \w+)|tomorrow|tonight)"
)

PEOPLE_EN = (
    Rule(
        category="profile",
        pattern=re.compile(
            rf"(?:.{{0,20}}\b)?(?:my name is|my name's|I'm called|I am called) (?P<o>{_NAME})(?=$|[ ,])", re.I
        ),
        hints=("my name", "i'm called", "i am called"),
        subject=ME,
        predicate="name",
        confidence=0.8,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            r"I(?: currently| now)? work as (?:an? |the )?(?P<o>(?:[\w-]+ ){0,3}?[\w-]+?)(?=$| (?:at"
            r"|for|in|and|with|on|there|from)\b)"
        ),
        hints=("i work as",),
        subject=ME,
        predicate="job",
        confidence=0.75,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            rf"(?:I'm|I’m|I am)(?: currently| now| actually)? an? (?P<o>{_JOB})(?=$| (?:at|for|in|and"
            rf"|with|from|by|who|based)\b)"
        ),
        hints=("i'm a", "i’m a", "i am a", "i'm now a", "i'm currently a"),
        subject=ME,
        predicate="job",
        confidence=0.7,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            rf"I(?: currently| now)? work(?: as (?:an? )?[\w -]{{2,30}})? (?:at"
            rf"|for) (?:the )?(?P<o>{_NAME}|[A-Z][\w&.-]+(?: [A-Z][\w&.-]+){{0,3}})(?=$| |,)"
        ),
        hints=("i work", "now work", "currently work"),
        subject=ME,
        predicate="works at",
        confidence=0.7,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            r"(?:I|we)(?: just| recently| currently| now)? (?:live|moved|am living"
            r"|relocated)(?: back)? (?:in|to"
            r"|near) (?:the )?(?P<o>[A-Z][\w.'-]+(?:,? [A-Z][\w.'-]+){0,3})(?=$|[ ,])"
        ),
        hints=(" live in", " live near", "moved to", "moved back to", "living in", "relocated to"),
        subject=ME,
        predicate="lives in",
        confidence=0.65,
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            r"(?:I'm|I’m|I am|I come)(?: originally)? from (?P<o>[A-Z][\w.'-]+(?:,?"
            r" [A-Z][\w.'-]+){0,2})(?=$|[ ,])"
        ),
        hints=(" from ",),
        subject=ME,
        predicate="from",
    ),
    Rule(
        category="profile",
        pattern=re.compile(
            r"(?:I'm|I’m|I am|I just turned|I turned)(?: now)? (?P<o>\d{1,3})(?: years old"
            r"| years of age|$)"
        ),
        hints=("i'm ", "i’m ", "i am ", "i just turned", "i turned"),
        subject=ME,
        predicate="age",
    ),
    Rule(
        category="preference",
        pattern=re.compile(rf"(?:I'm|I’m|I am)(?: [a-z]+ly| very)? allergic to (?P<o>{_THING}){_END}"),
        hints=("allergic",),
        subject=ME,
        predicate="allergic to",
        confidence=0.8,
    ),
    Rule(
        category="preference",
        pattern=re.compile(
            rf"I(?:{_VERY}) (?:hate|dislike|detest|no longer (?:like|love|enjoy)|can't stand"
            rf"|can’t stand|cannot stand|don't(?: really)? (?:like|enjoy)|don’t(?: really)? (?:like"
            rf"|enjoy)|do not like) (?P<o>{_THING}){_END}"
        ),
        hints=(
            "hate",
            ("dislike"),
            "no longer",
            "detest",
            "stand",
            "n't like",
            "n’t like",
            "not like",
            "really like",
            "enjoy",
        ),
        subject=ME,
        predicate="dislikes",
        denied=True,
    ),
    Rule(
        category="preference",
        pattern=re.compile(rf"I{_VERY} prefer (?P<o>{_THING}){_END}"),
        hints=("prefer",),
        subject=ME,
        predicate="prefers",
    ),
    Rule(
        category="preference",
        pattern=re.compile(rf"(?:and )?I{_VERY} (?:love|like|enjoy|adore) (?P<o>{_THING}){_END}"),
        hints=("love", "like", "enjoy", "adore"),
        subject=ME,
        predicate="likes",
    ),
    Rule(
        category="preference",
        pattern=re.compile(
            rf"my (?P<p>favou?rite (?:[a-z]+ )?[a-z]+) (?:is|are|has to be) (?P<o>{_THING}){_END}", re.I
        ),
        hints=("my favo",),
        subject=ME,
        confidence=0.65,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"[Mm]y (?:(?:older|younger|little|big|eldest|oldest|youngest|own"
            rf"|new) )?(?P<p>{KIN_EN})(?:'s name is|’s name is| is called| is named|,| named| called"
            rf"|) (?P<o>{_NAME})(?=$|[ ,;:'’])"
        ),
        hints=("my ",),
        subject=ME,
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<o>{_NAME}) is (?:(?P<s>{_NAME})['’]s|(?P<me>my)) (?:older |younger |little |big "
            rf"|new )?(?P<p>{KIN_EN})(?=$|[ ,;])"
        ),
        hints=("'s ", "’s ", " my "),
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>{_NAME}|I)(?: now| directly)? reports?(?: directly)? to (?P<o>{_NAME})(?=$|[ ,;])"
        ),
        hints=("report",),
        predicate="reports to",
        confidence=0.75,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>{_NAME})(?: now)? works (?:at"
            rf"|for) (?:the )?(?P<o>[A-Z][\w&.-]+(?: [A-Z][\w&.-]+){{0,3}})(?=$|[ ,;])"
        ),
        hints=(" works ",),
        predicate="works at",
        confidence=0.65,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<s>(?:the )?(?:{IDENT}|[a-z]+ (?:service|module|team|repo|pipeline|cluster"
            rf"|database)))(?: is)?(?: now)? (?:owned|maintained|run|managed) by (?P<o>{_NAME}|me)(?=$"
            rf"|[ ,;])"
        ),
        hints=("owned by", "maintained by", "run by", "managed by"),
        predicate="owner",
        confidence=0.7,
    ),
    Rule(
        category="relation",
        pattern=re.compile(
            rf"(?P<o>{_NAME}|I)(?: is now| now|'m| am| is)? (?:owns?|maintains?|tak(?:es|ing) over"
            rf"|takes care of|(?:the )?(?:owner|maintainer) of) (?P<s>(?:the )?(?:{IDENT}"
            rf"|[a-z]+ (?:service|module|team|repo|pipeline|cluster|database)))(?=$|[ ,;])"
        ),
        hints=("own", "maintain", "over", "takes care"),
        predicate="owner",
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            rf"(?:we|I|the team)(?:'ve|’ve| have)?(?: now| all| finally)? (?:decided|agreed|settled"
            rf"|chose)(?: on| to (?:use|go with|adopt|switch to|go)| to)? (?P<o>(?:{IDENT}"
            rf"|[A-Z][\w.+#-]+(?: [A-Z0-9][\w.+#-]*){{0,2}}|[a-z][\w.+#-]+)) (?:for|as) (?P<s>(?:the "
            rf"|our )?(?:[\w/-]+ ){{0,3}}[\w/-]+?)(?=$|[,;]| (?:because|since|so|and|now|on the bus)\b)",
            re.I,
        ),
        hints=("decided", "agreed", "settled", "chose"),
        predicate="uses",
        confidence=0.7,
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            r"(?:so |today |yesterday )?(?:we|I)(?:'ve|’ve| have)?(?: now| all| finally"
            r"| just)? (?:decided|agreed) (?:to|on|that) (?P<o>(?!that\b|[^,;]*\b(?:this|that|it|these"
            r"|them)\b)[a-z][\w'’./-]+ [\w'’./ -]{4,70}?)(?=$|[,;]| (?:because|since|so)\b)"
        ),
        hints=("decided", "agreed"),
        subject=ME,
        predicate="decided",
    ),
    Rule(
        category="decision",
        pattern=re.compile(
            r"let's (?:go with|use|stick with) (?P<o>[A-Z][\w.+#-]+(?: [A-Z0-9][\w.+#-]*){0,2}) (?:for"
            r"|as) (?P<s>(?:the |our )?(?:[\w/-]+ ){0,3}[\w/-]+?)(?=$|[,;])",
            re.I,
        ),
        hints=("let's",),
        predicate="uses",
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            rf"(?:so |and )?(?:I|we)(?:'m|’m|'re|’re| am| are)(?: also| both| all| actually"
            rf"| finally)? (?:going to|gonna|planning (?:to|on)|heading to|flying to|travelling to"
            rf"|traveling to|starting|getting married|hosting|running"
            rf"|moving) ?(?P<o>[\w'’ -]{{3,60}}?{_DAYS}[\w ]{{0,12}})(?=$|[,;])"
        ),
        hints=("'m ", "’m ", "'re ", "’re ", " am ", " are "),
        subject=ME,
        predicate="plans",
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            r"(?:I|we)(?: also| both)? (?:plan|intend) to (?P<o>[a-z][\w'’ -]{4,60}?)(?=$|[,;]"
            r"| (?:because|since|so)\b)"
        ),
        hints=("plan to", "intend to"),
        subject=ME,
        predicate="plans",
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            rf"(?P<d>{_WHEN} {_DAYS}[^,]{{0,12}}),? (?:(?:I|we)(?:'ll|’ll| will|'re going to"
            rf"|'m going to| have to| need to)|we(?= (?:upgrade|deploy|move|migrate|switch|release|ship"
            rf"|cut over|decommission|roll|drop|turn|start|launch|close|open|replace|retire"
            rf"|freeze)\b)) (?P<o>[a-z][\w'’./ -]{{3,60}}?)(?=$|[,;]| (?:because|since|so)\b)",
            re.I,
        ),
        hints=("on ", "in ", "by ", "next ", "this ", "tomorrow"),
        subject=ME,
        predicate="plans",
        whole=True,
    ),
    Rule(
        category="plan",
        pattern=re.compile(
            rf"(?:I|we)(?:'ll|’ll"
            rf"| will) (?P<o>[a-z][\w'’./ -]{{3,50}}? (?:{_WHEN} )?{_DAYS}[\w ]{{0,12}})(?=$|[,;])"
        ),
        hints=("'ll ", "’ll ", " will "),
        subject=ME,
        predicate="plans",
    ),
    Rule(
        category="todo",
        pattern=re.compile(
            r"(?:\A|[.,;:!—] ?|\b(?:and|also|please|so) )(?:please |also )?(?:remind me(?: \w+)? to"
            r"|don['’]t(?: let me)? forget to|do not forget to"
            r"|I (?:must|need to|have to|should) remember to|remember to|TODO:|to-do:|to do:|todo:) "
            r"(?P<o>(?!(?:stay|be|take care|enjoy|have|keep|prepare|look|breathe|smile|relax|believe"
            r"|trust|love|thank)\b)[a-zA-Z][\w'’./,:@ -]{3,80}?)(?=$|[;.!]| (?:because|since"
            r"|so that)\b)",
            re.I,
        ),
        hints=("remind me", "forget to", "remember to", "todo:", "to-do:", "to do:"),
        subject=ME,
        predicate="to-do",
        denied=True,
        whole=True,
    ),
)
"""Rules for people."""
