"""The embedder of an evaluation: it embeds each text once, and what that costs is measured."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings import Embedder, TextKind, Vectors32
from jiyi.embeddings.embedder import check_inputs

__all__ = ["MeasuredEmbedder", "Reading"]

_Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a `MeasuredEmbedder` has cost so far; subtract two readings for the cost between them."""

    seconds: float = 0.0  # spent in `embed`
    query_seconds: float = 0.0  # embedding the queries took, counted at each use

    def __sub__(self, earlier: "Reading") -> "Reading":
        return Reading(
            seconds=self.seconds - earlier.seconds, query_seconds=self.query_seconds - earlier.query_seconds
        )


class MeasuredEmbedder:
    """An `Embedder` that embeds each text once and knows what it took.

    Same name, size and answers as the embedder inside. Every vector stays in memory, so that several
    systems are measured for the price of one.
    """

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._rows: dict[tuple[TextKind, bytes], _Row] = {}
        self._seconds_of: dict[bytes, float] = {}  # seconds, by query
        self._seconds = self._query_seconds = 0.0
        self._lock = Lock()

    @property
    def name(self) -> str:
        """Identity of the embedder inside."""
        return self._inner.name

    @property
    def dims(self) -> int:
        """The vector length of the embedder inside."""
        return self._inner.dims

    def read(self) -> Reading:
        """Return what it has cost so far."""
        return Reading(seconds=self._seconds, query_seconds=self._query_seconds)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """As `Embedder.embed`, sending on only what is new."""
        started = time.perf_counter()
        items = check_inputs(texts, kind)
        if not items:
            return self._inner.embed([], kind)
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in items]
        new = {k: t for k, t in zip(keys, items, strict=True) if (kind, k) not in self._rows}
        self._rows |= {(kind, key): row for key, row in self._embed_new(new, kind).items()}
        matrix = np.stack([self._rows[kind, key] for key in keys])
        with self._lock:
            self._seconds += time.perf_counter() - started
            self._query_seconds += sum(self._seconds_of[key] for key in keys) if kind == "query" else 0.0
        return matrix

    def _embed_new(self, texts: Mapping[bytes, str], kind: TextKind) -> dict[bytes, _Row]:
        if not texts:
            return {}
        started = time.perf_counter()
        rows = [row.copy() for row in self._inner.embed(list(texts.values()), kind)]
        if kind == "query":
            each = (time.perf_counter() - started) / len(texts)
            self._seconds_of |= dict.fromkeys(texts, each)
        return dict(zip(texts, rows, strict=True))
