"""Signs that a stored text tries to instruct the model that reads it."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from jiyi.text.lexicon import read_toml

__all__ = ["suspicious"]

_SAMPLE = 4_000  # characters at either end that are looked at
_QUOTED = re.compile(r"[\"“「『'‘][^\"“”「」『』'‘’\n]{2,80}[\"”」』'’]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_SPACED = re.compile(r"(?<!\w)(?:(?:\w ){4,60}|\w([*.·|-])(?:\w\1){1,60})\w(?!\w)")
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)|[。！？\n]")
_SPELT = re.compile(r"[a-z][013457@$]|[013457@$][a-z]")  # digits for letters
_LEET = str.maketrans("013457@$", "oieastas")


@lru_cache(maxsize=1024)  # the messages of a session stand in one window after the other
def suspicious(text: str) -> str:
    """Return the kind of the first sign that a text tries to instruct a model, "" where there is none.

    Kinds are those of suspicious.toml, such as "overrides" or "tags". Of a long text its two ends
    are looked at. What stands in quotation marks does not count, but for a few signs. A guess: attacks
    pass, and talk about attacks may be caught; nothing is to be dropped for it.
    """
    ends = text if len(text) <= 2 * _SAMPLE else f"{text[:_SAMPLE]}\n{text[-_SAMPLE:]}"
    raw = _INVISIBLE.sub("", unicodedata.normalize("NFKC", ends)).casefold()
    plain = _SPACED.sub(lambda found: found[0][::2], _QUOTED.sub(" ", raw))
    forms = (plain, plain.translate(_LEET)) if _SPELT.search(plain) else (plain,)
    for form in forms:
        for sign in _signs():
            if sign.holds(raw if sign.raw else form):
                return sign.kind
    return ""


@dataclass(frozen=True, slots=True)
class _Sign:
    """Turns of phrase that are a sign when all of them stand in one sentence."""

    kind: str
    all: tuple[re.Pattern[str], ...]
    anywhere: bool = False  # in the text, not in one sentence
    raw: bool = False  # quotation marks do not hide them

    def holds(self, text: str) -> bool:
        return all(one.search(text) for one in self.all) and (
            self.anywhere
            or any(all(one.search(sentence) for one in self.all) for sentence in _SENTENCE.split(text))
        )


@cache
def _signs() -> tuple[_Sign, ...]:
    return tuple(
        _Sign(**{**one, "all": tuple(map(re.compile, one["all"]))})
        for one in read_toml(__package__, "suspicious")["signs"]
    )
