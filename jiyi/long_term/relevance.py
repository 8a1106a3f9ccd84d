"""The floor of relevance: how likely a hit helps with a question."""

import math

from jiyi.long_term.recall.weights import PLAIN, WEIGHTS
from jiyi.records import Fact, Hit, Hits
from jiyi.text import analyse, query_terms
from jiyi.text.excerpt import densest

__all__ = ["relevant"]

_ONE_WORD_RELEVANCE = 0.6  # of a hit with one word of the question, unless the memory has no answer
_NEAR_DEVIATIONS = 1.75  # above the mean similarity at which meaning alone makes a hit relevant
_NEAR_NOTE, _NEAR_IN_DIALOGUE, _MANY_HITS = 0.5, 1.0, 30  # the same for messages, if there are so many hits
_MAX_LAG = 6.0  # below the best hit up to which a message may be part of an existing answer
_MAX_WORD_LAG = 8.0  # the same in a dialogue if it has a word of the question
_SIGMOID_SLOPE = 4.0  # of the probabilities around these thresholds


def relevant(hits: Hits, question: str) -> list[float]:
    """Return for each hit the probability, 0 to 1, that it helps with the question.

    The more content words of the question a hit has, the likelier it helps; without any it must be more
    similar in meaning than the others. A message not far below the best hit may be part of the answer,
    too, as messages are ranked by what was said around them. If the memory probably has no answer, and in
    a dialogue far below the best hit, a hit must have half of the words or be far more similar.
    """
    wanted = frozenset(query_terms(question))
    best, doubtful = max((hit.score for hit in hits), default=0.0), hits.doubtful
    return [_relevance(hit, wanted, best, doubtful, len(hits) >= _MANY_HITS) for hit in hits]


def _relevance(hit: Hit, wanted: frozenset[str], best: float, doubtful: bool, many: bool) -> float:
    message, dialogue, lag = hit.kind == "message", "apart" in hit.why, best - hit.score
    near = _NEAR_DEVIATIONS
    if message and many and not doubtful:
        near = _NEAR_IN_DIALOGUE if dialogue else _NEAR_NOTE
    least = 0.0 if doubtful or (message and dialogue and lag > _MAX_WORD_LAG) else _ONE_WORD_RELEVANCE
    text = f"{hit.text} {hit.record.text}" if isinstance(hit.record, Fact) else hit.text
    count = len(wanted.intersection(analyse(densest(text, wanted))))
    return max(
        least + (1 - least) * count / len(wanted) if count else 0.0,  # all words: 1
        _sigmoid(_meaning_deviations(hit) - near),
        _sigmoid(_MAX_LAG - lag) if message and not doubtful else 0.0,
    )


def _meaning_deviations(hit: Hit) -> float:
    """Return a hit's similarity in meaning as deviations above the mean; notes have another feature of it."""
    for name, weights in (("apart", WEIGHTS), ("meaning", PLAIN)):
        if name in hit.why:
            return hit.why[name] / weights[name]
    return 0.0


def _sigmoid(points: float) -> float:
    return 1 / (1 + math.exp(-_SIGMOID_SLOPE * max(-50.0, points)))
