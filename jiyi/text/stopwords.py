"""Words that carry no search meaning, English and Chinese."""

from functools import cache
from typing import NamedTuple

from jiyi.text.lexicon import lexicon

__all__ = ["Stopwords", "stopwords"]


class Stopwords(NamedTuple):
    """The lists of `stopwords.toml`."""

    english: frozenset[str]
    english_question: frozenset[str]
    chinese_question: frozenset[str]


@cache
def stopwords() -> Stopwords:
    """Return the lists, read once."""
    return Stopwords(**lexicon(__package__, "stopwords"))
