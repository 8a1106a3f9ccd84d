"""Words that carry no search meaning, English and Chinese: the lists of `stopwords.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

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
    lists = tomllib.loads(files(__package__).joinpath("stopwords.toml").read_text("utf-8"))
    return Stopwords(**{name: frozenset(words.split()) for name, words in lists.items()})
