"""Estimates the probability that nothing in the memory answers a question, by two logistic regressions.

Either the subject of the question does not occur in the memory, or it does but the point asked for is
missing. Both use the same features: how far the best messages stand out, which share of the question's words
the memory knows, and whether the best messages have a value of the kind asked for. Learned from questions
about other memories and from unanswered questions close to what was said. Pure functions on numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.outdated import Judged
from jiyi.long_term.recall.pairs import asked_for
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.weights import MISSING, NOTHING, Weights, chance, dot
from jiyi.records import DOUBT
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait, language

__all__ = ["NOTHING_SIGNS", "nothing_relevant", "nothing_signs"]

_Floats = NDArray[np.float64]
_TEN = 10
_ASSISTANT, _TOOL = ROLES.index("assistant"), ROLES.index("tool")

NOTHING_SIGNS = (
    *("best", "ahead of the second", "ahead of ten", "share of the best", "spread"),
    *("best by the ranking", "ranking: ahead of the second", "ranking: ahead of ten"),
    *("cosine of the nearest", "apart of the nearest", "nearness of the nearest", "nearness of three"),
    *("cosine of the best", "nearness of the best", "distance of the question"),
    *("unknown words", "unknown words, same language", "cover of the best", "cover of three"),
    *("cover of ten", "widest cover", "cover of the best, same language", "cover of three, same language"),
    *("best fits", "three fit", "all fit", "any fits", "a kind is asked for"),
    *(f"asks: {name}" for name in ("clock", "date", "money", "amount", "code", "who", "where", "yes or no")),
    *("other language", "best is of the assistant", "best is of a tool", "best asks", "best supposes"),
    *("best reports", "words", "messages", "a speaker is named", "best is of the named", "of the named"),
    *("asks of then", "asks of any time"),
)
"""The names of the features."""


def nothing_relevant(
    ranked: Ranked,
    judged: Judged,
    *,
    nothing: Weights = NOTHING,
    missing: Weights = MISSING,
) -> float:
    """Return the probability, 0 to 1, that no candidate answers; 1 without candidates.

    Rows that only ask the question again do not answer it, however well they match.
    """
    if asked := judged.rows[judged.asking].tolist():
        ranked = replace(ranked, rows=ranked.rows[~np.isin(ranked.rows, asked)])
    if not len(ranked.rows):
        return 1.0
    signs = nothing_signs(ranked, judged, asked)
    strange, lacking = (chance(dot(weights, NOTHING_SIGNS, signs)) for weights in (nothing, missing))
    # A row with all words of the question is about its subject, even in a very small memory.
    strange *= 1 - signs[NOTHING_SIGNS.index("widest cover")] ** 2
    # Without vectors, which new messages lack for a while, the judgement is uncertain.
    most = 1.0 if ranked.features.distance else DOUBT
    return min(most, float(1 - (1 - strange) * (1 - lacking)))


def nothing_signs(ranked: Ranked, judged: Judged, asked: Sequence[int] = ()) -> _Floats:
    """Return the features in the order of `NOTHING_SIGNS`, for at least one ranked row."""
    table, features = ranked.table, ranked.features
    scores = ranked.scores.astype(np.float64)
    base = scores[ranked.rows]
    scores[judged.rows] = judged.scores
    order = ranked.rows[np.argsort(-scores[ranked.rows], kind="stable")]
    best = int(order[0])
    last = scores[order]
    share = np.exp(last - last[0])
    share /= share.sum()
    time = features.question.time
    return np.array(
        [
            *_leads(last),
            *(float(share[0]), float(-(share * np.log(share + 1e-9)).sum())),
            *_leads(base),
            *_meaning(features, order),
            *_words(ranked, order, judged, asked),
            *_kinds(features, order, judged),
            _other_language(features, judged),
            *_first(table, best),
            float(len(table.terms)),
            np.log1p(table.total),
            float(features.named),
            *_named(ranked, best),
            float(time is not None and time.kind == "then"),
            float(time is None),
        ]
    )


def _leads(falling: _Floats) -> tuple[float, float, float]:
    second = falling[1] if len(falling) > 1 else falling[0]
    return float(falling[0]), float(falling[0] - second), float(falling[0] - falling[:_TEN].mean())


def _meaning(features: Features, order: NDArray[np.intp]) -> list[float]:
    near, similar = features.nearness[order], features.similarity[order]
    nearest = np.sort(near)[::-1]
    most = (similar.max(), features.column("apart")[order].max(), nearest[0], nearest[:3].mean())
    return [*map(float, (*most, similar[0], near[0])), features.distance]


def _words(ranked: Ranked, order: NDArray[np.intp], judged: Judged, asked: Sequence[int]) -> list[float]:
    table = ranked.table
    rarity = table.idf / max(float(table.idf.sum()), 1e-9)
    has = table.words[order[:_TEN]] > 0
    told = np.delete(table.words, asked, axis=0) if len(asked) else table.words
    unknown = float(rarity[~told.any(axis=0)].sum())
    one, three, ten = (float(rarity[has[:rows].any(axis=0)].sum()) for rows in (1, 3, _TEN))
    same = 1.0 - _other_language(ranked.features, judged)
    return [unknown, unknown * same, one, three, ten, float((has @ rarity).max()), one * same, three * same]


def _other_language(features: Features, judged: Judged) -> float:
    """Return 1 if the question is in another language than most of the best messages, else 0."""
    asked = language(features.question.text)
    told = [one.chinese for one in judged.signs]
    return float(bool(told) and (asked == "zh") != (2 * sum(told) > len(told)))


def _kinds(features: Features, order: NDArray[np.intp], judged: Judged) -> list[float]:
    which, wanted = asked_for(features.question.text)
    place = {row: number for number, row in enumerate(judged.rows.tolist())}
    found = [judged.signs[place[row]].kinds for row in order[:_TEN].tolist() if row in place]
    fits = [float(kinds @ wanted > 0) for kinds in found] or [0.0]
    asked = float(wanted.any())
    part = [fits[0], sum(fits[:3]) / len(fits[:3]), sum(fits) / len(fits), max(fits)]
    return [*(value if asked else 0.5 for value in part), asked, *which.tolist()]


def _first(table: Candidates, best: int) -> list[float]:
    traits, role = int(table.traits[best]), int(table.roles[best])
    of = (Trait.MOSTLY_ASKS, Trait.SUPPOSES, Trait.REPORTS)
    return [float(role == _ASSISTANT), float(role == _TOOL), *(float(bool(traits & one.value)) for one in of)]


def _named(ranked: Ranked, best: int) -> list[float]:
    """Return whether the named speaker said the best row, and by how much their best row beats the others'.

    The answer to a question about the wrong person is found with another speaker.
    """
    who = ranked.features.column("speaker")
    ranking = who[ranked.rows]
    mine, others = ranked.rows[ranking > 0], ranked.rows[ranking < 0]
    alike = ranked.scores - ranked.share("speaker")
    ahead = float(alike[mine].max() - alike[others].max()) if len(mine) and len(others) else 0.0
    return [float(who[best] > 0), ahead]
