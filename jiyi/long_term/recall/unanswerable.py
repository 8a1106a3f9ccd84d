"""Estimates the probability that nothing in the memory answers a question, by two logistic regressions.

One estimates whether the subject of the question is unknown, the other whether the subject is known but
the point asked for is missing. Both use the same features: how far the best messages stand out, which share
of the question's words the memory has, and whether the best messages have a value of the kind asked for.
They are learned from questions about other memories and from unanswered ones about this. Pure functions.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jiyi.long_term.recall.features import Features
from jiyi.long_term.recall.outdated import Comparison
from jiyi.long_term.recall.pairs import classify_question, extract_values
from jiyi.long_term.recall.ranking import Ranked
from jiyi.long_term.recall.weights import MISSING, NOTHING, Weights, sigmoid, weighted_sum
from jiyi.records import DOUBT
from jiyi.storage import ROLES, Candidates
from jiyi.text import Trait, language

_Floats = NDArray[np.float64]
_FIRST = 10  # messages
_ROLES = (ROLES.index("assistant"), ROLES.index("tool"))
_TRAITS = (Trait.MOSTLY_ASKS, Trait.SUPPOSES, Trait.REPORTS)

NOTHING_FEATURES = (
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
    ranked: Ranked, compared: Comparison, *, nothing: Weights = NOTHING, missing: Weights = MISSING
) -> float:
    """Return the probability, 0 to 1, that no candidate answers; 1 without candidates.

    Rows that only ask the question again do not answer it, however well they match.
    """
    if repeats := compared.rows[compared.repeats_question].tolist():
        ranked = replace(ranked, rows=ranked.rows[~np.isin(ranked.rows, repeats)])
    if not len(ranked.rows):
        return 1.0
    features = nothing_features(ranked, compared, repeats)
    logits = (weighted_sum(weights, NOTHING_FEATURES, features) for weights in (nothing, missing))
    unknown_subject, missing_point = map(sigmoid, logits)
    # A row with all words of the question is about its subject, even in a very small memory.
    unknown_subject *= 1 - features[NOTHING_FEATURES.index("widest cover")] ** 2
    # Without vectors, which new messages lack for a while, the estimate is uncertain.
    most = 1.0 if ranked.features.distance else DOUBT
    return min(most, float(1 - (1 - unknown_subject) * (1 - missing_point)))


def nothing_features(ranked: Ranked, compared: Comparison, repeats: Sequence[int] = ()) -> _Floats:
    """Return `NOTHING_FEATURES` of at least one ranked row; ``repeats`` are rows that repeat the question."""
    table, features = ranked.table, ranked.features
    scores = ranked.scores.astype(np.float64)
    base = scores[ranked.rows]
    scores[compared.rows] = compared.scores
    order = ranked.rows[np.argsort(-scores[ranked.rows], kind="stable")]
    best = int(order[0])
    final = scores[order]
    share = np.exp(final - final[0])
    share /= share.sum()
    languages = [language(text) for text in compared.texts]
    most = "zh" if 2 * languages.count("zh") > len(languages) else "en"  # of the best messages
    other_language = float(bool(languages) and language(features.question.text) != most)
    time = features.question.time
    return np.array(
        [
            *_leads(final),
            *(float(share[0]), float(-(share * np.log(share + 1e-9)).sum())),
            *_leads(base),
            *_meaning(features, order),
            *_words(table, order, 1.0 - other_language, repeats),
            *_kinds(features, order, compared),
            other_language,
            *(float(table.roles[best] == role) for role in _ROLES),
            *(float(table.traits[best] & trait.value != 0) for trait in _TRAITS),
            float(len(table.terms)),
            np.log1p(table.total),
            float(features.names_speaker),
            *_named(ranked, best),
            float(time is not None and time.kind == "then"),
            float(time is None),
        ]
    )


def _leads(falling: _Floats) -> tuple[float, float, float]:
    second = falling[1] if len(falling) > 1 else falling[0]
    return float(falling[0]), float(falling[0] - second), float(falling[0] - falling[:_FIRST].mean())


def _meaning(features: Features, order: NDArray[np.intp]) -> list[float]:
    near, similar = features.nearness[order], features.similarity[order]
    nearest = np.sort(near)[::-1]
    most = (similar.max(), features.column("apart")[order].max(), nearest[0], nearest[:3].mean())
    return [*map(float, (*most, similar[0], near[0])), features.distance]


def _words(table: Candidates, order: NDArray[np.intp], same: float, repeats: Sequence[int]) -> list[float]:
    rarity = table.idf / max(float(table.idf.sum()), 1e-9)
    has = table.words[order[:_FIRST]] > 0
    stored = np.delete(table.words, repeats, axis=0) if len(repeats) else table.words
    unknown = float(rarity[~stored.any(axis=0)].sum())
    one, three, ten = (np.logical_or.accumulate(has, axis=0)[[0, min(2, len(has) - 1), -1]] @ rarity).tolist()
    return [unknown, unknown * same, one, three, ten, float((has @ rarity).max()), one * same, three * same]


def _kinds(features: Features, order: NDArray[np.intp], compared: Comparison) -> list[float]:
    classes, wanted = classify_question(features.question.text)
    if not wanted.any():
        return [0.5, 0.5, 0.5, 0.5, 0.0, *classes.tolist()]
    text_of = dict(zip(compared.rows.tolist(), compared.texts, strict=True))
    found = [extract_values(text_of[row]).kinds for row in order[:_FIRST].tolist() if row in text_of]
    fits = (np.array(found) @ wanted > 0).astype(np.float64).tolist() if found else [0.0]
    return [fits[0], sum(fits[:3]) / len(fits[:3]), sum(fits) / len(fits), max(fits), 1.0, *classes.tolist()]


def _named(ranked: Ranked, best: int) -> list[float]:
    """Return whether the named speaker said the best row, and by how much their best row beats the others'.

    The answer to a question about the wrong person is found with another speaker.
    """
    if not ranked.features.names_speaker:
        return [0.0, 0.0]
    who = ranked.features.column("speaker")
    ranking = who[ranked.rows]
    mine, others = ranked.rows[ranking > 0], ranked.rows[ranking < 0]
    alike = ranked.scores - ranked.share("speaker")
    ahead = float(alike[mine].max() - alike[others].max()) if len(mine) and len(others) else 0.0
    return [float(who[best] > 0), ahead]
