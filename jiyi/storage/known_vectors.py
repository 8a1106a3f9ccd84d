"""A user's vectors by the numbers of records: those read before, or those the database has now."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.candidates import Key
from jiyi.storage.database import Call, Connection, grouped
from jiyi.storage.relational.spaces import spaces_of
from jiyi.storage.user_cache import with_room
from jiyi.storage.vectors import Parts

__all__ = ["Docs", "KnownVectors", "Vectors", "look_up"]

Docs = NDArray[np.int64]  # numbers of records; -1 for none
Vectors = Mapping[int, NDArray[np.float32]]  # of records by their numbers, shape (parts, dims) of each

_MOST = 100_000  # vectors: beyond that it starts empty
_PLACE_BYTES = 200  # a number with its place, about


@dataclass(slots=True)
class KnownVectors:
    """The parts of records side by side, as they are stored.

    A number is never given again and other words are another record: what is here needs no
    looking up. Records without vectors are not noted, theirs may come. Arrays grow with room
    to spare and nothing in use changes: a view stays right while others add to it.
    """

    generation: int = 0  # of the user's removals and changes, when it was begun
    space: int = 0  # number of the set they are of
    size: int = 0  # vectors held
    rows: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    places: dict[int, tuple[int, int]] = field(default_factory=dict)  # first row of a record, and how many

    @property
    def nbytes(self) -> int:
        """Bytes held, about."""
        return self.rows.nbytes + _PLACE_BYTES * len(self.places)

    def view(self) -> "KnownVectors":
        """Return what is held as it is now."""
        return replace(self)

    def turn_to(self, space: int) -> None:
        """Forget everything where it is of another set, or too much."""
        if self.space != space or self.size > _MOST:
            self.space, self.size, self.places = space, 0, {}
            self.rows = np.empty((0, 0), np.float32)

    def unknown(self, docs: Docs) -> list[int]:
        """Return the records whose vectors are not held."""
        return [doc for doc in docs.tolist() if doc not in self.places]

    def add(self, vectors: Vectors) -> None:
        """Take in records that are not held."""
        if not vectors:
            return
        new = np.concatenate(list(vectors.values()))
        start, size = self.size, self.size + len(new)
        if size > len(self.rows):
            self.rows = with_room(self.rows if start else new[:0], start, max(size, start + start // 2))
        self.rows[start:size] = new
        for doc, parts in vectors.items():
            self.places[doc] = start, len(parts)
            start += len(parts)
        self.size = size

    def parts(self, docs: Docs) -> Parts:
        """Return the vectors of records, those of each in their order."""
        nothing = (0, 0)
        spans = np.array([self.places.get(doc, nothing) for doc in docs.tolist()], np.intp).reshape(-1, 2)
        starts, counts = spans.T
        before = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(before, counts)
        return Parts(
            rows=np.repeat(np.arange(len(docs)), counts),
            vectors=self.rows[np.repeat(starts, counts) + within],
        )


def look_up(
    db: Connection, user_id: str, keys: Sequence[Key], read: Callable[[int, list[int]], Vectors]
) -> Parts:
    """Return the vectors of records as the database has them now, without keeping them.

    ``read`` gives those of a set by the numbers of records, shape (parts, dims) of each.
    """
    ids = grouped(dict.fromkeys(keys))
    asked = [
        Call("docs_of", {"user_id": user_id, "kind": kind, "ids": db.dialect.listed(some)})
        for kind, some in ids.items()
    ]
    meta, *found = db.all_of([Call("all_meta", {}), *asked])
    numbers = {(kind, row[0]): row[1] for kind, answer in zip(ids, found, strict=True) for row in answer.rows}
    docs = np.array([numbers.get(key, -1) for key in keys], np.int64)
    known = KnownVectors()
    known.add(read(spaces_of(meta.rows).number, known.unknown(docs[docs >= 0])))
    return known.parts(docs)
