"""Which of two statements has taken the other's place: one learned judgement for marks and order.

It looks at what the two say, whatever is asked: how like they are, whether they give values of one
kind, whose they are, what stands around a short reply, and turns of phrase as signs among others. It
is a logistic regression on the signs below; ``python bench/learn_weights.py`` learns it from pairs of
many hands. Pure functions on numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.signs import KINDS, SINGLE, Signs
from jiyi.long_term.recall.weights import PAIR, Weights, dot

__all__ = ["PAIR_SIGNS", "Statements", "pair_signs", "replaced"]

_Floats = NDArray[np.float64]
_DAY = 86_400 * 1_000_000  # microseconds
_SPEAKERS = ("user", "assistant", "tool")
_BOTH = (
    *("cosine", "nearest earlier", "nearest later", "words of the earlier", "words of the later"),
    *("words of both", "words, absolute", "the turn before the later", "both turns before"),
    *("the turn before the earlier", "kinds", "same value", "other value of a kind", "same name"),
    *("other name", "same session", "days", "same speaker", "replies to the earlier"),
    *("replies to the assistant", "replies to a question"),
)
PAIR_SIGNS = (
    *_BOTH,
    *(f"both: {kind}" for kind in KINDS),
    *(f"earlier: {name}" for name in (*SINGLE, *_SPEAKERS)),
    *(f"later: {name}" for name in (*SINGLE, *_SPEAKERS)),
)
"""The names of the signs of an ordered pair: an earlier statement and a later one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statements:
    """A few statements that are about something alike; n of them, in any order."""

    signs: Sequence[Signs]
    vectors: _Floats  # (n, dims): less the middle of the memory, length 1; zeros where there is none
    before: _Floats  # (n, dims): the same of what was said just before each, zeros for nothing
    reply_to: NDArray[np.intp]  # place among these of what was said just before, -1 for another or nothing
    after_assistant: _Floats  # 1 where the assistant spoke just before
    after_question: _Floats  # 1 where what was said just before ends by asking
    at: NDArray[np.int64]  # when each was said, microseconds since 1970
    session: NDArray[np.int64]  # number of its session, -1 for none
    speaker: NDArray[np.int64]  # number of its speaker
    role: NDArray[np.int64]  # place in user, assistant, tool

    def __len__(self) -> int:
        return len(self.signs)


def replaced(group: Statements, weights: Weights = PAIR) -> _Floats:
    """Return (n, n): the logit that statement j has taken the place of i; -inf where j is not later."""
    return np.where(_later(group), dot(weights, PAIR_SIGNS, pair_signs(group)), -np.inf)


def pair_signs(group: Statements) -> _Floats:
    """Return (n, n, `PAIR_SIGNS`) for each i and each j; of use where j was said later."""
    count, later = len(group), _later(group)
    kinds = np.reshape([one.kinds for one in group.signs], (count, len(KINDS)))
    single = np.reshape([one.single for one in group.signs], (count, len(SINGLE)))
    roles = (group.role[:, None] == np.arange(len(_SPEAKERS))[None, :]).astype(np.float64)
    single = np.concatenate([single, roles], axis=1)
    shared_kinds = kinds[:, None, :] * kinds[None, :, :]
    both = np.stack([*_likeness(group, later), *_values(group, shared_kinds), *_setting(group)], axis=2)
    shape = (count, count, single.shape[1])
    return np.concatenate(
        [
            both,
            shared_kinds,
            np.broadcast_to(single[:, None, :], shape),
            np.broadcast_to(single[None, :, :], shape),
        ],
        axis=2,
    )


def _likeness(group: Statements, later: NDArray[np.bool_]) -> list[_Floats]:
    cosine = group.vectors @ group.vectors.T
    among_earlier = _place(np.where(later, cosine, -np.inf), axis=0)
    among_later = _place(np.where(later, cosine, -np.inf), axis=1)
    has = _incidence([one.terms for one in group.signs])
    often = has.sum(axis=0)
    rarity = np.log1p((len(group) - often + 0.5) / (often + 0.5))
    mass = has @ rarity + 1e-9
    words = (has * rarity) @ has.T
    return [
        cosine,
        1 / (1 + among_earlier),
        1 / (1 + among_later),
        words / mass[:, None],
        words / mass[None, :],
        words / np.sqrt(mass[:, None] * mass[None, :]),
        np.minimum(words, 10),
        group.vectors @ group.before.T,
        group.before @ group.before.T,
        group.before @ group.vectors.T,
    ]


def _values(group: Statements, shared_kinds: _Floats) -> list[_Floats]:
    values, names = (_incidence([getattr(one, part) for one in group.signs]) for part in ("values", "names"))
    same, typed = values @ values.T, shared_kinds[:, :, :-1].sum(axis=2)
    named, called = names @ names.T, names.sum(axis=1) > 0
    return [
        shared_kinds.sum(axis=2),
        (same > 0).astype(np.float64),
        typed * (same == 0),
        (named > 0).astype(np.float64),
        ((named == 0) & called[:, None] & called[None, :]).astype(np.float64),
    ]


def _setting(group: Statements) -> list[_Floats]:
    def alike(numbers: NDArray[np.int64]) -> _Floats:
        same = (numbers[:, None] == numbers[None, :]) & (numbers[:, None] >= 0)
        return np.asarray(same, np.float64)

    count = len(group)
    days = np.log1p(np.maximum(group.at[None, :] - group.at[:, None], 0) / _DAY)
    return [
        alike(group.session),
        days,
        alike(group.speaker),
        (group.reply_to[None, :] == np.arange(count)[:, None]).astype(np.float64),
        np.broadcast_to(group.after_assistant, (count, count)),
        np.broadcast_to(group.after_question, (count, count)),
    ]


def _later(group: Statements) -> NDArray[np.bool_]:
    return np.asarray(group.at[None, :] > group.at[:, None])


def _place(values: _Floats, *, axis: int) -> _Floats:
    """Return the place of each value along an axis, 0 for the highest."""
    return np.argsort(np.argsort(-values, axis=axis, kind="stable"), axis=axis).astype(np.float64)


def _incidence(sets: Sequence[frozenset[str]]) -> _Floats:
    """Return (n, all members): 1 where a set has a member."""
    columns = {word: place for place, word in enumerate(dict.fromkeys(chain.from_iterable(sets)))}
    out = np.zeros((len(sets), len(columns)))
    for row, some in enumerate(sets):
        out[row, [columns[word] for word in some]] = 1
    return out
