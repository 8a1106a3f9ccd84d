"""Words that carry no search meaning, English and Chinese."""

from functools import cache
from types import SimpleNamespace

from jiyi.text.lexicon import lexicon

__all__ = ["stopwords"]


@cache
def stopwords() -> SimpleNamespace:
    """Return the lists of `stopwords.toml`: ``english``, ``english_question``, ``chinese_question``."""
    return SimpleNamespace(**lexicon(__package__, "stopwords"))
