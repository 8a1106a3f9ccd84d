"""Which of the best messages holds at the time that is asked about: their order, and which are outdated.

What is asked for may have been said several times with different values: at first, changed, for a week
only, by somebody else, back again. The words of the question fit the first statement best. So the best
messages are compared in pairs (`jiyi.long_term.recall.pairs`), together with how well each fits the
question, and put in order by what came of it. Pure functions; all weights are learned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.pairs import Statements, replaced, stacked
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.signs import KINDS, SINGLE, Signs, asked_for, signs_of
from jiyi.long_term.recall.validity import validity
from jiyi.long_term.recall.weights import ORDER, PAIR, SUCCESSION, Weights, chance, dot
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait

__all__ = [
    "JUDGED",
    "MAYBE",
    "ORDER_SIGNS",
    "SUCCESSION_SIGNS",
    "SURE",
    "Judged",
    "dealt",
    "judge",
    "judged_rows",
    "order_signs",
    "statements",
    "succession_signs",
]

JUDGED = 16
"""Messages that are compared: the best ones."""

SURE = 0.85
"""Probability from which on a message is called outdated."""

MAYBE = 0.5
"""Probability from which on it may be."""

_Floats = NDArray[np.float64]
_DAY = 86_400 * 1_000_000  # microseconds
_LAST = 100.0
_REORDERED = 10  # of the best messages
_OUTSIDE = -9.0  # logit of what the pairs say nothing of
_UNLIKELY = -3.0  # logit; what is less likely is as unlikely
_ROLES = ("user", "assistant", "tool")
_TEMPORARY = SINGLE.index("temporary")

SUCCESSION_SIGNS = (
    *("pair", "pair, if likely", "earlier: score", "later: score", "lead of the later"),
    *("earlier: apart", "later: apart", "apart of the later", "earlier: cover", "later: cover"),
    *("cover of both", "earlier: place", "later: place", "meaning of both", "fits"),
)
"""The signs of an earlier and a later message that a question found."""

_TIMED = ("outdated", "succeeds", "recent", "holds for a while", "held for a while", "fits")
ORDER_SIGNS = (
    "score",
    *(f"{time}: {name}" for time in ("now", "then", "any") for name in _TIMED),
    "said after",
    *(f"now: {name}" for name in (*SINGLE, *_ROLES)),
)
"""The signs of one of the best messages, among which the last order is made."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """The best messages of a question, compared; all in the order of ``rows``."""

    rows: NDArray[np.intp]  # rows of the table, best first by the ranking
    signs: Sequence[Signs]
    outdated: _Floats  # probability that a later one has taken its place
    successor: NDArray[np.intp]  # place of that one, -1 for none
    order: _Floats  # (n, `ORDER_SIGNS`)
    scores: _Floats  # by the ranking, and by what is in force
    timed: bool  # the question asks about a time

    @property
    def lifts(self) -> Mapping[int, float]:
        """What being in force adds to a score, by row."""
        lifts = self.scores - self.order[:, 0]
        return dict(zip(self.rows.tolist(), lifts.tolist(), strict=True))

    def marked(self, above: float, below: float = 2.0) -> dict[int, int]:
        """Return the rows outdated with a probability from ``above`` to ``below``, with their successors."""
        chosen = self.timed & (self.outdated >= above) & (self.outdated < below) & (self.successor >= 0)
        return {int(self.rows[i]): int(self.rows[self.successor[i]]) for i in np.flatnonzero(chosen)}


def judged_rows(table: Candidates, ranked: Ranked) -> list[int]:
    """Return the rows of the best messages, best first, `JUDGED` at most."""
    rows: list[int] = []
    for row in ranked.rows.tolist():
        if table.keys[row][0] == "message":
            rows.append(row)
            if len(rows) == JUDGED:
                break
    return rows


def judge(
    table: Candidates,
    features: Features,
    ranked: Ranked,
    texts: Mapping[int, str],
    *,
    pair: Weights = PAIR,
    succession: Weights = SUCCESSION,
    order: Weights = ORDER,
) -> Judged:
    """Compare the best messages, given by row with their words, best first.

    Where the question asks about no time their order stays: what was said first is as good an
    answer to "who" or "why" as what was said last.
    """
    rows = np.array(list(texts), np.intp)
    known = table.traits[rows].tolist()
    signs = [signs_of(text, own) for text, own in zip(texts.values(), known, strict=True)]
    scores = ranked.scores[rows].astype(np.float64)
    if features.question.time is None:
        return _untimed(rows, signs, scores)
    group = statements(table, features, rows, signs)
    found = succession_signs(features, group, rows, scores, replaced(group, pair))
    chances = chance(dot(succession, SUCCESSION_SIGNS, found))
    likely = np.where(_compared(features, group, texts.values()), chances, 0.0)
    successor = likely.argmax(axis=1) if len(rows) else np.zeros(0, np.intp)
    outdated = likely.max(axis=1, initial=0.0)
    made = order_signs(features, group, rows, scores, likely, texts=list(texts.values()))
    return Judged(
        rows=rows,
        signs=signs,
        outdated=outdated,
        successor=np.where(outdated > 0, successor, -1),
        order=made,
        timed=True,
        scores=dealt(scores, _order(features, group, made, order)),
    )


def _untimed(rows: NDArray[np.intp], signs: Sequence[Signs], scores: _Floats) -> Judged:
    made = np.zeros((len(rows), len(ORDER_SIGNS)))
    made[:, 0] = scores
    return Judged(
        rows=rows,
        signs=signs,
        outdated=np.zeros(len(rows)),
        successor=np.full(len(rows), -1),
        order=made,
        timed=False,
        scores=scores,
    )


def _order(features: Features, group: Statements, signs: _Floats, weights: Weights) -> _Floats:
    """Return what the messages are ordered by; asked of now, what was said after the question comes last."""
    found = dot(weights, ORDER_SIGNS, signs)
    time = features.question.time
    if time is None or time.kind != "now":
        return found
    return found - _LAST * (group.at > max(time.moment, features.question.asked_at) + _DAY)


def dealt(scores: _Floats, order: _Floats) -> _Floats:
    """Return falling scores dealt out anew among the first ten by another order of them.

    What is found stays found: only the order of the first ten changes.
    """
    out = scores.copy()
    out[np.argsort(-order[:_REORDERED], kind="stable")] = scores[:_REORDERED]
    return out


def statements(
    table: Candidates, features: Features, rows: NDArray[np.intp], signs: Sequence[Signs]
) -> Statements:
    """Return what the comparison of pairs looks at, for some rows of a table."""
    before = table.previous[rows]
    there = before >= 0
    place = {row: number for number, row in enumerate(rows.tolist())}
    spoke = table.roles[before] == ROLES.index("assistant")
    asked = (table.traits[before] & Trait.ASKS_LAST.value) != 0
    roles = [
        _ROLES.index(name) if (name := ROLES[role]) in _ROLES else 0 for role in table.roles[rows].tolist()
    ]
    return Statements(
        signs=signs,
        vectors=features.vectors[rows].astype(np.float64),
        before=features.vectors[before].astype(np.float64) * there[:, None],
        reply_to=np.array([place.get(row, -1) for row in before.tolist()], np.intp),
        after_assistant=(there & spoke).astype(np.float64),
        after_question=(there & asked).astype(np.float64),
        at=table.created_at[rows],
        session=table.session[rows].astype(np.int64),
        speaker=table.speaker[rows].astype(np.int64),
        role=np.array(roles, np.int64),
    )


def succession_signs(
    features: Features, group: Statements, rows: NDArray[np.intp], scores: _Floats, pair: _Floats
) -> _Floats:
    """Return (n, n, `SUCCESSION_SIGNS`): how well two statements fit the question, and what they say."""
    count = len(rows)
    logits = np.where(np.isinf(pair), _OUTSIDE, pair)
    behind = scores - scores.max(initial=-np.inf)
    apart, cover = features.column("apart")[rows].astype(np.float64), features.cover[rows].astype(np.float64)
    place = np.arange(count) / JUDGED
    near = features.nearness[rows].astype(np.float64)
    fits = _fits(features, group.signs)
    columns = [
        *(logits, np.maximum(logits, _UNLIKELY)),
        *(behind[:, None], behind, behind - behind[:, None]),
        *(apart[:, None], apart, apart - apart[:, None]),
        *(cover[:, None], cover, np.minimum(cover[:, None], cover)),
        *(place[:, None], place),
        *(np.minimum(values[:, None], values) for values in (near, fits)),
    ]
    return stacked(columns, count)


def order_signs(
    features: Features,
    group: Statements,
    rows: NDArray[np.intp],
    scores: _Floats,
    likely: _Floats,
    *,
    texts: Sequence[str],
) -> _Floats:
    """Return (n, `ORDER_SIGNS`)."""
    time = features.question.time
    kind = time.kind if time else "any"
    holds, held = _for_a_while(features, group, texts)
    timed = [
        *(likely.max(axis=1, initial=0.0), likely.max(axis=0, initial=0.0)),
        *(features.column("recent")[rows].astype(np.float64), holds, held, _fits(features, group.signs)),
    ]
    roles = group.role[:, None] == np.arange(len(_ROLES))[None, :]
    single = np.reshape([one.single for one in group.signs], (len(rows), len(SINGLE)))
    single = np.concatenate([single, roles], axis=1)
    columns = [scores]
    for name in ("now", "then", "any"):
        columns += [column * (kind == name) for column in timed]
    columns.append(np.asarray(group.at > _latest(features), np.float64))
    return np.concatenate([np.stack(columns, axis=1), single * (kind == "now")], axis=1)


def _compared(features: Features, group: Statements, texts: Iterable[str]) -> NDArray[np.bool_]:
    """Say which pairs are a statement and a later one in other words, both said by the time asked about."""
    by_then = group.at <= _latest(features)
    wordings: dict[str, int] = {}
    same = [wordings.setdefault(" ".join(text.casefold().split()), len(wordings)) for text in texts]
    others = np.not_equal.outer(same, same)
    return np.asarray((group.at > group.at[:, None]) & others & by_then[:, None] & by_then)


def _latest(features: Features) -> int:
    """Return until when something was said in time for a question: a day after what it asks about."""
    time = features.question.time
    return (time.moment if time and time.kind == "then" else features.question.asked_at) + _DAY


def _fits(features: Features, signs: Sequence[Signs]) -> _Floats:
    """Return 1 where a statement holds a value of a kind that is asked for, one half where any would do."""
    _, wanted = asked_for(features.question.text)
    if not wanted.any():
        return np.full(len(signs), 0.5)
    kinds = np.reshape([one.kinds for one in signs], (len(signs), len(KINDS)))
    return np.asarray(kinds @ wanted > 0, np.float64)


def _for_a_while(features: Features, group: Statements, texts: Sequence[str]) -> tuple[_Floats, _Floats]:
    """Return which statements hold for a while that covers the time asked about, and which for another."""
    time = features.question.time
    moment = time.moment if time else features.question.asked_at
    holds, held = np.zeros(len(group)), np.zeros(len(group))
    for place, one in enumerate(group.signs):
        if one.single[_TEMPORARY]:
            start, end = validity(texts[place], int(group.at[place]))
            (holds if start <= moment <= end + _DAY else held)[place] = 1
    return holds, held
