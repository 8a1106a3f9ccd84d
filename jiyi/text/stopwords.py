"""Words that carry no search meaning, English and Chinese: the lists of `stopwords.toml`."""

from dataclasses import dataclass
from functools import cache

from jiyi.text.lexicon import lexicon

__all__ = ["Stopwords", "stopwords"]


@dataclass(frozen=True, slots=True)
class Stopwords:
    """The lists of `stopwords.toml`."""

    english: frozenset[str]
    english_question: frozenset[str]
    chinese_question: frozenset[str]


@cache
def stopwords() -> Stopwords:
    """Return the lists, read once."""
    return Stopwords(**lexicon(__package__, "stopwords"))
