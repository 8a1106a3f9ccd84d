"""One user's vectors in memory: exact while they are few, one byte a number once they are many. No I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.one_thread import one_blas_thread
from jiyi.records import Query
from jiyi.storage.candidates import Rows
from jiyi.storage.matching import PLACES_OF_KINDS, allowed_rows
from jiyi.storage.user_cache import with_room
from jiyi.storage.user_terms import UserTerms
from jiyi.storage.vectors import Parts

__all__ = ["EXACT_MOST", "Among", "Floats", "Ints", "UserVectors", "near_held", "parts_held"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

Among = Callable[[Floats, NDArray[np.int8], int], Mapping[int, NDArray[np.intp]]]
"""Takes a question's vector, the group of each vector, and how many of each group to name."""

EXACT_MOST = 100_000
"""Up to so many vectors (154 MB at 384 numbers) are held as they are; more are held rounded."""

_RESCORED = 100  # rounded vectors that are compared again exactly, at least
_RESCORED_PER_HIT = 3  # and for each record asked for
_STRIDE = 16_384  # rounded vectors compared at once: what they unfold to stays in the processor's cache


@dataclass(slots=True)
class UserVectors:
    """Vectors of length 1 by record, the parts of a record side by side.

    Arrays grow with room to spare, rows in use never change: a search goes on with its own
    view while rows are added after it.

    Beyond `EXACT_MOST` a number takes one byte instead of four: the mean is taken off and the
    rest rounded to 255 steps. The nearest by the rounded vectors are then compared exactly,
    from disk.
    """

    generation: int = 0  # of the user's removals, when it was read
    space: int = 0  # number of the set they are of
    last_part: int = 0  # newest row read
    size: int = 0  # rows in use
    parts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    docs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rows: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), np.float32))  # float32 or int8
    mean: Floats | None = None  # taken off before rounding; None while rows are exact
    step: float = 1.0  # what one step of a rounded number stands for
    dims: int = 0  # numbers in a vector
    expected: int = 0  # rows to make room for at the start

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.parts.nbytes + self.docs.nbytes + self.rows.nbytes

    def append(self, parts: Ints, docs: Ints, vectors: Floats) -> None:
        """Take in rows after those that are there; ``parts`` ascend."""
        if self.mean is None and self.size + len(parts) > EXACT_MOST:
            self._begin_rounding(vectors)
        rows = vectors if self.mean is None else self._rounded(vectors)
        self.dims = vectors.shape[1]
        start, size = self.size, self.size + len(parts)
        if size > len(self.parts):
            # What is not written to takes no memory yet; growing takes the memory of two copies.
            room = max(size, self.expected + self.expected // 8 if start == 0 else start + start // 2)
            self.parts = with_room(self.parts, start, room)
            self.docs = with_room(self.docs, start, room)
            self.rows = with_room(self.rows if start else rows[:0], start, room)
        self.parts[start:size], self.docs[start:size] = parts, docs
        self.rows[start:size] = rows
        self.size, self.last_part = size, int(parts[-1]) if len(parts) else self.last_part

    def begin_again(self, space: int) -> None:
        """Forget all rows, for those of another set; views keep theirs."""
        fresh = type(self)(generation=self.generation, space=space)
        for part in fields(fresh):
            setattr(self, part.name, getattr(fresh, part.name))

    def view(self) -> Self:
        """Return the rows in use as they are now."""
        n = self.size
        return replace(self, parts=self.parts[:n], docs=self.docs[:n], rows=self.rows[:n])

    def nearest(
        self,
        vector: Floats,
        limit: int,
        *,
        groups: NDArray[np.int8],
        fetch: Callable[[Ints], Floats],
        among: Callable[[int], Mapping[int, NDArray[np.intp]]] | None = None,
    ) -> tuple[Ints, Floats]:
        """Return the nearest records of a `view` and their cosines, best first; newer ones win ties.

        Args:
            vector: of length 1.
            limit: how many records of each group at most.
            groups: the group of each vector, the same for all parts of a record; -1 for
                those that are not allowed.
            fetch: gives the vectors of these parts, in their order.
            among: gives by group, for so many vectors, the places that alone are compared;
                groups it does not name are searched whole.
        """
        if not (groups >= 0).any():
            return np.empty(0, np.int64), np.empty(0, np.float32)
        most = max(_RESCORED, _RESCORED_PER_HIT * limit)
        chosen = among(most) if among is not None else {}
        left = groups >= 0
        for group in chosen:
            left &= groups != group
        whole = np.flatnonzero(left)
        scores = self._scores(vector, whole) if len(whole) else np.empty(0, np.float32)
        docs, cosines = [], []
        for group in range(int(groups.max()) + 1):
            places = chosen[group] if group in chosen else np.flatnonzero(groups == group)
            if not len(places):
                continue
            if self.mean is not None:
                places = places if group in chosen else _highest(scores, places, most)
                exact = fetch(self.parts[places]) @ vector
            else:
                exact = self.rows[places] @ vector if group in chosen else scores[places]
            records, best = _best_parts(self.docs[places], exact.astype(np.float32))
            top = _top(records, best, limit)
            docs.append(records[top])
            cosines.append(best[top])
        found, values = np.concatenate(docs), np.concatenate(cosines)
        order = np.lexsort((-found, -values))
        return found[order], values[order]

    def vectors(self, places: NDArray[np.intp]) -> Floats:
        """Return the vectors at these places, of length 1; rounded ones as near as they are held."""
        if self.mean is None:
            exact: Floats = self.rows[places]
            return exact
        rough: Floats = self.rows[places].astype(np.float32) * np.float32(self.step) + self.mean
        rough /= np.maximum(np.linalg.norm(rough, axis=1, keepdims=True), 1e-9)
        return rough

    def _scores(self, vector: Floats, allowed: NDArray[np.intp]) -> Floats:
        """Return scores by place: cosines, or numbers in the order of rounded ones; others are undefined."""
        scores = np.zeros(self.size, np.float32)
        if 2 * len(allowed) < self.size:
            scores[allowed] = self.rows[allowed].astype(np.float32) @ vector
            return scores
        if self.mean is None:
            return cast("Floats", self.rows @ vector)
        # Mean and step change all scores alike, so the order needs neither.
        for start in range(0, self.size, _STRIDE):
            scores[start : start + _STRIDE] = self.rows[start : start + _STRIDE].astype(np.float32) @ vector
        return scores

    def _begin_rounding(self, more: Floats) -> None:
        n = self.size
        seen: Floats = self.rows[:n] if n else more
        mean: Floats = seen.mean(axis=0, dtype=np.float32)
        self.mean, self.step = mean, float(np.abs(seen - mean).max() / 127) or 1.0
        if n:
            self.rows = self._rounded(seen)
            self.parts, self.docs = self.parts[:n], self.docs[:n]

    def _rounded(self, vectors: Floats) -> NDArray[np.int8]:
        steps: Floats = np.rint((vectors - cast("Floats", self.mean)) / self.step)
        return steps.clip(-127, 127).astype(np.int8)


def near_held(
    rows: UserTerms,
    mine: UserVectors,
    query: Query,
    vector: NDArray[Any],
    docs: Ints | None,
    *,
    fetch: Callable[[Ints], Floats],
    among: Among | None = None,
) -> tuple[Ints, Floats]:
    """Return the numbers of the records that `VectorIndex.nearest` finds, and their cosines, of views
    of a user's rows and vectors.

    ``docs`` is what conditions that rows do not carry allow, None where there are none; ``fetch``
    and ``among`` as for `UserVectors.nearest`.
    """
    groups = PLACES_OF_KINDS[rows.columns["label"]]
    groups[~allowed_rows(rows, query, docs)] = -1
    if (places := _rows_of(mine, rows)) is not None:
        groups = np.where(places >= 0, groups[places], np.int8(-1))
    single = vector.astype(np.float32)
    chosen = among and partial(among, single, groups)
    with one_blas_thread():
        return mine.nearest(single, query.limit, groups=groups, fetch=fetch, among=chosen)


def parts_held(rows: UserTerms, mine: UserVectors, wanted: Rows) -> Parts:
    """Return the vectors of rows, of views of a user's rows and vectors."""
    owner = np.full(rows.size + 1, -1, np.intp)  # the last is for row -1, which is none
    owner[wanted] = np.arange(len(wanted))
    owner[-1] = -1
    places = _rows_of(mine, rows)
    owners = owner[: mine.size] if places is None else owner[places]
    held = np.flatnonzero(owners >= 0)
    return Parts(rows=owners[held], vectors=mine.vectors(held))


def _rows_of(mine: UserVectors, rows: UserTerms) -> Rows | None:
    """Return the row of each vector, -1 for none; None where each row in turn has one vector."""
    return None if np.array_equal(mine.docs, rows.columns["doc"]) else rows.places_of(mine.docs)


def _highest(scores: Floats, places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return the places of the highest scores, in ascending order."""
    if len(places) <= most:
        return places
    return np.sort(places[np.argpartition(scores[places], len(places) - most)[-most:]])


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
