"""The embedder of an evaluation: it embeds each text once, and what that costs is measured."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings import CachedEmbedder, Embedder, TextKind, Vectors32

__all__ = ["MeasuredEmbedder", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a `MeasuredEmbedder` has cost so far; subtract two readings for the cost between them."""

    seconds: float = 0.0  # spent in `embed`
    query_seconds: float = 0.0  # embedding the queries took, counted at each use

    def __sub__(self, earlier: "Reading") -> "Reading":
        return Reading(
            seconds=self.seconds - earlier.seconds, query_seconds=self.query_seconds - earlier.query_seconds
        )


class MeasuredEmbedder(CachedEmbedder):
    """A cache without a limit that knows what it took: several systems are measured for the price of one."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner, size=sys.maxsize)
        self._seconds_of: dict[str, float] = {}  # seconds, by query
        self._seconds = self._query_seconds = 0.0

    def read(self) -> Reading:
        """Return what it has cost so far."""
        return Reading(seconds=self._seconds, query_seconds=self._query_seconds)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """As `CachedEmbedder.embed`."""
        started = time.perf_counter()
        matrix = super().embed(texts, kind)
        with self._lock:
            self._seconds += time.perf_counter() - started
            self._query_seconds += sum(map(self._seconds_of.__getitem__, texts)) if kind == "query" else 0.0
        return matrix

    def _embed_with_inner(self, texts: list[str], kind: TextKind) -> list[NDArray[np.float32]]:
        started = time.perf_counter()
        rows = super()._embed_with_inner(texts, kind)
        if kind == "query":
            self._seconds_of |= dict.fromkeys(texts, (time.perf_counter() - started) / len(texts))
        return rows
