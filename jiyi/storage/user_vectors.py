"""One user's vectors in memory: exact while they are few, one byte a number once they are many. No I/O."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_MOST", "Floats", "Ints", "Labels", "UserVectors"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Labels = NDArray[np.uint8]

EXACT_MOST = 100_000
"""Up to so many vectors (154 MB at 384 numbers) are held as they are; more are held rounded."""

_RESCORED = 100  # rounded vectors that are compared again exactly, at least
_RESCORED_PER_HIT = 3  # and for each record asked for
_STRIDE = 16_384  # rounded vectors compared at once: what they unfold to stays in the processor's cache


@dataclass(slots=True)
class UserVectors:
    """Vectors of length 1 by record, the parts of a record side by side.

    Arrays grow with room to spare, rows in use never change: a search goes on with its own
    view while rows are added behind it.

    Beyond `EXACT_MOST` a number takes one byte instead of four: the mean is taken off and the
    rest rounded to 255 steps. The nearest by the rounded vectors are then compared exactly,
    from disk.
    """

    generation: int = 0  # of the user's removals, when it was read
    last_part: int = 0  # newest row read
    size: int = 0  # rows in use
    parts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    docs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    labels: Labels = field(default_factory=lambda: np.empty(0, np.uint8))  # what a record is
    rows: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), np.float32))  # float32 or int8
    mean: Floats | None = None  # taken off before rounding; None while rows are exact
    step: float = 1.0  # what one step of a rounded number stands for
    dims: int = 0  # numbers in a vector

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.parts.nbytes + self.docs.nbytes + self.labels.nbytes + self.rows.nbytes

    def append(self, parts: Ints, docs: Ints, labels: Labels, vectors: Floats) -> None:
        """Take in rows behind those that are there; ``parts`` ascend."""
        if self.mean is None and self.size + len(parts) > EXACT_MOST:
            self._begin_rounding(vectors)
        rows = vectors if self.mean is None else self._rounded(vectors)
        self.dims = vectors.shape[1]
        start, size = self.size, self.size + len(parts)
        if size > len(self.parts):
            room = size if start == 0 else max(size, start + start // 2)
            self.parts = _grown(self.parts, start, room)
            self.docs = _grown(self.docs, start, room)
            self.labels = _grown(self.labels, start, room)
            self.rows = _grown(self.rows if start else np.empty((0, rows.shape[1]), rows.dtype), start, room)
        self.parts[start:size], self.docs[start:size] = parts, docs
        self.labels[start:size], self.rows[start:size] = labels, rows
        self.size, self.last_part = size, int(parts[-1]) if len(parts) else self.last_part

    def view(self) -> "UserVectors":
        """Return the rows in use as they are now."""
        n = self.size
        return replace(
            self,
            parts=self.parts[:n],
            docs=self.docs[:n],
            labels=self.labels[:n],
            rows=self.rows[:n],
        )

    def nearest(
        self,
        vector: Floats,
        limit: int,
        *,
        labels: Collection[int] | None,
        allowed: Ints | None,
        fetch: Callable[[Ints], Floats],
    ) -> tuple[Ints, Floats]:
        """Return the nearest records of a `view` and their cosines, best first; newer ones win ties.

        Args:
            vector: of length 1.
            limit: how many records at most.
            labels: only records with one of these labels; None for all.
            allowed: only these records; None for all.
            fetch: gives the vectors of these parts, in their order.
        """
        keep = np.ones(self.size, np.bool_)
        if labels is not None:
            keep &= np.isin(self.labels, np.fromiter(labels, np.uint8))
        if allowed is not None:
            keep &= np.isin(self.docs, allowed)
        places = np.flatnonzero(keep)
        if not len(places):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if self.mean is None:
            scores = (
                (self.rows @ vector)[places] if 2 * len(places) > self.size else self.rows[places] @ vector
            )
        else:
            places = self._nearest_rounded(vector, places, max(_RESCORED, _RESCORED_PER_HIT * limit))
            scores = fetch(self.parts[places]) @ vector
        docs, scores = _best_parts(self.docs[places], scores.astype(np.float32))
        best = _top(docs, scores, limit)
        return docs[best], scores[best]

    def _nearest_rounded(self, vector: Floats, places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
        """Return the places nearest by their rounded vectors, in ascending order."""
        if len(places) <= most:
            return places
        # Mean and step change all scores alike, so the order needs neither.
        scores = np.empty(self.size, np.float32)
        for start in range(0, self.size, _STRIDE):
            scores[start : start + _STRIDE] = self.rows[start : start + _STRIDE].astype(np.float32) @ vector
        scores = scores[places]
        return np.sort(places[np.argpartition(scores, len(scores) - most)[-most:]])

    def _begin_rounding(self, more: Floats) -> None:
        n = self.size
        seen: Floats = self.rows[:n] if n else more
        mean: Floats = seen.mean(axis=0, dtype=np.float32)
        self.mean, self.step = mean, float(np.abs(seen - mean).max() / 127) or 1.0
        if n:
            self.rows = self._rounded(seen)
            self.parts, self.docs, self.labels = self.parts[:n], self.docs[:n], self.labels[:n]

    def _rounded(self, vectors: Floats) -> NDArray[np.int8]:
        steps: Floats = np.rint((vectors - cast("Floats", self.mean)) / self.step)
        return steps.clip(-127, 127).astype(np.int8)


def _grown(array: NDArray[Any], used: int, room: int) -> NDArray[Any]:
    grown = np.empty((room, *array.shape[1:]), array.dtype)
    grown[:used] = array[:used]
    return grown


def _best_parts(docs: Ints, scores: Floats) -> tuple[Ints, Floats]:
    """Reduce the scores of parts to the best of each record."""
    starts = np.flatnonzero(np.r_[True, docs[1:] != docs[:-1]])
    return docs[starts], np.maximum.reduceat(scores, starts)


def _top(docs: Ints, scores: Floats, limit: int) -> NDArray[np.intp]:
    """Return the places of the best scores, best first."""
    places = np.arange(len(scores))
    if len(scores) > limit:
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit])
    return places[np.lexsort((-docs[places], -scores[places]))[:limit]]
