"""Signs that a stored text tries to instruct the model that reads it."""

import re
import unicodedata
from functools import cache, lru_cache

from jiyi.text.lexicon import lexicon

__all__ = ["suspicious"]

_SAMPLE = 4_000  # characters at either end that are looked at
_QUOTED = re.compile(r"[\"“「『'‘][^\"“”「」『』'‘’\n]{2,80}[\"”」』'’]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_SPACED = re.compile(r"(?<!\w)(?:\w ){4,60}\w(?!\w)")
_LEET = str.maketrans("013457@$", "oieastas")


@lru_cache(maxsize=1024)  # the messages of a session stand in one window after the other
def suspicious(text: str) -> str:
    """Return the kind of the first sign that a text tries to instruct a model, "" where there is none.

    Kinds are the keys of suspicious.toml, such as "overrides" or "tags". Of a long text its two ends
    are looked at. What stands in quotation marks does not count. A guess: attacks pass, and talk
    about attacks may be caught; nothing is to be dropped for it.
    """
    ends = text if len(text) <= 2 * _SAMPLE else f"{text[:_SAMPLE]}\n{text[-_SAMPLE:]}"
    plain = _QUOTED.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFKC", ends))).casefold()
    plain = _SPACED.sub(lambda found: found[0].replace(" ", ""), plain)
    signs = _signs()
    for form in dict.fromkeys((plain, plain.translate(_LEET))):
        for kind, sign in signs.items():
            also = "secretly" if kind == "sends_out" else kind
            if kind != "secretly" and sign.search(form) and signs[also].search(form):
                return kind
    return ""


@cache
def _signs() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(sign) for name, sign in lexicon(__package__, "suspicious")["signs"].items()}
