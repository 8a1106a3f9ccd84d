"""How likely a hit serves the question: the one place that decides what may stand in a window."""

from math import exp

from jiyi.long_term.recall.weights import PLAIN, WEIGHTS
from jiyi.records import Fact, Hit, Hits
from jiyi.text import analyse, query_terms

__all__ = ["relevant"]

_WORDS = 0.6  # of a hit that has a word of the question; with all of them 1
_NEAR = 1.75  # deviations above the mean nearness in meaning from which on meaning alone is enough
_NEARBY, _MANY = 0.5, 30  # the same of a message, where there are so many hits to compare it with
_BEHIND = 6.0  # points behind the best hit up to which a message is part of an answer that is there
_STEEP = 4.0  # of the probability around these


def relevant(hits: Hits, question: str) -> list[float]:
    """Return for each hit the probability, 0 to 1, that it serves the question.

    What has a content word of the question may serve it, the more of them the likelier; what
    has none must be near it in meaning, as compared with the other candidates. Messages are
    ranked by what was said around them, too: where an answer is likely to be there, those
    not far behind the best hit may be part of it.
    """
    wanted = frozenset(query_terms(question))
    best = max((hit.score for hit in hits), default=0.0)
    near = _NEARBY if len(hits) >= _MANY else _NEAR
    return [
        max(
            _by_words(hit, wanted),
            _above(_nearness(hit) - (near if hit.kind == "message" else _NEAR)),
            _above(hit.score - best + _BEHIND) if hit.kind == "message" and not hits.doubtful else 0.0,
        )
        for hit in hits
    ]


def _nearness(hit: Hit) -> float:
    """Return how many deviations above the mean a hit is near in meaning; notes have another sign of it."""
    for name, weights in (("apart", WEIGHTS), ("meaning", PLAIN)):
        if name in hit.why:
            return hit.why[name] / weights[name]
    return 0.0


def _by_words(hit: Hit, wanted: frozenset[str]) -> float:
    said = f"{hit.text} {hit.record.text}" if isinstance(hit.record, Fact) else hit.text
    found = len(wanted.intersection(analyse(said)))
    return _WORDS + (1 - _WORDS) * found / len(wanted) if found else 0.0


def _above(points: float) -> float:
    return 1 / (1 + exp(-_STEEP * max(-50.0, points)))
