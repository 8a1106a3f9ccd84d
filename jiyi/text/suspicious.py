"""Detect stored texts that try to instruct the model that reads them."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache

from jiyi.text.lexicon import Hints, read_toml

_SAMPLE = 4_000  # characters read at either end
_QUOTED = re.compile(r"[\"“「『'‘][^\"“”「」『』'‘’\n]{2,80}[\"”」』'’]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_SPACED = re.compile(r"(?<!\w)(?:(?:\w ){4,60}|\w([*.·|-])(?:\w\1){1,60})\w(?!\w)")
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)|[。！？\n]")
_SPELT = re.compile(r"[a-z][013457@$]|[013457@$][a-z]")  # digits for letters
_LEET = str.maketrans("013457@$", "oieastas")


@lru_cache(maxsize=1024)  # messages are in many windows of a session
def suspicious(text: str) -> str:
    """Return the kind of the first sign that a text tries to instruct a model, "" without any.

    Kinds are those of suspicious.toml, such as "overrides" or "tags". Of a long text only the two ends are
    read. Text in quotation marks does not count, except for a few signs. This is a guess: attacks may pass,
    and talk about attacks may be caught, so nothing should be dropped because of it.
    """
    ends = text if len(text) <= 2 * _SAMPLE else f"{text[:_SAMPLE]}\n{text[-_SAMPLE:]}"
    raw = _INVISIBLE.sub("", unicodedata.normalize("NFKC", ends)).casefold()
    plain = _SPACED.sub(lambda found: found[0][::2], _QUOTED.sub(" ", raw))
    forms = (plain, plain.translate(_LEET)) if _SPELT.search(plain) else (plain,)
    signs, hints = _load_signs()
    for form in forms:
        for place in hints.places(raw if form == raw else f"{raw}\n{form}"):
            if signs[place].holds(raw if signs[place].raw else form):
                return signs[place].kind
    return ""


@dataclass(frozen=True, slots=True)
class _Sign:
    """Patterns that are a sign if one sentence matches all of them."""

    kind: str
    all: tuple[re.Pattern[str], ...]
    hints: tuple[str, ...] = ("",)  # each text that the first pattern matches contains one of them
    anywhere: bool = False  # in the whole text, not in one sentence
    raw: bool = False  # also inside quotation marks

    def holds(self, text: str) -> bool:
        return self._fits(text) and (self.anywhere or any(map(self._fits, _SENTENCE.split(text))))

    def _fits(self, part: str) -> bool:
        return all(pattern.search(part) for pattern in self.all)


@cache
def _load_signs() -> tuple[tuple[_Sign, ...], Hints]:
    table = read_toml(__package__, "suspicious")["signs"]
    signs = tuple(_Sign(**sign | {"all": tuple(map(re.compile, sign["all"]))}) for sign in table)
    return signs, Hints(sign.hints for sign in signs)
