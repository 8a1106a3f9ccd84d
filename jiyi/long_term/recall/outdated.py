"""Which of the best messages has taken the place of which: signs of every pair, and the order they make.

What is asked for may have been said several times, with different values: at first, changed, for
a week only, from an old document, back again. The words of the question fit the first statement
best. So the best messages are compared in pairs: how likely is it that of two, the second shall
stand above the first for the time that is asked about. The weights of the signs are learned;
see `jiyi.long_term.recall.weights.REPLACES`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.timeliness import AskedTime
from jiyi.long_term.recall.validity import validity
from jiyi.long_term.recall.weights import PRIORS, REPLACES
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait

__all__ = ["JUDGED", "PAIR_SIGNS", "PairSign", "Pairs", "compare", "judged_rows", "lifted", "successors"]

JUDGED = 16
"""Messages that are compared: the best ones."""

_Later = Literal[
    "later: it is",
    "later: changes",
    "later: corrects",
    "later: retracts",
    "later: reverts",
    "later: asks",
    "later: reports",
    "later: supposes",
    "later: plans",
    "later: holds for a while",
    "later: held for a while",
    "later: of an assistant",
    "later: of a tool",
    "later: place",
    "later: meaning",
    "later: of a time gone by",
    "later: other is retracted",
    "later: other is no statement",
    "later: other held for a while",
    "later: other reverts",
    "later: shared words",
    "later: same speaker",
    "later: same session",
    "later: lag",
    "later: names",
]
_Earlier = Literal[
    "earlier: it is",
    "earlier: is no statement",
    "earlier: place",
    "earlier: other asks",
    "earlier: other reports",
    "earlier: other plans",
    "earlier: other held for a while",
    "earlier: other holds for a while",
    "earlier: other of an assistant",
    "earlier: other of a tool",
    "earlier: other is retracted",
    "earlier: same session",
    "earlier: shared words",
]
_After = Literal["after: other is", "after: meaning", "after: place", "after: lag"]
PairSign = Literal[_Later, _Earlier, _After]
"""What speaks for putting one message above another that the ranking has above it."""

PAIR_SIGNS: tuple[PairSign, ...] = get_args(PairSign)
"""The signs in the order of the columns."""

_LAST_PLACE = 10
_WIDEST = 6.0  # points between two scores; more says no more
_DAY = 86_400 * 1_000_000  # microseconds
_SAME_POINT = 1.5  # times the share of words: two thirds of the words of a statement are all of it
_PASSES = 3
_TIE = 1e-5  # between messages lifted above the same one; all of them together less than a step
_LIKELY = 0.4  # logit from which on a message is lifted: a wrong guess costs more than a missed one
_SURE = 1.0  # logit from which on a message is called outdated
_ONE_POINT = 0.5  # share of a message's words of the question that its successor has too
_Signs = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """The signs of all pairs of n messages: [i, j] is about putting j above i."""

    signs: NDArray[np.float64]  # (n, n, `PAIR_SIGNS`)
    known: NDArray[np.bool_]  # (n, n): the signs say something of i and j
    later: NDArray[np.bool_]  # (n, n): j was said behind i
    shared: NDArray[np.float64]  # (n, n): share of i's words of the question that j has too, 0..1

    def logits(self, weights: Mapping[str, float] = REPLACES) -> NDArray[np.float64]:
        """Return the logit of the probability that j belongs above i; -inf where nothing speaks of it."""
        found = self.signs @ np.array([weights[name] for name in PAIR_SIGNS])
        return np.asarray(np.where(self.known, found, -np.inf))

    def said_again(self, order: Sequence[int]) -> _Signs:
        """Return ``shared`` where j is later, else 0, with the messages in another order."""
        both = np.ix_(order, order)
        return np.asarray(self.shared[both] * self.later[both])


def judged_rows(table: Candidates, ranked: Ranked) -> list[int]:
    """Return the rows of the best messages, best first, `JUDGED` at most."""
    rows: list[int] = []
    for row in ranked.rows.tolist():
        if table.keys[row][0] == "message":
            rows.append(row)
            if len(rows) == JUDGED:
                break
    return rows


def compare(
    table: Candidates, features: Features, scores: _Signs, rows: Sequence[int], texts: Sequence[str]
) -> Pairs:
    """Return the signs of all pairs of messages; the question asks about some time.

    Args:
        table: the candidates.
        features: theirs, and the question.
        scores: of the messages, by the ranking.
        rows: the messages, as rows of the table, best first.
        texts: their words.
    """
    asked = features.question.time
    assert asked is not None, "nothing is outdated where no time is asked about"
    here = np.asarray(rows, np.intp)
    one, two = _One.of(asked, table, features, here, texts), _Two.of(asked, table, here, scores)
    retracted = _retracted(one, two)
    signs = [
        *_when_later(one, two, retracted, asked),
        *_when_earlier(one, two, retracted),
        *_when_after(one, two),
    ]
    known = two.later | two.earlier | two.after
    return Pairs(signs=np.stack(signs, axis=2), known=known, later=two.later, shared=two.share)


def lifted(scores: _Signs, logits: NDArray[np.float64]) -> _Signs:
    """Return scores in which each message stands above those whose place it took.

    It is lifted just above the best of them; nothing is put down, so that a wrong guess costs
    the message below one place. Of two that would each be above the other, the likelier is;
    messages lifted above the same one keep their order.
    """
    found = scores.copy()
    ahead = scores[:, None] > scores[None, :]
    pairs = np.argwhere(ahead & (logits > _LIKELY) & (logits >= logits.T))
    pairs = pairs[np.argsort(-logits[pairs[:, 0], pairs[:, 1]], kind="stable")]
    for _ in range(_PASSES):
        moved = False
        for below, above in pairs.tolist():
            if found[above] <= found[below]:
                found[above] = found[below] + PRIORS["in_force"]
                moved = True
        if not moved:
            break
    ahead_of = np.argsort(np.argsort(scores, kind="stable"), kind="stable")
    return np.where(found > scores, found + _TIE * ahead_of, found)


def successors(pairs: Pairs, logits: NDArray[np.float64]) -> list[int | None]:
    """Return for each message the place of the later one that most likely took its place, or None.

    The two must speak of the same point: the later one has half of the words of the question
    that the older one has.
    """
    likely = np.where(pairs.later & (pairs.shared >= _ONE_POINT), logits, -np.inf)
    best = likely.argmax(axis=1)
    return [int(j) if likely[i, j] > _SURE else None for i, j in enumerate(best)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _One:
    """The signs of single messages, one number for each."""

    changes: _Signs
    corrects: _Signs
    retracts: _Signs
    reverts: _Signs
    asks: _Signs
    reports: _Signs
    supposes: _Signs
    plans: _Signs
    assistant: _Signs
    tool: _Signs
    place: _Signs  # 0 the best, 1 the eleventh and all behind
    meaning: _Signs  # the feature "apart"
    names: _Signs  # the feature "entities"
    holds: _Signs  # for a while, at the time asked about
    held: _Signs  # for a while, not at the time asked about

    @classmethod
    def of(
        cls,
        asked: AskedTime,
        table: Candidates,
        features: Features,
        here: NDArray[np.intp],
        texts: Sequence[str],
    ) -> "_One":
        traits, roles = table.traits[here], table.roles[here]

        def has(trait: Trait) -> _Signs:
            return np.asarray((traits & trait.value) != 0, np.float64)

        holds, held = np.zeros((2, len(here)))
        for place in np.flatnonzero(has(Trait.TEMPORARY)).tolist():
            start, end = validity(texts[place], int(table.created_at[here[place]]))
            (holds if start <= asked.moment <= end + _DAY else held)[place] = 1
        return cls(
            changes=has(Trait.CHANGES),
            corrects=has(Trait.CORRECTS),
            retracts=has(Trait.RETRACTS),
            reverts=has(Trait.REVERTS),
            asks=has(Trait.MOSTLY_ASKS),
            reports=has(Trait.REPORTS),
            supposes=has(Trait.SUPPOSES),
            plans=has(Trait.PLANS),
            assistant=(roles == ROLES.index("assistant")).astype(np.float64),
            tool=(roles == ROLES.index("tool")).astype(np.float64),
            place=np.minimum(np.arange(len(here)), _LAST_PLACE) / _LAST_PLACE,
            meaning=features.column("apart")[here].astype(np.float64),
            names=features.column("entities")[here].astype(np.float64),
            holds=holds,
            held=held,
        )

    @property
    def unstated(self) -> _Signs:
        """Asked, reported or supposed."""
        found: _Signs = np.maximum.reduce([self.asks, self.reports, self.supposes])
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Two:
    """What two messages have to do with each other: [i, j]."""

    later: NDArray[np.bool_]  # j was said behind i, both by the time asked about
    earlier: NDArray[np.bool_]  # j was said before i
    after: NDArray[np.bool_]  # i was said after the time gone by that is asked about, j was not
    shared: _Signs  # idf of the words of the question in both, of the most that a message has
    share: _Signs  # the same, of what i has
    same_session: _Signs
    same_speaker: _Signs
    lag: _Signs  # by how much i is ahead of j

    @classmethod
    def of(cls, asked: AskedTime, table: Candidates, here: NDArray[np.intp], scores: _Signs) -> "_Two":
        words = (table.words[here] > 0) * table.idf.astype(np.float64)
        mass = words.sum(axis=1)
        both = np.minimum(words[:, None, :], words[None, :, :]).sum(axis=2)
        moments = table.created_at[here]
        after = (moments > asked.moment + _DAY) & (asked.kind == "then")
        by_then = ~after[:, None] & ~after[None, :]
        return cls(
            later=(moments[None, :] > moments[:, None]) & by_then,
            earlier=(moments[None, :] < moments[:, None]) & by_then,
            after=after[:, None] & ~after[None, :],
            shared=both / max(float(mass.max()), 1e-9),
            share=both / np.maximum(mass[:, None], 1e-9),
            same_session=_same(table.session[here]),
            same_speaker=_same(table.speaker[here]),
            lag=np.clip(scores[:, None] - scores[None, :], -_WIDEST, _WIDEST),
        )


def _when_later(one: _One, two: _Two, retracted: _Signs, asked: AskedTime) -> list[_Signs]:
    ones = np.ones(len(one.place))
    of_j = [
        *(ones, one.changes, one.corrects, one.retracts, one.reverts),
        *(one.asks, one.reports, one.supposes, one.plans, one.holds, one.held),
        *(one.assistant, one.tool, one.place, one.meaning, ones * (asked.kind == "then")),
    ]
    of_i = [retracted, one.unstated, one.held, one.reverts]
    names = one.names[None, :] - one.names[:, None]
    of_both = (two.shared, two.same_speaker, two.same_session, two.lag, names)
    return _where(two.later, of_j, of_i, of_both)


def _when_earlier(one: _One, two: _Two, retracted: _Signs) -> list[_Signs]:
    of_j = (np.ones(len(one.place)), one.unstated, one.place)
    of_i = [
        *(one.asks, one.reports, one.plans, one.held, one.holds),
        *(one.assistant, one.tool, retracted),
    ]
    return _where(two.earlier, of_j, of_i, (two.same_session, two.shared))


def _when_after(one: _One, two: _Two) -> list[_Signs]:
    return _where(two.after, (np.ones(len(one.place)), one.meaning, one.place), (), (two.lag,))


def _retracted(one: _One, two: _Two) -> _Signs:
    """Return how much of what each message says of the question a later session takes back, 0 to 1."""
    takes_back = one.retracts * (1 - one.asks) * (1 - one.reports) * (1 - one.assistant)
    point = np.minimum(1, _SAME_POINT * two.share) * (1 - two.same_session) * two.later
    found: _Signs = (point * takes_back[None, :]).max(axis=1)
    return found


def _where(
    there: NDArray[np.bool_],
    of_j: Sequence[_Signs],
    of_i: Sequence[_Signs],
    of_both: Sequence[_Signs],
) -> list[_Signs]:
    """Return signs of j, of i and of both as (n, n), 0 where the two do not stand so."""
    across = [there * sign[None, :] for sign in of_j]
    down = [there * sign[:, None] for sign in of_i]
    return [*across, *down, *(there * sign for sign in of_both)]


def _same(numbers: NDArray[np.int32]) -> _Signs:
    return np.asarray(numbers[:, None] == numbers[None, :], np.float64)
