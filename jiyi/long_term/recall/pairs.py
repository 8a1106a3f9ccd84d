"""Estimates whether a later statement has replaced an earlier one, by a logistic regression.

Its features do not depend on the question: how similar the statements are, whether they have values of
one kind, who made them, what was said just before, and which phrases they contain. ``python
bench/learn_weights.py`` learns the weights from pairs by many writers. Pure functions on numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jiyi.extraction.values import find_values, load_table
from jiyi.long_term.recall.question import DAY, cues
from jiyi.long_term.recall.weights import PAIR, Weights, weight_vector, weighted_sum
from jiyi.text import Trait, analyse, traits

VALUE_KINDS = (
    *("url", "email", "host", "date", "clock", "weekday", "frequency", "version", "path", "money"),
    *("code", "phone", "amount", "number", "quoted", "name"),
)
"""The kinds of values."""

_TRAITS = {str(trait.name).lower(): trait.value for trait in Trait}
_CUE_NAMES = ("refers", "own", "others", "new", "past")
SCALARS = (*_TRAITS, *_CUE_NAMES, "length", "short", "has value")
"""The names of the features of one statement, in the order of `StatementFeatures.scalars`."""

_MAX_CHARS = 1_500  # characters of a statement that are read
_MAX_LENGTH = 200  # characters above which the length makes no difference
_SHORT_TERMS = 4  # terms of a short statement
_Floats = NDArray[np.float64]
_Column = NDArray[np.float64] | NDArray[np.bool_]  # (n, n), or broadcast to it: (n, 1) or (n,)
_MAX_SWAPPED = 6.0  # highest rarity of swapped words
ROLE_NAMES = ("user", "assistant", "tool")  # of those who make statements
_JOINT = (
    *("cosine", "nearest earlier", "nearest later", "words of the earlier", "words of the later"),
    *("words of both", "words, absolute", "the turn before the later", "both turns before"),
    *("the turn before the earlier", "kinds", "same value", "other value of a kind", "same name"),
    *("other name", "same session", "days", "same speaker", "replies to the earlier"),
    *("replies to the assistant", "replies to a question", "frame of both", "swapped words"),
)
_SHARED_KINDS = tuple(f"both: {kind}" for kind in VALUE_KINDS)
_EARLIER, _LATER = (
    tuple(f"{which}: {name}" for name in (*SCALARS, *ROLE_NAMES)) for which in ("earlier", "later")
)
PAIR_FEATURES = (*_JOINT, *_SHARED_KINDS, *_EARLIER, *_LATER)
"""The names of the features of an earlier and a later statement."""


class StatementValues(NamedTuple):
    """The values and names in one statement."""

    kinds: tuple[float, ...]  # 1 for each of `VALUE_KINDS` that it contains
    values: tuple[str, ...]  # distinct values, case-folded
    names: tuple[str, ...]  # distinct names, case-folded


class StatementFeatures(NamedTuple):
    """The features of one statement."""

    scalars: tuple[float, ...]  # see `SCALARS`
    said: StatementValues
    terms: tuple[str, ...]  # distinct search terms
    frame: tuple[str, ...]  # the terms that are in none of its values


@lru_cache(maxsize=8192)
def extract_values(text: str) -> StatementValues:
    """Return the values and names of a statement, read from its first 1,500 characters."""
    sample = text[:_MAX_CHARS]
    found = list(find_values(sample))
    spans = [value.span() for value in found]
    named = [
        name
        for name in _load_cues()["names"].finditer(sample)
        if not any(start <= name.start() < end for start, end in spans)
    ]
    kinds = {value.lastgroup for value in found} | ({"name"} if named else set())
    values, names = (tuple({m[0].casefold().strip(): None for m in some}) for some in (found, named))
    return StatementValues(tuple([float(kind in kinds) for kind in VALUE_KINDS]), values, names)


@lru_cache(maxsize=8192)
def extract_features(text: str, known_traits: int | None = None) -> StatementFeatures:
    """Return the features of a statement, read from its first 1,500 characters.

    ``known_traits`` are its traits, if they need not be computed again.
    """
    sample, said, patterns = text[:_MAX_CHARS], extract_values(text), _load_cues()
    lower = sample.lower()
    terms = tuple(dict.fromkeys(analyse(sample)))
    bits = traits(sample).value if known_traits is None else known_traits
    scalars = (
        *[float(bits & bit != 0) for bit in _TRAITS.values()],
        *[float(patterns[name].search(lower) is not None) for name in _CUE_NAMES],
        min(len(text), _MAX_LENGTH) / _MAX_LENGTH,
        float(len(terms) <= _SHORT_TERMS),
        float(any(said.kinds)),
    )
    joined = " ".join(said.values)
    return StatementFeatures(scalars, said, terms, tuple([term for term in terms if term not in joined]))


@lru_cache(maxsize=1024)
def classify_question(question: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return 1 for each class that a question belongs to, and for each of `VALUE_KINDS` that answers it."""
    classes, kinds = _question_classes()
    belongs = np.array([float(pattern.search(question) is not None) for pattern in classes])
    return belongs, np.minimum(belongs @ kinds, 1)


@cache
def _load_cues() -> Mapping[str, re.Pattern[str]]:
    return {**cues("said"), "names": cues("names")["pattern"]}


@cache
def _question_classes() -> tuple[tuple[re.Pattern[str], ...], NDArray[np.float64]]:
    rows = load_table("cues", "jiyi.long_term.recall")["asked"]
    kinds = np.array([[float(kind in row["kinds"]) for kind in VALUE_KINDS] for row in rows])
    return tuple(re.compile(row["pattern"]) for row in rows), kinds


@dataclass(frozen=True, kw_only=True, eq=False)
class Statements:
    """n statements on a similar subject, in any order."""

    features: Sequence[StatementFeatures]
    vectors: _Floats  # (n, dims): minus the mean of the memory, length 1; zeros without a vector
    before: _Floats  # (n, dims): those of the messages just before; zeros without one
    reply_to: NDArray[np.intp]  # position of the message just before, -1 if it is not among these
    after_assistant: _Floats  # 1 if the assistant spoke just before
    after_question: _Floats  # 1 if the message just before ends with a question
    at: NDArray[np.int64]  # time of each, microseconds since 1970
    session: NDArray[np.int64]  # number of its session, -1 for none
    speaker: NDArray[np.int64]  # number of its speaker
    role: NDArray[np.int64]  # index in `ROLE_NAMES`
    vector_count: int  # number of vectors in the mean

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def cosines(self) -> _Floats:
        """Cosines of the vectors and of those before, (2 n, 2 n), minus the one chance gives."""
        both = np.concatenate([self.vectors, self.before])
        has_vector, expected = both.any(axis=1), 1 / max(self.vector_count - 1, 1)
        cosines = (both @ both.T + expected) / (1 + expected)
        return np.asarray(cosines * np.logical_and.outer(has_vector, has_vector))

    @cached_property
    def kinds(self) -> _Floats:
        """Which of `VALUE_KINDS` each contains, (n, `VALUE_KINDS`)."""
        return np.reshape([item.said.kinds for item in self.features], (len(self), len(VALUE_KINDS)))

    @cached_property
    def scalars(self) -> _Floats:
        """The scalars of each, (n, `SCALARS`)."""
        return np.reshape([item.scalars for item in self.features], (len(self), len(SCALARS)))

    @cached_property
    def terms(self) -> Mapping[str, int]:
        """The column of each term in `has_term` and `frames`."""
        return _number_words([item.terms for item in self.features])

    @cached_property
    def has_term(self) -> _Floats:
        """1 where a statement has a term, (n, `terms`)."""
        return _incidence([item.terms for item in self.features], self.terms)

    @cached_property
    def frames(self) -> _Floats:
        """The same without the terms that are in the statement's values."""
        return _incidence([item.frame for item in self.features], self.terms)


def replacement_logits(group: Statements, weights: Weights = PAIR) -> _Floats:
    """Return (n, n): the logit of "statement j has replaced i"; -inf where j is not later."""
    both, kinds, scalars = _feature_arrays(group)
    earlier, later = (scalars @ weight_vector(weights, names) for names in (_EARLIER, _LATER))
    logits = weighted_sum(weights, _JOINT, both) + (kinds * weight_vector(weights, _SHARED_KINDS)) @ kinds.T
    return np.where(_is_later(group), logits + earlier[:, None] + later, -np.inf)


def pair_features(group: Statements) -> _Floats:
    """Return (n, n, `PAIR_FEATURES`) for each i and j; meaningful where j was said later."""
    both, kinds, scalars = _feature_arrays(group)
    kinds, scalars = kinds.T, scalars.T
    per_statement = [*(kinds[:, :, None] * kinds[:, None, :]), *scalars[:, :, None], *scalars[:, None, :]]
    return np.concatenate([both, stack_columns(per_statement, len(group))], axis=2)


def _feature_arrays(group: Statements) -> tuple[_Floats, _Floats, _Floats]:
    """Return (n, n, `_JOINT`), (n, `VALUE_KINDS`), and (n, `SCALARS` and `ROLE_NAMES`)."""
    roles = group.role[:, None] == np.arange(len(ROLE_NAMES))
    both = [*_similarities(group), *_shared_values(group), *_contexts(group), *_frames(group)]
    return stack_columns(both, len(group)), group.kinds, np.concatenate([group.scalars, roles], axis=1)


def stack_columns(columns: Sequence[_Column], count: int) -> _Floats:
    """Return (count, count, columns) from features of pairs, of the earlier or of the later statements."""
    out = np.empty((len(columns), count, count))
    for place, column in enumerate(columns):
        out[place] = column
    return np.moveaxis(out, 0, 2)


def _similarities(group: Statements) -> list[_Column]:
    n = len(group)
    cosine = group.cosines[:n, :n]
    to_later = np.where(_is_later(group), cosine, -np.inf)
    shared, own = _shared_rarity(group.has_term)
    return [
        cosine,
        1 / (1 + _rank(to_later, axis=0)),
        1 / (1 + _rank(to_later, axis=1)),
        shared / own[:, None],
        shared / own[None, :],
        shared / np.sqrt(own[:, None] * own[None, :]),
        np.minimum(shared, 10),
        group.cosines[:n, n:],
        group.cosines[n:, n:],
        group.cosines[n:, :n],
    ]


def _frames(group: Statements) -> list[_Column]:
    """Return the similarity of the words around the values, alone and times the rarity of swapped words.

    "The staging port is 8081" and "the production port is 9090" differ by one word each.
    """
    shared, own = _shared_rarity(group.frames)
    swapped = np.minimum(own[:, None], own) - shared
    alike = shared / np.sqrt(own[:, None] * own)
    return [alike, alike * np.minimum(swapped, _MAX_SWAPPED)]


def _shared_values(group: Statements) -> list[_Column]:
    values = _incidence([item.said.values for item in group.features])
    names, kinds = _incidence([item.said.names for item in group.features]), group.kinds
    same_values, same_kinds = values @ values.T, kinds[:, :-1] @ kinds[:, :-1].T
    same_names, has_name = names @ names.T, names.max(axis=1, initial=0)
    return [
        kinds @ kinds.T,
        same_values > 0,
        same_kinds * (same_values == 0),
        same_names > 0,
        (same_names == 0) * has_name[:, None] * has_name,
    ]


def _contexts(group: Statements) -> list[_Column]:
    def equal(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((numbers[:, None] == numbers) & (numbers >= 0))

    return [
        equal(group.session),
        np.log1p(np.maximum(group.at[None, :] - group.at[:, None], 0) / DAY),
        equal(group.speaker),
        group.reply_to[None, :] == np.arange(len(group))[:, None],
        group.after_assistant,
        group.after_question,
    ]


def _is_later(group: Statements) -> NDArray[np.bool_]:
    return np.asarray(group.at[None, :] > group.at[:, None])


def _shared_rarity(has: _Floats) -> tuple[_Floats, _Floats]:
    """Return the total rarity of the words that two groups share (n, n), and of each group's words (n,)."""
    counts = has.sum(axis=0)
    rarity = np.log1p((len(has) - counts + 0.5) / (counts + 0.5))
    return (has * rarity) @ has.T, has @ rarity + 1e-9


def _rank(values: _Floats, *, axis: int) -> _Floats:
    """Return the rank of each value along an axis, 0 for the highest."""
    return np.argsort(np.argsort(-values, axis=axis, kind="stable"), axis=axis).astype(np.float64)


def _number_words(groups: Sequence[Sequence[str]]) -> dict[str, int]:
    return {word: number for number, word in enumerate(dict.fromkeys(chain.from_iterable(groups)))}


def _incidence(groups: Sequence[Sequence[str]], columns: Mapping[str, int] | None = None) -> _Floats:
    """Return (n, columns): 1 where a group has the word of a column; by default of all words."""
    columns = _number_words(groups) if columns is None else columns
    out = np.zeros((len(groups), len(columns)))
    rows = np.repeat(np.arange(len(groups)), [len(words) for words in groups])
    out[rows, [columns[word] for words in groups for word in words]] = 1
    return out
