"""What a single statement shows at first sight: its traits, its values by kind, its words. Pure, cached."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from jiyi.extraction.values import table, values
from jiyi.long_term.recall.question import cues
from jiyi.text import Trait, analyse, language, traits

__all__ = ["KINDS", "SINGLE", "Signs", "asked_for", "signs_of"]

KINDS = (
    *("url", "email", "host", "date", "clock", "weekday", "frequency", "version", "path", "money"),
    *("code", "phone", "amount", "number", "quoted", "name"),
)
"""The kinds of value that are told apart."""

_TRAITS = {str(trait.name).lower(): trait.value for trait in Trait}
_CUES = ("refers", "own", "others", "new", "past")
SINGLE = (*_TRAITS, *_CUES, "length", "short", "has value")
"""The names of the signs of one statement, in the order of `Signs.single`."""

_SAMPLE = 1_500  # characters of a statement that are looked at
_LONG = 200  # characters; a longer statement is no longer
_SHORT = 4  # terms


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The signs of one statement."""

    single: NDArray[np.float64]  # see `SINGLE`
    kinds: NDArray[np.float64]  # 1 for each of `KINDS` that it holds
    values: tuple[str, ...]  # its values, folded and distinct
    names: tuple[str, ...]  # names it calls, folded and distinct
    terms: tuple[str, ...]  # its search terms, distinct
    frame: tuple[str, ...]  # those of them that stand in none of its values
    chinese: bool  # it is written in Chinese


@lru_cache(maxsize=8192)
def signs_of(text: str, known: int | None = None) -> Signs:
    """Return the signs of a statement; of a long one the first 1,500 characters decide.

    ``known`` are its traits, as far as they are known.
    """
    sample = text[:_SAMPLE]
    patterns, terms = _cues(), tuple(dict.fromkeys(analyse(sample)))
    found = list(values(sample))
    taken = {place for value in found for place in range(*value.span())}
    names = [name for name in patterns["names"].finditer(sample) if name.start() not in taken]
    there = {value.lastgroup for value in found} | ({"name"} if names else set())
    kinds = np.array([float(kind in there) for kind in KINDS])
    own = traits(sample).value if known is None else known
    single = [
        *(float(own & bit != 0) for bit in _TRAITS.values()),
        *(float(patterns[name].search(sample) is not None) for name in _CUES),
        min(len(text), _LONG) / _LONG,
        float(len(terms) <= _SHORT),
        float(kinds.any()),
    ]
    given, called = (tuple({m[0].casefold().strip(): None for m in some}) for some in (found, names))
    stated = " ".join(given)
    frame = tuple(term for term in terms if term not in stated)
    return Signs(np.array(single), kinds, given, called, terms, frame, language(sample) == "zh")


@lru_cache(maxsize=1024)
def asked_for(question: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a question asks for: 1 for each class it is of, and 1 for each of `KINDS` that answers."""
    classes, kinds = _asked()
    which = np.array([float(pattern.search(question) is not None) for pattern in classes])
    return which, np.minimum(which @ kinds, 1)


@cache
def _cues() -> Mapping[str, re.Pattern[str]]:
    return {**cues("said"), "names": cues("names")["pattern"]}


@cache
def _asked() -> tuple[tuple[re.Pattern[str], ...], NDArray[np.float64]]:
    rows = table("cues", "jiyi.long_term.recall")["asked"]
    kinds = np.array([[float(kind in row["kinds"]) for kind in KINDS] for row in rows])
    return tuple(re.compile(row["pattern"]) for row in rows), kinds
