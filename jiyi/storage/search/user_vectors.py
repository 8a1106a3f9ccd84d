"""One user's vectors in memory: exact while they are few, one byte per number beyond that. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.one_thread import one_blas_thread
from jiyi.records import Query
from jiyi.storage.search.candidates import Rows
from jiyi.storage.search.matching import KIND_NUMBERS_BY_LABEL, best_of_groups, matching_rows, rows_in_scope
from jiyi.storage.search.user_cache import grow_array
from jiyi.storage.search.user_terms import UserTerms

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

Vectors = Mapping[int, Floats]
"""Vectors of records by their numbers, shape (parts, dims) of each."""

Preselect = Callable[[Floats, NDArray[np.int8], int], Mapping[int, NDArray[np.intp]]]
"""Returns candidates by group, given a query's vector, the group of each vector and the number per group."""

MAX_EXACT = 100_000
"""The most vectors that are kept exactly (154 MB at 384 numbers); more are rounded."""

_RESCORED = 100  # rounded vectors that are compared again exactly, at least
_RESCORED_PER_HIT = 3  # and for each record asked for
_STRIDE = 16_384  # rounded vectors compared at once: as float32 they fit the processor's cache
_MAX_CACHED = 100_000  # beyond that `CachedVectors` start empty
_DOC_BYTES = 200  # of a number with its array, approximate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """Vectors of some records: one for each part of their texts."""

    rows: NDArray[np.intp]  # index of the record among those asked for
    vectors: Floats  # shape (parts, dims), rows of length 1


@dataclass(slots=True)
class CachedVectors:
    """Vectors of records as they are stored, of a user whose others are not in memory.

    Record numbers are not reused and a record with another text is a new one, so cached vectors stay
    valid. Records without vectors are not cached, because they may get some.
    """

    generation: int = 0  # of the user's removals and changes when it was created
    space: int = 0  # number of the set they are of
    size: int = 0  # vectors
    nbytes: int = 0  # approximate
    of_docs: dict[int, Floats] = field(default_factory=dict)  # only added to: views share it

    def view(self) -> "CachedVectors":
        """Return the present content."""
        return replace(self)

    def use_space(self, space: int) -> None:
        """Drop everything if it is of another set or too large."""
        if self.space != space or self.size > _MAX_CACHED:
            self.space, self.size, self.nbytes, self.of_docs = space, 0, 0, {}

    def add(self, vectors: Vectors) -> None:
        """Add records that are not cached."""
        self.of_docs |= vectors
        self.size += sum(map(len, vectors.values()))
        self.nbytes += sum(array.nbytes + _DOC_BYTES for array in vectors.values())

    def parts(self, docs: Sequence[int]) -> Parts:
        """Return the vectors of records, those of each in their order."""
        rows = [row for row, doc in enumerate(docs) if doc in self.of_docs]
        found = [self.of_docs[docs[row]] for row in rows]
        places = np.repeat(np.array(rows, np.intp), [len(own) for own in found])
        return Parts(rows=places, vectors=np.concatenate(found) if found else np.empty((0, 0), np.float32))


@dataclass(slots=True)
class UserVectors:
    """Vectors of length 1 by record, the parts of a record next to each other.

    Arrays grow by half and rows in use never change, so a search keeps its view while rows are added.

    Beyond `MAX_EXACT` a number takes one byte instead of four: the mean is subtracted and the
    rest rounded to 255 steps. The nearest by the rounded vectors are then compared exactly, from disk.
    """

    generation: int = 0  # of the user's removals when it was read
    space: int = 0  # number of the set they are of
    last_part: int = 0  # newest row read
    size: int = 0  # rows in use
    parts: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    docs: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rows: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0), np.float32))  # float32 or int8
    mean: Floats | None = None  # subtracted before rounding; None while rows are exact
    step: float = 1.0  # what one step of a rounded number stands for
    dims: int = 0  # numbers in a vector
    expected: int = 0  # rows to allocate at first
    _rows_in: tuple[UserTerms, Rows | None] | None = None  # of a view: see `rows_in`

    @property
    def nbytes(self) -> int:
        """Bytes used."""
        return self.parts.nbytes + self.docs.nbytes + self.rows.nbytes

    def append(self, parts: Ints, docs: Ints, vectors: Floats) -> None:
        """Add rows after the present ones; ``parts`` ascend."""
        if self.mean is None and self.size + len(parts) > MAX_EXACT:
            self._start_rounding(vectors)
        rows = vectors if self.mean is None else self._rounded(vectors)
        self.dims = vectors.shape[1]
        start, size = self.size, self.size + len(parts)
        # Memory that is not written to is not used yet; growing needs memory for two copies.
        room = size if start else max(size, self.expected + self.expected // 8)
        self.parts = grow_array(self.parts, start, room)
        self.docs = grow_array(self.docs, start, room)
        self.rows = grow_array(self.rows if start else rows[:0], start, room)
        self.parts[start:size], self.docs[start:size] = parts, docs
        self.rows[start:size] = rows
        self.size, self.last_part = size, int(parts[-1]) if len(parts) else self.last_part

    def reset(self, space: int) -> None:
        """Drop all rows and start with those of another set; views keep theirs."""
        fresh = type(self)(generation=self.generation, space=space)
        for part in fields(fresh):
            setattr(self, part.name, getattr(fresh, part.name))

    def view(self) -> Self:
        """Return the rows in use as they are now."""
        n = self.size
        return replace(self, parts=self.parts[:n], docs=self.docs[:n], rows=self.rows[:n])

    def rows_in(self, terms: UserTerms) -> Rows | None:
        """Return the row of each vector of a `view`, -1 for none; None if each has the row of its place."""
        if self._rows_in is None or self._rows_in[0] is not terms:
            equal = np.array_equal(self.docs, terms.columns["doc"])
            self._rows_in = terms, None if equal else terms.rows_of_docs(self.docs)
        return self._rows_in[1]

    def nearest(
        self,
        vector: Floats,
        limit: int,
        *,
        groups: NDArray[np.int8],
        fetch: Callable[[Ints], Floats],
        preselect: Preselect | None = None,
    ) -> tuple[Ints, Floats]:
        """Return the nearest records of a `view` and their cosines, best first; newer ones win ties.

        Args:
            vector: of length 1.
            limit: how many records of each group at most.
            groups: the group of each vector, the same for all parts of a record; -1 if not allowed.
            fetch: returns the exact vectors of these parts, in their order.
            preselect: returns for some groups the places of the only vectors to compare; in other groups all
                are compared.
        """
        places = np.flatnonzero(groups >= 0)
        if not len(places):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        most = max(_RESCORED, _RESCORED_PER_HIT * limit)
        chosen = preselect(vector, groups, most) if preselect is not None else {}
        if self.mean is None and not chosen:
            cosines = self._scores(vector, places)[places]
        else:
            rest = places[~np.isin(groups[places], list(chosen))]
            of_group = [rest[groups[rest] == group] for group in range(int(groups.max()) + 1)]
            if self.mean is not None:
                scores = self._scores(vector, rest)
                of_group = [_top_places(scores, some, most) for some in of_group]
            places = np.concatenate([chosen.get(group, some) for group, some in enumerate(of_group)])
            vectors = self.rows[places] if self.mean is None else fetch(self.parts[places])
            cosines = vectors @ vector
        first, best = _best_parts(self.docs[places], cosines.astype(np.float32))
        docs = self.docs[places[first]]
        top = best_of_groups(docs, best, groups[places[first]], limit)
        return docs[top], best[top]

    def take(self, places: NDArray[np.intp]) -> Floats:
        """Return the vectors at these places, of length 1; rounded ones are approximate."""
        if self.mean is None:
            return np.asarray(self.rows[places])
        approximate: Floats = self.rows[places].astype(np.float32) * np.float32(self.step) + self.mean
        approximate /= np.maximum(np.linalg.norm(approximate, axis=1, keepdims=True), 1e-9)
        return approximate

    def _scores(self, vector: Floats, allowed: NDArray[np.intp]) -> Floats:
        """Return scores of the allowed places: cosines, or for rounded vectors numbers of the same order."""
        scores = np.zeros(self.size, np.float32)
        if 2 * len(allowed) < self.size:
            scores[allowed] = self.rows[allowed].astype(np.float32) @ vector
            return scores
        if self.mean is None:
            return cast("Floats", self.rows @ vector)
        # Mean and step shift and scale all scores alike, so the order needs neither.
        for start in range(0, self.size, _STRIDE):
            scores[start : start + _STRIDE] = self.rows[start : start + _STRIDE].astype(np.float32) @ vector
        return scores

    def _start_rounding(self, more: Floats) -> None:
        n = self.size
        sample: Floats = self.rows[:n] if n else more
        mean: Floats = sample.mean(axis=0, dtype=np.float32)
        self.mean, self.step = mean, float(np.abs(sample - mean).max() / 127) or 1.0
        if n:
            self.rows = self._rounded(sample)
            self.parts, self.docs = self.parts[:n], self.docs[:n]

    def _rounded(self, vectors: Floats) -> NDArray[np.int8]:
        return np.asarray(np.rint((vectors - cast("Floats", self.mean)) / self.step).clip(-127, 127), np.int8)


def find_nearest(
    index: UserTerms,
    vectors: UserVectors,
    query: Query,
    vector: NDArray[Any],
    docs: Ints | None,
    *,
    fetch: Callable[[Ints], Floats],
    preselect: Preselect | None = None,
) -> tuple[Ints, Floats]:
    """Return the numbers of the records that `VectorIndex.nearest` finds, and their cosines.

    ``docs`` is as for `find_candidates`; ``fetch`` and ``preselect`` are as for `UserVectors.nearest`.
    """
    groups = KIND_NUMBERS_BY_LABEL[index.columns["label"]]
    groups[~(rows_in_scope(index, query) & matching_rows(index, query, docs))] = -1
    if (places := vectors.rows_in(index)) is not None:
        groups = np.where(places >= 0, groups[places], np.int8(-1))
    single = vector.astype(np.float32)
    with one_blas_thread():
        return vectors.nearest(single, query.limit, groups=groups, fetch=fetch, preselect=preselect)


def row_vectors(index: UserTerms, vectors: UserVectors, wanted: Rows) -> Parts:
    """Return the vectors of the wanted rows."""
    places = vectors.rows_in(index)
    if places is None:
        found = np.flatnonzero(wanted >= 0)
        return Parts(rows=found, vectors=vectors.take(wanted[found]))
    owner = np.full(index.size + 1, -1, np.intp)  # the last is for row -1, no row
    owner[wanted] = np.arange(len(wanted))
    owner[-1] = -1
    owners = owner[places]
    found = np.flatnonzero(owners >= 0)
    return Parts(rows=owners[found], vectors=vectors.take(found))


def _top_places(scores: Floats, places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return the places of the highest scores, in ascending order."""
    if len(places) <= most:
        return places
    return np.sort(places[np.argpartition(scores[places], len(places) - most)[-most:]])


def _best_parts(docs: Ints, scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the place of the first part of each record, and the best score of its parts."""
    begins = np.ones(len(docs), np.bool_)
    np.not_equal(docs[1:], docs[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return starts, scores if len(starts) == len(docs) else np.maximum.reduceat(scores, starts)
