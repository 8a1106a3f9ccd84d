"""An inverted index of consecutive rows of a user, by term and by id. No I/O.

Both indexes are sorted arrays of 64-bit keys, so that building and merging are one sort each:
a posting is term (32 bits), row within the segment (24), count (8); an id is 40 bits of its
hash and the row (24).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.words import unpack

__all__ = ["MAX_SEGMENT_ROWS", "Segment", "id_keys", "merge_segments"]

MAX_SEGMENT_ROWS = 1 << 24
"""The most rows of one segment."""

_ROW = np.uint64(MAX_SEGMENT_ROWS - 1)
_COUNT = np.uint64(0xFF)
_8, _32 = np.uint64(8), np.uint64(32)
_HASH = ~_ROW

_Keys = NDArray[np.uint64]


def id_keys(names: Iterable[tuple[str, str]]) -> _Keys:
    """Return the keys of records by kind and id, with row 0; they are valid in this process only."""
    return np.fromiter(map(hash, names), np.int64).view(np.uint64) & _HASH


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Rows from ``start`` on; immutable."""

    start: int  # the first row's number among the user's rows
    count: int  # rows
    terms: NDArray[np.uint32]  # distinct terms, ascending
    starts: NDArray[np.int64]  # where each term's postings begin, and where the last one's end
    rows: NDArray[np.int32]  # rows of each term, ascending, counted from ``start``
    counts: NDArray[np.uint8]  # how often the term is in the row
    ids: _Keys  # ids, ascending

    @classmethod
    def of(cls, start: int, entries: Sequence[bytes], ids: _Keys) -> "Segment":
        """Invert rows given by their entries (`jiyi.storage.words`) and `id_keys`."""
        rows = np.arange(len(entries), dtype=np.uint64)
        found = unpack(b"".join(entries))
        sizes = [len(entry) // found.itemsize for entry in entries]
        postings = found["term"].astype(np.uint64) << _32
        postings |= np.repeat(rows, sizes) << _8
        postings |= found["count"]
        return cls._inverted(start, len(entries), postings, ids | rows)

    @classmethod
    def _inverted(cls, start: int, count: int, postings: _Keys, ids: _Keys) -> "Segment":
        postings.sort()
        ids.sort()
        terms = (postings >> _32).astype(np.uint32)
        first = np.flatnonzero(np.r_[True, terms[1:] != terms[:-1]][: len(terms)])
        return cls(
            start,
            count,
            terms[first],
            np.r_[first, len(terms)],
            ((postings >> _8) & _ROW).astype(np.int32),
            (postings & _COUNT).astype(np.uint8),
            ids,
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum([array.nbytes for array in (self.terms, self.starts, self.rows, self.counts, self.ids)])

    def find(self, terms: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where the postings of each term begin and end; the same where it has none."""
        if not len(self.terms):
            return np.zeros(len(terms), np.int64), np.zeros(len(terms), np.int64)
        places = np.minimum(np.searchsorted(self.terms, terms), len(self.terms) - 1)
        begins = self.starts[places]
        return begins, np.where(self.terms[places] == terms, self.starts[places + 1], begins)

    def postings(self, shift: int) -> _Keys:
        """Return the postings as keys, their rows moved up by ``shift``."""
        keys = np.repeat(self.terms.astype(np.uint64), np.diff(self.starts)) << _32
        keys |= (self.rows + shift).astype(np.uint64) << _8
        keys |= self.counts
        return keys


def merge_segments(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Merge consecutive segments until each is at least twice as long as the next.

    Of n rows added one by one each is sorted log n times, and a search reads log n segments.
    """
    first, count = len(segments) - 1, segments[-1].count
    while first and (before := segments[first - 1].count) < 2 * count and before + count <= MAX_SEGMENT_ROWS:
        first -= 1
        count += before
    if first == len(segments) - 1:
        return tuple(segments)
    tail, start = segments[first:], segments[first].start
    postings = np.concatenate([segment.postings(segment.start - start) for segment in tail])
    ids = np.concatenate([segment.ids + np.uint64(segment.start - start) for segment in tail])
    return (*segments[:first], Segment._inverted(start, count, postings, ids))
