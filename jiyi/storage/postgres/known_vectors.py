"""Vectors of one user that questions had among their candidates, kept in memory. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.candidates import Key
from jiyi.storage.vectors import Parts

__all__ = ["KnownVectors"]

_MOST = 100_000  # vectors: beyond that it begins anew
_KEY_BYTES = 250  # a key with its place, about


@dataclass(slots=True)
class KnownVectors:
    """The parts of records side by side, as they are stored.

    While a user's generation and the searched set stay, a record's vectors do: what is here
    needs no looking up. Records without vectors are not noted, theirs may come. Arrays grow
    with room to spare and nothing in use changes: a view stays right while others add to it.
    """

    generation: int = 0  # of the user's removals and changes, when it was begun
    space: int = 0  # number of the set they are of
    size: int = 0  # vectors held
    rows: NDArray[np.float16] = field(default_factory=lambda: np.empty((0, 0), np.float16))
    places: dict[Key, tuple[int, int]] = field(default_factory=dict)  # first row of a record, and how many

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return self.rows.nbytes + _KEY_BYTES * len(self.places)

    def view(self) -> "KnownVectors":
        """Return what is held as it is now."""
        return replace(self)

    def turn_to(self, space: int) -> None:
        """Forget everything where it is of another set, or too much."""
        if self.space != space or self.size > _MOST:
            self.space, self.size, self.places = space, 0, {}
            self.rows = np.empty((0, 0), np.float16)

    def unknown(self, keys: Sequence[Key]) -> list[Key]:
        """Return those of the keys whose vectors are not held."""
        return [key for key in keys if key not in self.places]

    def add(self, vectors: Mapping[Key, NDArray[np.float16]]) -> None:
        """Take in records that are not held: shape (parts, dims) of each."""
        if not vectors:
            return
        new = np.concatenate(list(vectors.values()))
        start, size = self.size, self.size + len(new)
        if size > len(self.rows):
            grown = np.empty((max(size, start + start // 2), new.shape[1]), np.float16)
            if start:
                grown[:start] = self.rows[:start]
            self.rows = grown
        self.rows[start:size] = new
        for key, parts in vectors.items():
            self.places[key] = start, len(parts)
            start += len(parts)
        self.size = size

    def parts(self, keys: Sequence[Key]) -> Parts:
        """Return the vectors of records, those of each in their order."""
        nothing = (0, 0)
        spans = np.array([self.places.get(key, nothing) for key in keys], np.intp).reshape(-1, 2)
        starts, counts = spans.T
        before = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(before, counts)
        return Parts(
            rows=np.repeat(np.arange(len(keys)), counts),
            vectors=self.rows[np.repeat(starts, counts) + within].astype(np.float32),
        )
