"""Estimates which of the best messages are outdated at the time a question asks about, and reorders them.

A conversation may state a value several times: first, then changed, for one week only, by somebody else,
and changed back. The words of the question often match the first statement best. So the best messages
are compared in pairs (`jiyi.long_term.recall.pairs`), together with how well each matches the question,
and reordered by the result. Pure functions; all weights are learned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall import pairs
from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.question import DAY, asks_again, validity
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.weights import ORDER, PAIR, SUCCESSION, Weights, sigmoid, weighted_sum
from jiyi.records import SEARCHABLE
from jiyi.storage import ROLES
from jiyi.text import Trait

MAX_COMPARED = 16  # messages of a question
SURE = 0.6  # lowest probability for `Hit.outdated_by`
MAYBE = 0.35  # lowest probability for `Hit.maybe_outdated_by`
REORDER = 0.22  # lowest probability for moving the later message up: an error costs little
_REORDER_IF_CHANGED = 0.12  # the same if the question implies a change
_MAX_STATEMENT = 300  # characters; what is longer says many things, and no other message replaces them all
_MAX_LEAD = 5.0  # by which the score of the earlier may be higher: what hardly matches is no answer

_Floats = NDArray[np.float64]
_FAR_APART = 4.0  # deviations by which an answer stands out from the rest of a large memory
_MAX_REORDERED = 10  # messages of a question
_NON_STATEMENTS = ("greeting", "mostly_asks", "reports", "supposes")  # traits of messages that state nothing
_NOT_COMPARED = -9.0  # logit for pairs that are not compared
_MIN_LOGIT = -3.0  # pairs with a lower logit are treated as equally unlikely
_ROLE_INDEXES = np.array(
    [pairs.ROLE_NAMES.index(role) if role in pairs.ROLE_NAMES else 0 for role in ROLES], np.int64
)
_TEMPORARY = pairs.SCALARS.index("temporary")
_ASKS = pairs.SCALARS.index("mostly_asks")
_NON_STATEMENT_COLUMNS = [pairs.SCALARS.index(name) for name in _NON_STATEMENTS]

SUCCESSION_FEATURES = (
    *("pair", "pair, if likely", "earlier: score", "later: score", "lead of the later"),
    *("earlier: apart", "later: apart", "apart of the later", "earlier: cover", "later: cover"),
    *("cover of both", "earlier: place", "later: place", "meaning of both", "fits"),
    *("asked, not in the later", "asked, not in the later, alike"),
)
"""The features of an earlier and a later message that a question found."""

_TIMED_FEATURES = ("fits", "holds for a while", "held for a while")
ORDER_FEATURES = (
    "score",
    *(f"{time}: {name}" for time in ("now", "then") for name in _TIMED_FEATURES),
    *(f"now: {name}" for name in (*_NON_STATEMENTS, "assistant")),
)
"""The features of one message that give its place before the pairs are considered."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """The compared messages of a question; all arrays are in the order of ``rows``."""

    rows: NDArray[np.intp]  # rows of the table, best first by the ranking
    texts: Sequence[str]  # of each message
    outdated: _Floats  # probability that a later message has replaced the message
    successor: NDArray[np.intp]  # position of the later message, -1 for none
    order_features: _Floats  # (n, `ORDER_FEATURES`)
    scores: _Floats  # of the ranking, reassigned in the final order
    asks_about_time: bool
    repeats_question: NDArray[np.bool_]  # the message only asks the question again

    @property
    def score_changes(self) -> Mapping[int, float]:
        """What the reordering adds to each score, by row."""
        return dict(zip(self.rows.tolist(), (self.scores - self.order_features[:, 0]).tolist(), strict=True))

    def successor_rows(self, least: float, below: float = 2.0) -> dict[int, int]:
        """Return the successor of each row outdated with a probability from ``least`` to below ``below``."""
        if not self.asks_about_time:
            return {}
        chosen = (self.outdated >= least) & (self.outdated < below) & (self.successor >= 0)
        return {int(self.rows[i]): int(self.rows[self.successor[i]]) for i in np.flatnonzero(chosen)}


def rows_to_compare(ranked: Ranked) -> list[int]:
    """Return the rows of the best messages, best first, `MAX_COMPARED` at most."""
    messages = ranked.table.kinds[ranked.rows] == SEARCHABLE.index("message")
    return cast("list[int]", ranked.rows[messages][:MAX_COMPARED].tolist())


def compare_messages(
    ranked: Ranked,
    texts: Mapping[int, str],
    *,
    pair: Weights = PAIR,
    succession: Weights = SUCCESSION,
    order: Weights = ORDER,
) -> Comparison:
    """Compare messages with each other; ``texts`` has their text by row, best first.

    Their order stays if the question asks about no time: the first statement answers "who" or "why"
    as well as the last.
    """
    table, features = ranked.table, ranked.features
    rows, said = np.array(list(texts), np.intp), list(texts.values())
    repeats = np.array([asks_again(text, features.question.terms) for text in said], np.bool_)
    scores = ranked.scores[rows].astype(np.float64)
    replaced = np.zeros((len(rows), len(rows)))
    order_features = np.zeros((len(rows), len(ORDER_FEATURES)))
    order_features[:, 0] = final_scores = scores
    if features.question.time is not None:
        traits = table.traits[rows].tolist()
        group = build_statements(ranked, rows, list(map(pairs.extract_features, said, traits)))
        matrix = succession_features(features, group, rows, scores, pairs.replacement_logits(group, pair))
        likely = sigmoid(weighted_sum(succession, SUCCESSION_FEATURES, matrix))
        replaced = np.where(_comparable_pairs(features, group, said, repeats), likely, 0.0)
        order_features = _order_feature_matrix(features, group, scores, texts=said)
        order_scores = weighted_sum(order, ORDER_FEATURES, order_features)
        movable = np.where(scores >= scores[:, None] - _MAX_LEAD, replaced, 0.0)
        final_scores = reassign_scores(scores, _final_order(features, group, order_scores, movable))
    outdated = replaced.max(axis=1, initial=0.0)
    successor = replaced.argmax(axis=1) if len(rows) else np.zeros(0, np.intp)
    return Comparison(
        rows=rows,
        texts=said,
        outdated=outdated,
        successor=np.where(outdated > 0, successor, -1),
        order_features=order_features,
        asks_about_time=features.question.time is not None,
        scores=final_scores,
        repeats_question=repeats,
    )


def _final_order(features: Features, group: pairs.Statements, order: _Floats, replaced: _Floats) -> list[int]:
    """Return the positions of the first ten messages in their final order.

    Messages are sorted by ``order``. Then each message moves directly before the first of those that it
    has probably replaced; no other moves, since a later message is not in itself an answer. Messages
    after the time asked about come last.
    """
    time = features.question.time
    places: list[int] = np.argsort(-order[:_MAX_REORDERED], kind="stable").tolist()
    for later in sorted(places, key=lambda place: int(group.at[place])):
        # A message that asks reports no change: "isn't it on Tuesdays?"
        changed = time is not None and time.changed and not group.features[later].scalars[_ASKS]
        least = _REORDER_IF_CHANGED if changed else REORDER
        earlier = [place for place in places if replaced[place, later] >= least]
        first = min(map(places.index, earlier), default=len(places))
        if first < places.index(later):
            places.remove(later)
            places.insert(first, later)
    return sorted(places, key=(group.at > _latest_relevant_time(features)).__getitem__)


def reassign_scores(scores: _Floats, places: Sequence[int]) -> _Floats:
    """Give the highest scores to ``places`` in their order; the other messages keep their scores."""
    out = scores.copy()
    out[list(places)] = scores[: len(places)]
    return out


def build_statements(
    ranked: Ranked, rows: NDArray[np.intp], contents: Sequence[pairs.StatementFeatures]
) -> pairs.Statements:
    """Return the statements of some rows, as `pairs.replacement_logits` needs them."""
    table, features = ranked.table, ranked.features
    before = table.previous[rows]
    has_previous = before >= 0
    place = {row: number for number, row in enumerate(rows.tolist())}
    by_assistant = table.roles[before] == ROLES.index("assistant")
    asks = (table.traits[before] & Trait.ASKS_LAST.value) != 0
    return pairs.Statements(
        features=contents,
        vectors=features.vectors[rows].astype(np.float64),
        before=features.vectors[before].astype(np.float64) * has_previous[:, None],
        reply_to=np.array([place.get(row, -1) for row in before.tolist()], np.intp),
        after_assistant=(has_previous & by_assistant).astype(np.float64),
        after_question=(has_previous & asks).astype(np.float64),
        at=table.created_at[rows],
        session=table.session[rows].astype(np.int64),
        speaker=table.speaker[rows].astype(np.int64),
        role=_ROLE_INDEXES[table.roles[rows]],
        vector_count=features.vector_count,
    )


def succession_features(
    features: Features, group: pairs.Statements, rows: NDArray[np.intp], scores: _Floats, pair: _Floats
) -> _Floats:
    """Return (n, n, `SUCCESSION_FEATURES`); ``pair`` are the logits of the comparison of statements."""
    count = len(rows)
    logits = np.where(np.isinf(pair), _NOT_COMPARED, pair)
    lag = scores - scores.max(initial=-np.inf)
    apart, cover = features.column("apart")[rows].astype(np.float64), features.cover[rows].astype(np.float64)
    place = np.arange(count) / MAX_COMPARED
    near = features.nearness[rows].astype(np.float64)
    # Minus the mean of few vectors, none of them can be far from the others or near the question.
    few = 1 / max(group.vector_count - 1, 1)
    apart, near = apart + _FAR_APART * few, (near + few) / (1 + few)
    fits = _has_asked_kind(features, group)
    columns = [
        *(logits, np.maximum(logits, _MIN_LOGIT)),
        *(lag[:, None], lag, lag - lag[:, None]),
        *(apart[:, None], apart, apart - apart[:, None]),
        *(cover[:, None], cover, np.minimum(cover[:, None], cover)),
        *(place[:, None], place),
        *(np.minimum(values[:, None], values) for values in (near, fits)),
        *_missing_question_terms(features, group),
    ]
    return pairs.stack_columns(columns, count)


def _missing_question_terms(features: Features, group: pairs.Statements) -> tuple[_Floats, _Floats]:
    """Return the share of the question's words that an earlier statement has and a later one lacks.

    The second array is this share multiplied by the similarity of the two: of two things stated in the
    same words, the question asks for the one that it names.
    """
    wanted = features.question.terms
    has = group.has_term[:, [group.terms[term] for term in wanted if term in group.terms]]
    missing = has @ (1 - has.T) / max(len(wanted), 1)
    return missing, missing * np.maximum(group.cosines[: len(group), : len(group)], 0)


def _order_feature_matrix(
    features: Features, group: pairs.Statements, scores: _Floats, *, texts: Sequence[str]
) -> _Floats:
    """Return (n, `ORDER_FEATURES`)."""
    time = features.question.time
    kind = time.kind if time else ""
    timed = [_has_asked_kind(features, group), *_temporary_validity(features, group, texts)]
    by_assistant = group.role == pairs.ROLE_NAMES.index("assistant")
    non_statements = [*group.scalars[:, _NON_STATEMENT_COLUMNS].T, by_assistant]
    columns = [scores, *(column * (kind == name) for name in ("now", "then") for column in timed)]
    return np.stack([*columns, *(column * (kind == "now") for column in non_statements)], axis=1)


def _comparable_pairs(
    features: Features, group: pairs.Statements, texts: Sequence[str], repeats: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return (n, n): whether j may replace i: if it is later, in other words, and not the question again.

    Both must be before the time asked about, short enough to say one thing, and have vectors, since
    words alone do not show whether two statements are about the same thing.
    """
    by_then = group.at <= _latest_relevant_time(features)
    wordings: dict[str, int] = {}
    wording = [wordings.setdefault(" ".join(text.casefold().split()), len(wordings)) for text in texts]
    differ = np.not_equal.outer(wording, wording)
    brief = np.array([len(text) <= _MAX_STATEMENT for text in texts], np.bool_)
    ready = by_then & brief & group.vectors.any(axis=1)
    return np.asarray((group.at > group.at[:, None]) & differ & ready[:, None] & ready & ~repeats)


def _latest_relevant_time(features: Features) -> int:
    """Return the latest time of relevant messages: a day after the time that a question asks about."""
    time = features.question.time
    return (time.moment if time and time.kind == "then" else features.question.asked_at) + DAY


def _has_asked_kind(features: Features, group: pairs.Statements) -> _Floats:
    """Return whether each statement has a value of a kind asked for; 0.5 for all if none is asked for."""
    _, wanted = pairs.classify_question(features.question.text)
    if not wanted.any():
        return np.full(len(group), 0.5)
    return np.asarray(group.kinds @ wanted > 0, np.float64)


def _temporary_validity(
    features: Features, group: pairs.Statements, texts: Sequence[str]
) -> tuple[_Floats, _Floats]:
    """Return which temporary statements are valid at the time asked about, and which are not."""
    time = features.question.time
    moment = time.moment if time else features.question.asked_at
    valid, invalid = np.zeros(len(group)), np.zeros(len(group))
    for place in np.flatnonzero(group.scalars[:, _TEMPORARY]).tolist():
        start, end = validity(texts[place], int(group.at[place]))
        (valid if start <= moment <= end + DAY else invalid)[place] = 1
    return valid, invalid
