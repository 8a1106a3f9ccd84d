"""How much a text is worth keeping.

It is judged by signs, as `jiyi.text.traits` finds them, with a few more that only
matter here: errors, commands, to-dos, what people tell about themselves. It understands
nothing; it is right often enough to say what leaves a full window first.
"""

from functools import cache, partial

from jiyi.text.lexicon import lexicon
from jiyi.text.traits import Trait, traits

__all__ = ["salience"]

_SAMPLE = 2_000  # characters that decide, as for `traits`
_MAX_ACKNOWLEDGEMENT = 45  # bytes an acknowledgement has at most: 15 Chinese characters, 8 words of English
_SMALL_TALK, _PHRASE, _NODDED, _ORDINARY = 0.2, 0.25, 0.3, 0.5
_PERSONAL, _MOST_DETAIL, _NEW, _OPEN, _KEY = 0.75, 0.8, 0.85, 0.9, 1.0

_QUESTION, _NUMBER, _DATE, _NAME, _DECISION, _GREETING = (
    sign.value
    for sign in (Trait.QUESTION, Trait.NUMBER, Trait.DATE, Trait.NAME, Trait.DECISION, Trait.GREETING)
)
_CHANGED = (Trait.CHANGES | Trait.CORRECTS | Trait.RETRACTS | Trait.REVERTS).value
_ASKS, _SUPPOSES = Trait.MOSTLY_ASKS.value, Trait.SUPPOSES.value


_signs = cache(partial(lexicon, __package__, "salience"))


def salience(text: str) -> float:
    """Return how much a text is worth keeping, from 0 to 1.

    About 1.0 for decisions and "remember this"; .9 for what is still to do; .85 for what
    changes or corrects an earlier word; .75 for what people tell about themselves or stress; .65 to .8
    for details (numbers, dates, names, errors, paths, commands, code: the more kinds of them,
    the higher); .5 for ordinary words; .3 and below for greetings, nods and phrases; 0 for
    nothing. The highest that holds counts. Questions and suppositions decide nothing.

    Of a long text the first 2,000 characters decide.
    """
    sample = text[:_SAMPLE]
    if not sample.strip():
        return 0.0
    lower = sample.lower().replace("’", "'")
    signs = traits(sample).value
    if signs & _GREETING:
        return _SMALL_TALK
    details = _count_details(sample, lower, signs)
    nods = (
        len(text) <= _MAX_ACKNOWLEDGEMENT
        and len(text.encode("utf-8", "replace")) <= _MAX_ACKNOWLEDGEMENT
        and details <= bool(signs & _NAME)
        and _signs().nods.match(lower)
    )  # "Hey Ana!"
    if (
        nods
        and not signs & _QUESTION
        and not (signs & _CHANGED or _decides(lower, signs) or _signs().todo.search(lower))
    ):
        return _NODDED
    worth = _ORDINARY if not details else min(_MOST_DETAIL, 0.6 + 0.05 * details)
    if signs & _DATE and details == 1:
        worth = _ORDINARY + 0.05  # "today" alone is no detail
    if not signs & _ASKS:
        worth = max(worth, _statement_score(lower, signs))
    if signs & _SUPPOSES and worth < _OPEN:
        worth -= 0.05
    if worth <= _ORDINARY and _signs().polite.search(lower):
        return _PHRASE
    return round(worth, 2)


def _count_details(sample: str, lower: str, signs: int) -> int:
    return (
        bool(signs & _NUMBER)
        + bool(signs & _DATE)
        + bool(signs & _NAME or _signs().person_zh.search(sample))
        + bool(_signs().error.search(lower))
        + bool(_signs().code.search(sample))
    )


def _statement_score(lower: str, signs: int) -> float:
    """Return what a text that states something is worth for what it states."""
    if _decides(lower, signs):
        return _KEY
    if _signs().todo.search(lower):
        return _OPEN
    if signs & _CHANGED and not signs & _SUPPOSES:
        return _NEW
    return _PERSONAL if _signs().told_of_self.search(lower) or _signs().stressed.search(lower) else _ORDINARY


def _decides(lower: str, signs: int) -> bool:
    if _signs().key_words.search(lower):
        return not signs & _SUPPOSES
    if not signs & _DECISION:
        return False
    rest = _signs().not_decided.sub(" ", lower)
    return len(rest) == len(lower) or bool(traits(rest).value & _DECISION)
