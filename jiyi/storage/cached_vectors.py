"""A user's vectors by record number: cached ones, or as the database has them now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.candidates import Key
from jiyi.storage.database import Call, Connection, grouped
from jiyi.storage.relational.snapshot import parse_spaces
from jiyi.storage.user_cache import grow_array
from jiyi.storage.vectors import Parts

__all__ = ["CachedVectors", "Docs", "Vectors", "read_uncached"]

Docs = NDArray[np.int64]  # numbers of records; -1 for none
Vectors = Mapping[int, NDArray[np.float32]]  # of records by their numbers, shape (parts, dims) of each

_MAX_VECTORS = 100_000  # beyond that it starts empty
_PLACE_BYTES = 200  # of a number with its place, approximate


@dataclass(slots=True)
class CachedVectors:
    """The vectors of records next to each other, as they are stored.

    Record numbers are not reused and a record with another text is a new one, so cached vectors stay
    valid. Records without vectors are not cached, because they may get some. Arrays grow by half and
    rows in use never change: a view stays valid while others add to the cache.
    """

    generation: int = 0  # of the user's removals and changes when it was created
    space: int = 0  # number of the set they are of
    size: int = 0  # vectors in use
    rows: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row of a record, and how many

    @property
    def nbytes(self) -> int:
        """Bytes used, approximate."""
        return self.rows.nbytes + _PLACE_BYTES * len(self.places)

    def view(self) -> "CachedVectors":
        """Return the present content."""
        return replace(self)

    def use_space(self, space: int) -> None:
        """Drop everything if it is of another set or too large."""
        if self.space != space or self.size > _MAX_VECTORS:
            self.space, self.size, self.places = space, 0, {}
            self.rows = np.empty((0, 0), np.float32)

    def missing(self, docs: Docs) -> list[int]:
        """Return the records whose vectors are not cached."""
        return [doc for doc in docs.tolist() if doc not in self.places]

    def add(self, vectors: Vectors) -> None:
        """Add records that are not cached."""
        if not vectors:
            return
        new = np.concatenate(list(vectors.values()))
        start, size = self.size, self.size + len(new)
        self.rows = grow_array(self.rows if start else new[:0], start, size)
        self.rows[start:size] = new
        for doc, parts in vectors.items():
            self.places[doc] = start, len(parts)
            start += len(parts)
        self.size = size

    def parts(self, docs: Docs) -> Parts:
        """Return the vectors of records, those of each in their order."""
        spans = np.array([self.places.get(doc, (0, 0)) for doc in docs.tolist()], np.intp).reshape(-1, 2)
        starts, counts = spans.T
        before = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(before, counts)
        return Parts(
            rows=np.repeat(np.arange(len(docs)), counts),
            vectors=self.rows[np.repeat(starts, counts) + within],
        )


def read_uncached(
    db: Connection, user_id: str, keys: Sequence[Key], read: Callable[[int, list[int]], Vectors]
) -> Parts:
    """Return the vectors of records as the database has them now, without caching them.

    ``read`` returns the vectors of a set by record number, shape (parts, dims) for each record.
    """
    ids = grouped(dict.fromkeys(keys))
    calls = [
        Call("docs_of_ids", {"user_id": user_id, "kind": kind, "ids": db.dialect.array(kind_ids)})
        for kind, kind_ids in ids.items()
    ]
    meta, *answers = db.fetch_all([Call("all_meta", {}), *calls])
    numbers = {
        (kind, row[0]): row[1] for kind, answer in zip(ids, answers, strict=True) for row in answer.rows
    }
    docs = np.array([numbers.get(key, -1) for key in keys], np.int64)
    vectors = CachedVectors()
    vectors.add(read(parse_spaces(meta.rows).number, vectors.missing(docs[docs >= 0])))
    return vectors.parts(docs)
