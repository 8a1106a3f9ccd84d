"""Approximate search of the vectors in a SQLite file. Needs the extra ``jiyi[faiss]``."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from jiyi.storage.database import Connection
from jiyi.storage.search.user_vectors import Floats, Preselect, UserVectors
from jiyi.storage.sqlite.vectors import SqliteVectors

FAISS_FROM = 10_000
"""From this many allowed vectors FAISS searches them; fewer are all compared exactly."""

_STEPS = 127  # numbers are rounded to integers from -127 to 127
_BATCH_SIZE = 10_000  # vectors added at once


@dataclass(slots=True)
class UserCodes:
    """One user's vectors with one byte per number, all of which are compared with a query.

    Places in the index are those of `UserVectors`.
    """

    generation: int = 0  # of the vectors
    space: int = -1  # number of their set
    index: Any = None  # faiss.IndexScalarQuantizer; None while the vectors are few
    mean: Floats = field(default_factory=lambda: np.empty(0, np.float32))  # subtracted before rounding
    step: float = 1.0
    lock: threading.Lock = field(default_factory=threading.Lock)  # FAISS cannot add while it searches

    @property
    def nbytes(self) -> int:
        """Bytes used."""
        return 0 if self.index is None else int(self.index.ntotal) * int(self.index.d)

    def view(self) -> "UserCodes":
        """Return the present content; a search does not allow places that are added later."""
        return replace(self)

    def follow(self, vectors: UserVectors) -> None:
        """Add the vectors of a view that are not indexed yet."""
        if vectors.space != self.space:
            self.space, self.index = vectors.space, None
        if vectors.size < FAISS_FROM:
            return
        if self.index is None:
            self._choose_steps(vectors)
        for start in range(int(self.index.ntotal), vectors.size, _BATCH_SIZE):
            rounded = self._rounded(vectors.take(np.arange(start, min(start + _BATCH_SIZE, vectors.size))))
            with self.lock:
                self.index.add(rounded)

    def nearest(self, vector: Floats, groups: NDArray[np.int8], most: int) -> dict[int, NDArray[np.intp]]:
        """Return the places of approximately the ``most`` nearest vectors of each large group, ascending."""
        found: dict[int, NDArray[np.intp]] = {}
        if self.index is None:
            return found
        rounded = np.rint(vector * (_STEPS / max(float(np.abs(vector).max()), 1e-9)))
        for group in range(int(groups.max()) + 1):
            allowed = groups == group
            if np.count_nonzero(allowed) < FAISS_FROM:
                continue
            bits = np.packbits(allowed, bitorder="little")
            options = faiss.SearchParameters()
            options.sel = faiss.IDSelectorBitmap(len(bits), faiss.swig_ptr(bits))
            with self.lock, _one_thread():
                _, places = self.index.search(rounded[None], most, params=options)
            found[group] = np.sort(places[0][places[0] >= 0])
        return found

    def _choose_steps(self, vectors: UserVectors) -> None:
        """Choose mean and step by the present vectors; later ones outside the range are clipped."""
        sample = vectors.take(np.arange(0, vectors.size, max(1, vectors.size // _BATCH_SIZE)))
        self.mean = sample.mean(axis=0, dtype=np.float32)
        self.step = float(np.abs(sample - self.mean).max() / _STEPS) or 1.0
        kind = faiss.ScalarQuantizer.QT_8bit_direct_signed
        self.index = faiss.IndexScalarQuantizer(vectors.dims, kind, faiss.METRIC_INNER_PRODUCT)

    def _rounded(self, vectors: Floats) -> Floats:
        return np.asarray(np.rint((vectors - self.mean) / np.float32(self.step)).clip(-_STEPS, _STEPS))


class FaissVectors(SqliteVectors):
    """`SqliteVectors` that compares only the vectors that `UserCodes` selects; the file is the same.

    The index is in memory only, in the same cache as the vectors it is made of.
    """

    def _preselect(self, db: Connection, user_id: str, vectors: UserVectors) -> Preselect | None:
        if db.in_transaction:  # what is not committed may be undone, so it is not cached
            return None
        codes = self._db.cache.use(
            user_id, UserCodes, vectors.generation, lambda cached: cached.follow(vectors)
        )
        return codes.nearest


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit FAISS to one thread; the setting applies to the calling thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
