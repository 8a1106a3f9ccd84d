"""What a single statement shows at first sight: its traits, its values by kind, its words. Pure, cached."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jiyi.extraction.values import values
from jiyi.text import Trait, analyse, language, traits

__all__ = ["KINDS", "SINGLE", "Signs", "asked_for", "signs_of"]

KINDS = (
    *("url", "email", "host", "date", "clock", "weekday", "frequency", "version", "path", "money"),
    *("code", "phone", "amount", "number", "quoted", "name"),
)
"""The kinds of value that are told apart."""

_TRAITS = tuple(Trait)
_CUES = ("refers", "own", "others", "new", "past")
SINGLE = (*(str(trait.name).lower() for trait in _TRAITS), *_CUES, "length", "short", "has value")
"""The names of the signs of one statement, in the order of `Signs.single`."""

_SAMPLE = 1_500  # characters of a statement that are looked at
_LONG = 200  # characters; a longer statement is no longer
_SHORT = 4  # terms


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The signs of one statement."""

    single: NDArray[np.float64]  # see `SINGLE`
    kinds: NDArray[np.float64]  # 1 for each of `KINDS` that it holds
    values: frozenset[str]  # its values, folded
    names: frozenset[str]  # names it calls, folded
    terms: frozenset[str]  # its search terms
    chinese: bool  # it is written in Chinese


@lru_cache(maxsize=8192)
def signs_of(text: str) -> Signs:
    """Return the signs of a statement; of a long one the first 1,500 characters decide."""
    sample = text[:_SAMPLE]
    cues, terms = _cues(), frozenset(analyse(sample))
    kinds, found, taken = np.zeros(len(KINDS)), [], np.zeros(len(sample) + 1, np.bool_)
    for value in values(sample):
        if value.lastgroup in KINDS:
            kinds[KINDS.index(value.lastgroup)] = 1
        taken[value.start() : value.end()] = True
        found.append(value[0].casefold().strip())
    names = [m[0].casefold() for m in cues["names"].finditer(sample) if not taken[m.start()]]
    kinds[-1] = bool(names)
    own = traits(sample)
    single = [
        *(float(bool(own & trait)) for trait in _TRAITS),
        *(float(cues[name].search(sample) is not None) for name in _CUES),
        min(len(text), _LONG) / _LONG,
        float(len(terms) <= _SHORT),
        float(kinds.any()),
    ]
    return Signs(np.array(single), kinds, frozenset(found), frozenset(names), terms, language(sample) == "zh")


@lru_cache(maxsize=1024)
def asked_for(question: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a question asks for: 1 for each class it is of, and 1 for each of `KINDS` that answers."""
    classes, kinds = _asked()
    which = np.array([float(pattern.search(question) is not None) for pattern in classes])
    return which, np.minimum(which @ kinds, 1)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("cues.toml").read_text("utf-8"))


@cache
def _cues() -> dict[str, re.Pattern[str]]:
    patterns = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _table()["said"].items()}
    return patterns | {"names": re.compile(_table()["names"]["pattern"])}


@cache
def _asked() -> tuple[tuple[re.Pattern[str], ...], NDArray[np.float64]]:
    rows = _table()["asked"]
    kinds = np.array([[float(kind in row["kinds"]) for kind in KINDS] for row in rows])
    return tuple(re.compile(row["pattern"], re.IGNORECASE) for row in rows), kinds
