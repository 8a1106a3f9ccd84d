"""One user's vectors in memory: exact while they are few, 1-bit codes once they are many. No I/O."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXACT_MOST", "Floats", "Ints", "Labels", "UserVectors"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Labels = NDArray[np.uint8]

EXACT_MOST = 50_000
"""Up to so many vectors (77 MB at 384 numbers) every one is compared; beyond, codes choose first."""

_RESCORED = 300  # vectors compared exactly behind the codes, at least
_RESCORED_PER_HIT = 5  # and for each record asked for


@dataclass(slots=True)
class UserVectors:
    """Vectors of length 1 by record, the parts of a record side by side.

    Arrays grow with room to spare, rows in use never change: a search goes on with its own
    view while rows are added behind it.

    Beyond `EXACT_MOST` vectors each is held as one bit a number, the sign after the mean is
    taken off (48 bytes instead of 1,536 at 384 numbers). The nearest by Hamming distance are
    then compared exactly, from disk. Method: sign random bits with rescoring, as in
    Shakir et al., "Binary and Scalar Embedding Quantization", Hugging Face blog, 2024.
    """

    generation: int = 0  # of the user's removals, when it was read
    last_part: int = 0  # newest row read
    size: int = 0  # rows in use
    parts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    docs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    labels: Labels = field(default_factory=lambda: np.empty(0, np.uint8))  # what a record is
    rows: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), np.float32))  # float32, or codes
    mean: Floats | None = None  # taken off before the signs; None while rows are exact
    dims: int = 0  # numbers in a vector

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.parts.nbytes + self.docs.nbytes + self.labels.nbytes + self.rows.nbytes

    def append(self, parts: Ints, docs: Ints, labels: Labels, vectors: Floats) -> None:
        """Take in rows behind those that are there; ``parts`` ascend."""
        if self.mean is None and self.size + len(parts) > EXACT_MOST:
            self._turn_into_codes(vectors)
        rows = vectors if self.mean is None else _codes(vectors - self.mean)
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
        """Return the nearest records and their cosines, best first; newer ones win ties.

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
            places = self._nearest_codes(vector, places, max(_RESCORED, _RESCORED_PER_HIT * limit))
            scores = fetch(self.parts[places]) @ vector
        docs, scores = _best_parts(self.docs[places], scores.astype(np.float32))
        best = _top(docs, scores, limit)
        return docs[best], scores[best]

    def _nearest_codes(self, vector: Floats, places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
        """Return the places with the smallest Hamming distance, in ascending order."""
        if len(places) <= most:
            return places
        code = _codes((vector - cast("Floats", self.mean))[None, :])
        words = self.rows.view(np.uint64) ^ code.view(np.uint64)
        distances = np.bitwise_count(words).sum(axis=1, dtype=np.uint16)[places]
        return np.sort(places[np.argpartition(distances, most)[:most]])

    def _turn_into_codes(self, more: Floats) -> None:
        seen: Floats = self.rows[: self.size] if self.size else more
        mean: Floats = seen.mean(axis=0, dtype=np.float32)
        if self.size:
            self.rows = _codes(seen - mean)
            n = self.size
            self.parts, self.docs, self.labels = self.parts[:n], self.docs[:n], self.labels[:n]
        self.mean = mean


def _codes(centred: Floats) -> NDArray[np.uint8]:
    """Return the signs, eight to a byte, padded to whole words of 64 bits."""
    bits = np.packbits(centred > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))


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
