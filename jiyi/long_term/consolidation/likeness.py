"""Which texts are about the same: groups around a leader, by vectors and by words. No I/O.

A text joins the leader it is most like, if it is like enough; else it leads a group of its own
(leader clustering, Hartigan 1975, chapter 3). Leaders never move, so a group that was found once
takes in later texts by the same measure.

Two texts are alike as far as

* their words: the cosine of their sets of search terms, rare terms counting more (a term of ``df``
  out of n texts weighs log(1 + n / df)); `_WORDS_ENOUGH` is enough;
* their vectors, where both have one and there are at least `_VECTORS_FROM` of them: the cosine of
  what is left after the mean of all was taken off (vectors of one language lie close together
  whatever they say), and half of the cosine of their words; `_BOTH_ENOUGH` is enough.

The numbers were chosen on hand-written episodes of ten themes in each language, with the bundled
model; docs/consolidation.md gives the figures.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from jiyi.text import analyse

__all__ = ["Likeness", "group_around"]

_WORDS_ENOUGH = 0.15
_BOTH_ENOUGH = 0.25
_SHARE_OF_WORDS = 0.5
_VECTORS_FROM = 20  # the mean of fewer is the mean of a theme rather than that of a language
_LONGEST = 2_000  # characters of a text that are read

_Floats = NDArray[np.float32]
_Postings = Mapping[str, tuple[NDArray[np.intp], _Floats]]


class Likeness:
    """Some texts that can be compared with each other.

    Args:
        texts: of one language.
        vectors: one row a text, of length 1; a row of zeros for a text that has none yet.
    """

    def __init__(self, texts: Sequence[str], vectors: _Floats | None = None) -> None:
        self._terms = [frozenset(analyse(text[:_LONGEST])) for text in texts]
        self._postings = _postings(self._terms)
        self._vectors = None if vectors is None else _centred(vectors)
        self._known = np.zeros(len(texts), np.bool_)  # which texts have a vector that is of use
        if self._vectors is not None:
            self._known[:] = np.any(self._vectors, axis=1)

    def to_all(self, place: int) -> _Floats:
        """Return how alike a text is to each of the texts: 1 and more means alike enough."""
        words = np.zeros(len(self._terms), np.float32)
        for term in sorted(self._terms[place]):  # in one order: sums come out the same in every process
            rows, weights = self._postings[term]
            words[rows] += weights * weights[np.searchsorted(rows, place)]
        scores: _Floats = words / np.float32(_WORDS_ENOUGH)
        if self._vectors is not None and self._known[place]:
            both = (self._vectors @ self._vectors[place] + _SHARE_OF_WORDS * words) / _BOTH_ENOUGH
            scores = np.maximum(scores, np.where(self._known, both, 0), dtype=np.float32)
        return scores


def group_around(
    likeness: Likeness, leaders: Sequence[int], rest: Sequence[int], at_least: int
) -> dict[int, list[int]]:
    """Return the members of each group that has any, by the place of its leader.

    Those of ``rest`` that are like a leader join the one they are most like; of the others, in
    their order, groups of ``at_least`` come to be, led by their first. This is repeated until
    nothing changes: called again with the new leaders and what is left, it finds nothing.
    """
    groups: dict[int, list[int]] = {leader: [] for leader in leaders}
    left, before = list(rest), -1
    while len(left) != before:
        before = len(left)
        alone = [place for place in left if not _join(place, groups, likeness)]
        small: dict[int, list[int]] = {}
        for place in alone:
            if not _join(place, small, likeness):
                small[place] = [place]
        grown = {leader: members for leader, members in small.items() if len(members) >= at_least}
        groups |= grown
        taken = {place for members in grown.values() for place in members}
        left = [place for place in alone if place not in taken]
    return {leader: members for leader, members in groups.items() if members}


def _join(place: int, groups: dict[int, list[int]], likeness: Likeness) -> bool:
    """Put a text into the group whose leader it is most like, the earlier of equal ones."""
    if not groups:
        return False
    leaders = np.fromiter(groups, np.intp, len(groups))
    scores = likeness.to_all(place)[leaders]
    best = int(scores.argmax())
    if scores[best] < 1:
        return False
    groups[int(leaders[best])].append(place)
    return True


def _postings(texts: Sequence[frozenset[str]]) -> _Postings:
    """Return for each term the texts that have it, ascending, and its weight there."""
    rows: dict[str, list[int]] = defaultdict(list)
    for place, terms in enumerate(texts):
        for term in terms:
            rows[term].append(place)
    idf = {term: math.log(1 + len(texts) / len(places)) for term, places in rows.items()}
    lengths = [math.sqrt(math.fsum(idf[term] ** 2 for term in terms)) for terms in texts]
    return {
        term: (
            np.array(places, np.intp),
            np.array([idf[term] / lengths[place] for place in places], np.float32),
        )
        for term, places in rows.items()
    }


def _centred(vectors: _Floats) -> _Floats | None:
    known = np.any(vectors, axis=1, keepdims=True)
    if known.sum() < _VECTORS_FROM:
        return None
    centred = np.where(known, vectors - vectors[known[:, 0]].mean(axis=0), 0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    return cast("_Floats", (centred / np.maximum(lengths, 1e-9)).astype(np.float32))
