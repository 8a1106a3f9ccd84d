"""Vectors read from Chroma and kept in memory: a token always names the same ones."""

import threading
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from jiyi.storage.chroma.collections import Collections

__all__ = ["HeldVectors"]

_BYTES = 64 * 1024 * 1024


class HeldVectors:
    """Reads vectors by their tokens; those used last stay in memory, up to 64 MB."""

    def __init__(self, collections: Collections) -> None:
        self._collections = collections
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._bytes = 0

    def read(self, space: int, parts: Mapping[str, int]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of tokens, each with so many parts; of those that Chroma has.

        Which of them are still a record's the rows say: what is here may be gone there.
        """
        with self._lock:
            known = {token: self._kept[token] for token in parts if token in self._kept}
            for token in known:
                self._kept.move_to_end(token)
        unknown = {token: count for token, count in parts.items() if token not in known}
        if not unknown:
            return known
        fresh = self._collections.read(space, unknown)
        with self._lock:
            for token, vectors in fresh.items():
                if token not in self._kept:
                    self._kept[token] = vectors
                    self._bytes += vectors.nbytes
            while self._bytes > _BYTES:
                self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return known | fresh

    def clear(self) -> None:
        """Forget all: what was purged must not stay in memory either."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
