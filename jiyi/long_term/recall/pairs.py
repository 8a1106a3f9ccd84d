"""Judges whether a later statement has replaced an earlier one, with one learned model.

It compares the statements regardless of the question: how similar they are, whether they have values of
one kind, whose they are, what surrounds a short reply, and which phrases they contain. It is a logistic
regression on the features below; ``python bench/learn_weights.py`` learns it from pairs by many
writers. Pure functions on numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from jiyi.extraction.values import find_values as values
from jiyi.extraction.values import load_table as table
from jiyi.long_term.recall.question import DAY, cues
from jiyi.long_term.recall.weights import PAIR, Weights, dot, row_of
from jiyi.text import Trait, analyse, language, traits

__all__ = [
    "KINDS",
    "PAIR_SIGNS",
    "SINGLE",
    "SPEAKERS",
    "Signs",
    "Statements",
    "asked_for",
    "pair_signs",
    "replaced",
    "signs_of",
    "stacked",
]

KINDS = (
    *("url", "email", "host", "date", "clock", "weekday", "frequency", "version", "path", "money"),
    *("code", "phone", "amount", "number", "quoted", "name"),
)
"""The kinds of values."""

_TRAITS = {str(trait.name).lower(): trait.value for trait in Trait}
_CUES = ("refers", "own", "others", "new", "past")
SINGLE = (*_TRAITS, *_CUES, "length", "short", "has value")
"""The names of the features of one statement, in the order of `Signs.single`."""

_SAMPLE = 1_500  # characters of a statement that are read
_LONG = 200  # characters above which the length makes no difference
_SHORT = 4  # terms of a short statement
_Floats = NDArray[np.float64]
_Column = NDArray[np.float64] | NDArray[np.bool_]  # of pairs, of the earlier ones or of the later ones
_SWAPPED = 6.0  # upper limit of the rarity of swapped words
SPEAKERS = ("user", "assistant", "tool")  # the roles of those who state something
_BOTH = (
    *("cosine", "nearest earlier", "nearest later", "words of the earlier", "words of the later"),
    *("words of both", "words, absolute", "the turn before the later", "both turns before"),
    *("the turn before the earlier", "kinds", "same value", "other value of a kind", "same name"),
    *("other name", "same session", "days", "same speaker", "replies to the earlier"),
    *("replies to the assistant", "replies to a question", "frame of both", "swapped words"),
)
_KINDS = tuple(f"both: {kind}" for kind in KINDS)
_EARLIER, _LATER = (
    tuple(f"{which}: {name}" for name in (*SINGLE, *SPEAKERS)) for which in ("earlier", "later")
)
PAIR_SIGNS = (*_BOTH, *_KINDS, *_EARLIER, *_LATER)
"""The names of the features of an ordered pair: an earlier statement and a later one."""


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """The features of one statement."""

    single: NDArray[np.float64]  # see `SINGLE`
    kinds: NDArray[np.float64]  # 1 for each of `KINDS` that it contains
    values: tuple[str, ...]  # distinct values, case-folded
    names: tuple[str, ...]  # distinct names in it, case-folded
    terms: tuple[str, ...]  # distinct search terms
    frame: tuple[str, ...]  # those that are in none of its values
    chinese: bool  # it is written in Chinese


@lru_cache(maxsize=8192)
def signs_of(text: str, known: int | None = None) -> Signs:
    """Return the features of a statement, of a long one those of the first 1,500 characters.

    ``known`` are its traits, if they are known.
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
        *[float(own & bit != 0) for bit in _TRAITS.values()],
        *[float(patterns[name].search(sample) is not None) for name in _CUES],
        min(len(text), _LONG) / _LONG,
        float(len(terms) <= _SHORT),
        float(kinds.any()),
    ]
    given, called = (tuple({m[0].casefold().strip(): None for m in some}) for some in (found, names))
    stated = " ".join(given)
    frame = tuple([term for term in terms if term not in stated])
    return Signs(np.array(single), kinds, given, called, terms, frame, language(sample) == "zh")


@lru_cache(maxsize=1024)
def asked_for(question: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a question asks for: 1 for each of its classes, and for each of `KINDS` that answers."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statements:
    """Some statements on a similar subject; n of them, in any order."""

    signs: Sequence[Signs]
    vectors: _Floats  # (n, dims): minus the mean of the memory, length 1; zeros without a vector
    before: _Floats  # (n, dims): the same of the message just before each; zeros without one
    reply_to: NDArray[np.intp]  # position among these of the message just before, -1 if it is not among them
    after_assistant: _Floats  # 1 if the assistant spoke just before
    after_question: _Floats  # 1 if the message just before ends with a question
    at: NDArray[np.int64]  # when each was said, microseconds since 1970
    session: NDArray[np.int64]  # number of its session, -1 for none
    speaker: NDArray[np.int64]  # number of its speaker
    role: NDArray[np.int64]  # index in `SPEAKERS`
    among: int  # number of vectors in the mean
    cosines: _Floats = field(init=False)  # (2 n, 2 n) of the vectors and those before; 0 without a vector

    def __post_init__(self) -> None:
        """Compute the cosines.

        The expected cosine of any two of few vectors minus their mean, -1 / (count - 1), is mapped to 0.
        """
        both = np.concatenate([self.vectors, self.before])
        there, expected = both.any(axis=1), 1 / max(self.among - 1, 1)
        cosines = (both @ both.T + expected) / (1 + expected) * np.logical_and.outer(there, there)
        object.__setattr__(self, "cosines", cosines)

    def __len__(self) -> int:
        return len(self.signs)


def replaced(group: Statements, weights: Weights = PAIR) -> _Floats:
    """Return (n, n): the logit that statement j has replaced i; -inf where j is not later."""
    both, kinds, single = _signs(group)
    earlier, later = (single @ row_of(weights, names) for names in (_EARLIER, _LATER))
    logits = dot(weights, _BOTH, both) + (kinds * row_of(weights, _KINDS)) @ kinds.T
    return np.where(_later(group), logits + earlier[:, None] + later, -np.inf)


def pair_signs(group: Statements) -> _Floats:
    """Return (n, n, `PAIR_SIGNS`) for each i and j; meaningful where j was said later."""
    both, kinds, single = _signs(group)
    kinds, single = kinds.T, single.T
    of_one = [*(kinds[:, :, None] * kinds[:, None, :]), *single[:, :, None], *single[:, None, :]]
    return np.concatenate([both, stacked(of_one, len(group))], axis=2)


def _signs(group: Statements) -> tuple[_Floats, _Floats, _Floats]:
    """Return (n, n, `_BOTH`) of pairs, (n, `KINDS`), and (n, `SINGLE` and `SPEAKERS`) of single ones."""
    kinds = np.reshape([one.kinds for one in group.signs], (len(group), len(KINDS)))
    single = np.reshape([one.single for one in group.signs], (len(group), len(SINGLE)))
    roles = group.role[:, None] == np.arange(len(SPEAKERS))
    both = [*_likeness(group), *_values(group, kinds), *_setting(group), *_frames(group)]
    return stacked(both, len(group)), kinds, np.concatenate([single, roles], axis=1)


def stacked(columns: Sequence[_Column], count: int) -> _Floats:
    """Return (count, count, columns) from features of pairs, of the earlier or of the later statements."""
    out = np.empty((len(columns), count, count))
    for place, column in enumerate(columns):
        out[place] = column
    return np.moveaxis(out, 0, 2)


def _likeness(group: Statements) -> list[_Column]:
    n = len(group)
    cosine = group.cosines[:n, :n]
    among = np.where(_later(group), cosine, -np.inf)
    words, mass = _shared([one.terms for one in group.signs])
    return [
        cosine,
        1 / (1 + _place(among, axis=0)),
        1 / (1 + _place(among, axis=1)),
        words / mass[:, None],
        words / mass[None, :],
        words / np.sqrt(mass[:, None] * mass[None, :]),
        np.minimum(words, 10),
        group.cosines[:n, n:],
        group.cosines[n:, n:],
        group.cosines[n:, :n],
    ]


def _frames(group: Statements) -> list[_Column]:
    """Return the similarity of the words around the values, and how many words of each the other lacks.

    "The staging port is 8081" and "the production port is 9090" differ by one word each.
    """
    words, own = _shared([one.frame for one in group.signs])
    swapped = np.minimum(own[:, None], own) - words
    alike = words / np.sqrt(own[:, None] * own)
    return [alike, alike * np.minimum(swapped, _SWAPPED)]


def _values(group: Statements, kinds: _Floats) -> list[_Column]:
    values, names = (_incidence([getattr(one, part) for one in group.signs]) for part in ("values", "names"))
    same, typed = values @ values.T, kinds[:, :-1] @ kinds[:, :-1].T
    named, called = names @ names.T, names.max(axis=1, initial=0)
    return [
        kinds @ kinds.T,
        same > 0,
        typed * (same == 0),
        named > 0,
        (named == 0) * called[:, None] * called,
    ]


def _setting(group: Statements) -> list[_Column]:
    def alike(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((numbers[:, None] == numbers) & (numbers >= 0))

    return [
        alike(group.session),
        np.log1p(np.maximum(group.at[None, :] - group.at[:, None], 0) / DAY),
        alike(group.speaker),
        group.reply_to[None, :] == np.arange(len(group))[:, None],
        group.after_assistant,
        group.after_question,
    ]


def _later(group: Statements) -> NDArray[np.bool_]:
    return np.asarray(group.at[None, :] > group.at[:, None])


def _shared(groups: Sequence[Sequence[str]]) -> tuple[_Floats, _Floats]:
    """Return (n, n) the rarity of the members that two groups share, and (n,) of each group's members."""
    has = _incidence(groups)
    often = has.sum(axis=0)
    rarity = np.log1p((len(groups) - often + 0.5) / (often + 0.5))
    return (has * rarity) @ has.T, has @ rarity + 1e-9


def _place(values: _Floats, *, axis: int) -> _Floats:
    """Return the rank of each value along an axis, 0 for the highest."""
    return np.argsort(np.argsort(-values, axis=axis, kind="stable"), axis=axis).astype(np.float64)


def _incidence(groups: Sequence[Sequence[str]]) -> _Floats:
    """Return (n, all members): 1 where a group has a member."""
    columns: dict[str, int] = {}
    members = [columns.setdefault(word, len(columns)) for some in groups for word in some]
    out = np.zeros((len(groups), len(columns)))
    out[np.repeat(np.arange(len(groups)), [len(some) for some in groups]), members] = 1
    return out
