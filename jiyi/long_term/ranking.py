"""Ranking: what text search and vector search found, made one order. Pure functions."""

from collections.abc import Mapping, Sequence
from math import fsum, sqrt

from jiyi.records import Kind, Match

__all__ = ["WEIGHTS", "Key", "fuse"]

Key = tuple[Kind, str]
"""Kind and id of a record."""

WEIGHTS: Mapping[str, float] = {"text": 1.0, "vector": 1.0}
"""How much a standard deviation in each index counts."""

_UNFOUND: Mapping[str, float] = {"text": 0.0}  # BM25 of a record without any of the words


def fuse(
    found: Mapping[str, Sequence[Match]], weights: Mapping[str, float] = WEIGHTS
) -> list[tuple[Key, float, dict[str, float]]]:
    """Fuse the answers of several indexes by the weighted sum of their standard scores.

    Scores of each index are brought to mean 0 and deviation 1 over all candidates, so that
    BM25 and cosines can be added. A record the text index did not find has the BM25 of no
    word, 0: being the only one with a rare word brings a record to the front. One that the
    vector index did not find gets that index's lowest score. Returns (key, score, share of
    each index), best first; ties go by key, so that the order does not depend on the input's.

    Source: z-score normalisation before CombSUM, Montague & Aslam, "Relevance Score
    Normalization for Metasearch", CIKM 2001.
    """
    shares: dict[Key, dict[str, float]] = {}
    for matches in found.values():
        for match in matches:
            shares[match.kind, match.id] = {}
    for name, matches in found.items():
        if not matches:
            continue
        scores = {(m.kind, m.id): m.score for m in matches}
        lowest = min(*scores.values(), _UNFOUND.get(name, matches[0].score))
        standard = _standard([scores.get(key, lowest) for key in shares])
        for parts, score in zip(shares.values(), standard, strict=True):
            parts[name] = weights[name] * score
    ranked = [(key, fsum(parts.values()), parts) for key, parts in shares.items()]
    ranked.sort(key=lambda item: (-item[1], item[0]))
    return ranked


def _standard(scores: Sequence[float]) -> list[float]:
    mean = fsum(scores) / len(scores)
    deviation = sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores))
    return [(score - mean) / deviation if deviation else 0.0 for score in scores]
