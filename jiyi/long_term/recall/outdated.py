"""Judges which of the best messages is valid at the time asked about, and which are outdated.

A value may have been stated several times: first, changed, for a week only, by somebody else, changed
back. The words of the question often match the first statement best. So the best messages are
compared in pairs (`jiyi.long_term.recall.pairs`), together with how well each matches the question, and
reordered by the result. Pure functions; all weights are learned.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall import pairs
from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.question import DAY, asks_again, validity
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.weights import ORDER, PAIR, SUCCESSION, Weights, chance, dot
from jiyi.records import SEARCHABLE
from jiyi.storage import ROLES
from jiyi.text import Trait

__all__ = [
    "JUDGED",
    "LIFTED",
    "MAYBE",
    "ORDER_SIGNS",
    "SUCCESSION_SIGNS",
    "SURE",
    "Judged",
    "dealt",
    "in_order",
    "judge",
    "judged_rows",
    "statements",
    "succession_signs",
]

JUDGED = 16  # best messages that are compared
SURE = 0.6  # least probability of an outdated message
MAYBE = 0.35  # least probability of one that may be outdated
LIFTED = 0.22  # least probability at which the later message is put above the earlier: an error costs little
_LIFTED_IF_CHANGED = 0.12  # the same if the question implies a change

_Floats = NDArray[np.float64]
_FAR_APART = 4.0  # deviations by which an answer stands out from the rest of a large memory
_REORDERED = 10  # best messages that are reordered
_FORCE = ("greeting", "mostly_asks", "reports", "supposes")  # traits of messages that state nothing
_OUTSIDE = -9.0  # logit for pairs that are not compared
_UNLIKELY = -3.0  # logit below which all are equally unlikely
_SPEAKER_OF = np.array(
    [pairs.SPEAKERS.index(role) if role in pairs.SPEAKERS else 0 for role in ROLES], np.int64
)
_TEMPORARY = pairs.SINGLE.index("temporary")
_ASKS = pairs.SINGLE.index("mostly_asks")
_FORCES = [pairs.SINGLE.index(name) for name in _FORCE]

SUCCESSION_SIGNS = (
    *("pair", "pair, if likely", "earlier: score", "later: score", "lead of the later"),
    *("earlier: apart", "later: apart", "apart of the later", "earlier: cover", "later: cover"),
    *("cover of both", "earlier: place", "later: place", "meaning of both", "fits"),
    *("asked, not in the later", "asked, not in the later, alike"),
)
"""The features of an earlier and a later message that a question found."""

_TIMED = ("fits", "holds for a while", "held for a while")
ORDER_SIGNS = (
    "score",
    *(f"{time}: {name}" for time in ("now", "then") for name in _TIMED),
    *(f"now: {name}" for name in (*_FORCE, "assistant")),
)
"""The features by which the best messages are ordered before they are compared in pairs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """The judged best messages of a question; all fields are in the order of ``rows``."""

    rows: NDArray[np.intp]  # rows of the table, best first by the ranking
    signs: Sequence[pairs.Signs]
    outdated: _Floats  # probability that a later message has replaced it
    successor: NDArray[np.intp]  # position of that message, -1 for none
    order: _Floats  # (n, `ORDER_SIGNS`)
    scores: _Floats  # of the ranking, reassigned after the reordering
    timed: bool  # the question asks about a time
    asking: NDArray[np.bool_]  # messages that only ask the question again

    @property
    def lifts(self) -> Mapping[int, float]:
        """What the reordering adds to each score, by row."""
        lifts = self.scores - self.order[:, 0]
        return dict(zip(self.rows.tolist(), lifts.tolist(), strict=True))

    def marked(self, above: float, below: float = 2.0) -> dict[int, int]:
        """Return the successor rows of the rows outdated with a probability from ``above`` to ``below``."""
        chosen = self.timed & (self.outdated >= above) & (self.outdated < below) & (self.successor >= 0)
        return {int(self.rows[i]): int(self.rows[self.successor[i]]) for i in np.flatnonzero(chosen)}


def judged_rows(ranked: Ranked) -> list[int]:
    """Return the rows of the best messages, best first, `JUDGED` at most."""
    messages = ranked.table.kinds[ranked.rows] == SEARCHABLE.index("message")
    return cast("list[int]", ranked.rows[messages][:JUDGED].tolist())


def judge(
    ranked: Ranked,
    texts: Mapping[int, str],
    *,
    pair: Weights = PAIR,
    succession: Weights = SUCCESSION,
    order: Weights = ORDER,
) -> Judged:
    """Compare the best messages, whose texts are given by row, best first.

    If the question asks about no time their order stays: the first statement answers "who" or
    "why" as well as the last.
    """
    table, features = ranked.table, ranked.features
    rows = np.array(list(texts), np.intp)
    known = table.traits[rows].tolist()
    asking = np.array([asks_again(text, features.question.terms) for text in texts.values()], np.bool_)
    signs = [pairs.signs_of(text, own) for text, own in zip(texts.values(), known, strict=True)]
    scores = ranked.scores[rows].astype(np.float64)
    likely = np.zeros((len(rows), len(rows)))
    made = np.zeros((len(rows), len(ORDER_SIGNS)))
    made[:, 0] = last = scores
    if features.question.time is not None:
        group = statements(ranked, rows, signs)
        found = succession_signs(features, group, rows, scores, pairs.replaced(group, pair))
        chances = chance(dot(succession, SUCCESSION_SIGNS, found))
        likely = np.where(_compared(features, group, texts.values(), asking), chances, 0.0)
        made = _order_signs(features, group, scores, texts=list(texts.values()))
        last = dealt(scores, in_order(features, group, dot(order, ORDER_SIGNS, made), likely))
    outdated = likely.max(axis=1, initial=0.0)
    successor = likely.argmax(axis=1) if len(rows) else np.zeros(0, np.intp)
    return Judged(
        rows=rows,
        signs=signs,
        outdated=outdated,
        successor=np.where(outdated > 0, successor, -1),
        order=made,
        timed=features.question.time is not None,
        scores=last,
        asking=asking,
    )


def in_order(features: Features, group: pairs.Statements, order: _Floats, likely: _Floats) -> list[int]:
    """Return the positions of the first ten messages in their final order.

    A message moves directly before the first of those it has likely replaced, and nothing else
    moves: a later message is not in itself an answer. Messages after the time asked about
    come last.
    """
    time = features.question.time
    places: list[int] = np.argsort(-order[:_REORDERED], kind="stable").tolist()
    for later in sorted(places, key=lambda place: int(group.at[place])):
        # A message that asks reports no change: "isn't it on Tuesdays?"
        sooner = time is not None and time.changed and not group.signs[later].single[_ASKS]
        least = _LIFTED_IF_CHANGED if sooner else LIFTED
        taken = [place for place in places if likely[place, later] >= least]
        first = min(map(places.index, taken), default=len(places))
        if first < places.index(later):
            places.remove(later)
            places.insert(first, later)
    late = group.at > _latest(features)
    return sorted(places, key=lambda place: bool(late[place]))


def dealt(scores: _Floats, places: Sequence[int]) -> _Floats:
    """Return the scores reassigned to the first ones in their final order; the others keep theirs."""
    out = scores.copy()
    out[list(places)] = scores[: len(places)]
    return out


def statements(ranked: Ranked, rows: NDArray[np.intp], signs: Sequence[pairs.Signs]) -> pairs.Statements:
    """Return the input of the comparison of pairs for some rows of a table."""
    table, features = ranked.table, ranked.features
    before = table.previous[rows]
    there = before >= 0
    place = {row: number for number, row in enumerate(rows.tolist())}
    spoke = table.roles[before] == ROLES.index("assistant")
    asked = (table.traits[before] & Trait.ASKS_LAST.value) != 0
    return pairs.Statements(
        signs=signs,
        vectors=features.vectors[rows].astype(np.float64),
        before=features.vectors[before].astype(np.float64) * there[:, None],
        reply_to=np.array([place.get(row, -1) for row in before.tolist()], np.intp),
        after_assistant=(there & spoke).astype(np.float64),
        after_question=(there & asked).astype(np.float64),
        at=table.created_at[rows],
        session=table.session[rows].astype(np.int64),
        speaker=table.speaker[rows].astype(np.int64),
        role=_SPEAKER_OF[table.roles[rows]],
        among=features.among,
    )


def succession_signs(
    features: Features, group: pairs.Statements, rows: NDArray[np.intp], scores: _Floats, pair: _Floats
) -> _Floats:
    """Return (n, n, `SUCCESSION_SIGNS`): how well two messages match the question, and their comparison."""
    count = len(rows)
    logits = np.where(np.isinf(pair), _OUTSIDE, pair)
    lag = scores - scores.max(initial=-np.inf)
    apart, cover = features.column("apart")[rows].astype(np.float64), features.cover[rows].astype(np.float64)
    place = np.arange(count) / JUDGED
    near = features.nearness[rows].astype(np.float64)
    # Among few vectors none can stand far out, and none is near minus their mean.
    few = 1 / max(group.among - 1, 1)
    apart, near = apart + _FAR_APART * few, (near + few) / (1 + few)
    fits = _fits(features, group.signs)
    columns = [
        *(logits, np.maximum(logits, _UNLIKELY)),
        *(lag[:, None], lag, lag - lag[:, None]),
        *(apart[:, None], apart, apart - apart[:, None]),
        *(cover[:, None], cover, np.minimum(cover[:, None], cover)),
        *(place[:, None], place),
        *(np.minimum(values[:, None], values) for values in (near, fits)),
        *_asked(features, group),
    ]
    return pairs.stacked(columns, count)


def _asked(features: Features, group: pairs.Statements) -> tuple[_Floats, _Floats]:
    """Return the share of the question's words that an earlier statement has and a later one lacks.

    Once as it is, and once multiplied by the similarity of the two: of two things stated in the same
    words, the question asks for the one that it names.
    """
    wanted = features.question.terms
    has = np.array([[float(term in one.terms) for term in wanted] for one in group.signs])
    has = has.reshape(len(group), len(wanted))
    missing = has @ (1 - has.T) / max(len(wanted), 1)
    return missing, missing * np.maximum(group.cosines[: len(group), : len(group)], 0)


def _order_signs(
    features: Features, group: pairs.Statements, scores: _Floats, *, texts: Sequence[str]
) -> _Floats:
    """Return (n, `ORDER_SIGNS`)."""
    time = features.question.time
    kind = time.kind if time else ""
    timed = [_fits(features, group.signs), *_for_a_while(features, group, texts)]
    single = np.reshape([one.single for one in group.signs], (len(group), len(pairs.SINGLE)))
    force = [*single[:, _FORCES].T, group.role == pairs.SPEAKERS.index("assistant")]
    columns = [scores, *(column * (kind == name) for name in ("now", "then") for column in timed)]
    return np.stack([*columns, *(column * (kind == "now") for column in force)], axis=1)


def _compared(
    features: Features, group: pairs.Statements, texts: Iterable[str], asking: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which pairs are compared: a later message in other words, both before the time asked about.

    Both need vectors, since words alone do not show whether two statements are about the same thing. A
    repetition of the question is no statement.
    """
    by_then = group.at <= _latest(features)
    wordings: dict[str, int] = {}
    same = [wordings.setdefault(" ".join(text.casefold().split()), len(wordings)) for text in texts]
    others = np.not_equal.outer(same, same)
    ready = by_then & group.vectors.any(axis=1)
    return np.asarray((group.at > group.at[:, None]) & others & ready[:, None] & ready & ~asking)


def _latest(features: Features) -> int:
    """Return the latest time of relevant messages: a day after the time that a question asks about."""
    time = features.question.time
    return (time.moment if time and time.kind == "then" else features.question.asked_at) + DAY


def _fits(features: Features, signs: Sequence[pairs.Signs]) -> _Floats:
    """Return 1 for statements with a value of a kind that is asked for; 0.5 if the question wants no kind."""
    _, wanted = pairs.asked_for(features.question.text)
    if not wanted.any():
        return np.full(len(signs), 0.5)
    kinds = np.reshape([one.kinds for one in signs], (len(signs), len(pairs.KINDS)))
    return np.asarray(kinds @ wanted > 0, np.float64)


def _for_a_while(
    features: Features, group: pairs.Statements, texts: Sequence[str]
) -> tuple[_Floats, _Floats]:
    """Return which temporary statements are valid at the time asked about, and which at another."""
    time = features.question.time
    moment = time.moment if time else features.question.asked_at
    holds, held = np.zeros(len(group)), np.zeros(len(group))
    for place, one in enumerate(group.signs):
        if one.single[_TEMPORARY]:
            start, end = validity(texts[place], int(group.at[place]))
            (holds if start <= moment <= end + DAY else held)[place] = 1
    return holds, held
