"""The best messages judged together: which go up, which are outdated, and whether the answer is there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from jiyi.long_term.recall.answerable import answer_signs, unanswered
from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.outdated import compare, lifted, successors
from jiyi.long_term.recall.question import is_role
from jiyi.long_term.recall.ranking import Ranked
from jiyi.storage import ROLES, Candidates

__all__ = ["Judgement", "judge", "with_an_assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of comparing the best messages; by their rows in the table."""

    lifts: Mapping[int, float] = field(default_factory=dict)  # points to add to scores
    outdated: Mapping[int, int] = field(default_factory=dict)  # a message and the one that took its place
    unanswered: float = 0.0  # probability that they lack the point asked for


def judge(table: Candidates, features: Features, ranked: Ranked, texts: Mapping[int, str]) -> Judgement:
    """Compare messages, given by row with their words, best first.

    Nothing is judged where the question asks about no time: what was said first is as good an
    answer to "who" or "why" as what was said last. Only of now a message is called outdated,
    and only among messages to an assistant an answer is missed: people tell each other less
    exactly what is asked.
    """
    time, rows = features.question.time, list(texts)
    if time is None or not rows:
        return Judgement()
    scores = ranked.scores[rows].astype(np.float64)
    pairs = compare(table, features, scores, rows, list(texts.values()))
    logits = pairs.logits()
    lifts = lifted(scores, logits) - scores
    if time.kind != "now":
        return Judgement(lifts=_by_row(rows, lifts))
    found = successors(pairs, logits)
    missing = 0.0
    if with_an_assistant(table):
        order = np.argsort(-(scores + lifts), kind="stable")
        missing = unanswered(
            answer_signs(
                table,
                features,
                pairs.said_again(order.tolist()),
                [rows[i] for i in order],
                [texts[rows[i]] for i in order],
            )
        )
    return Judgement(
        lifts=_by_row(rows, lifts),
        outdated={rows[i]: rows[j] for i, j in enumerate(found) if j is not None},
        unanswered=missing,
    )


def with_an_assistant(table: Candidates) -> bool:
    """Say whether the messages were said to an assistant, not by people to each other."""
    speakers = np.unique(table.speaker[table.roles == ROLES.index("assistant")])
    return len(speakers) > 0 and all(place >= 0 and is_role(table.speakers[place]) for place in speakers)


def _by_row(rows: list[int], lifts: np.ndarray) -> dict[int, float]:
    return {row: float(lift) for row, lift in zip(rows, lifts, strict=True) if lift > 0}
