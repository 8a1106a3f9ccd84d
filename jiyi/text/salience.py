"""How much a text is worth keeping.

The score rests on `jiyi.text.traits` and further signs: errors, commands, to-dos, and what people say about
themselves. It does not understand the text, but is right often enough to decide what leaves a window first.
"""

from functools import cache, partial

from jiyi.text.lexicon import lexicon
from jiyi.text.traits import Trait, traits

__all__ = ["salience"]

_SAMPLE = 2_000  # characters that are read, as in `traits`
_MAX_ACKNOWLEDGEMENT = 45  # bytes: 15 Chinese characters, 8 words of English
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

    About 1.0 for decisions and "remember this"; .9 for to-dos; .85 for changes and corrections; .75 for
    statements of people about themselves and stressed ones; .65 to .8 for details (numbers, dates, names,
    errors, paths, commands, code: more kinds score higher); .5 for ordinary text; .3 and below for greetings,
    acknowledgements and phrases; 0 for no text. The highest that applies counts. Questions and suppositions
    are no decisions. Only the first 2,000 characters are read.
    """
    sample = text[:_SAMPLE]
    if not sample.strip():
        return 0.0
    lower = sample.lower().replace("’", "'")
    signs = traits(sample).value
    if signs & _GREETING:
        return _SMALL_TALK
    details = _count_details(sample, lower, signs)
    short = len(text[: _MAX_ACKNOWLEDGEMENT + 1].encode("utf-8", "replace")) <= _MAX_ACKNOWLEDGEMENT
    nods = short and details <= bool(signs & _NAME) and _signs().nods.match(lower)  # "Hey Ana!"
    says_more = signs & (_QUESTION | _CHANGED)
    if nods and not (says_more or _decides(lower, signs) or _signs().todo.search(lower)):
        return _NODDED
    worth = min(_MOST_DETAIL, 0.6 + 0.05 * details) if details else _ORDINARY
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
    named = signs & _NAME or _signs().person_zh.search(sample)
    kinds = signs & _NUMBER, signs & _DATE, named, _signs().error.search(lower), _signs().code.search(sample)
    return sum(map(bool, kinds))


def _statement_score(lower: str, signs: int) -> float:
    """Return the score of a statement without its details."""
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
