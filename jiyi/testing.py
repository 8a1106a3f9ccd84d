"""For tests of programs that use jiyi: an instant embedder and a clock set by hand."""

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from jiyi.embeddings import TextKind, Vectors32
from jiyi.forks import free_after_fork
from jiyi.text import analyse


@dataclass(eq=False)
class HashEmbedder:
    """An `Embedder` without a model: texts are as similar as the search terms they share.

    Deterministic on every machine, some thousand texts a second. It knows no synonyms and
    no translations; use it in tests that are not about the quality of recall.
    """

    dims: int = 64  # length of a vector

    @property
    def name(self) -> str:
        """Identity of the embedder."""
        return f"hash:{self.dims}"

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:  # noqa: ARG002
        """Return a matrix of shape (len(texts), dims); query and passage are embedded alike."""
        matrix = np.zeros((len(texts), self.dims), np.float32)
        for i, text in enumerate(texts):
            for term in analyse(text) or [""]:
                digest = hashlib.blake2b(term.encode(), digest_size=8).digest()
                matrix[i, int.from_bytes(digest[:4], "big") % self.dims] += 1.0 if digest[4] & 1 else -1.0
            if not matrix[i].any():
                matrix[i, 0] = 1.0
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        return matrix


class ManualClock:
    """A `Clock` that stands still until it is moved; safe to share between threads."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._lock = free_after_fork(threading.Lock())

    def __call__(self) -> datetime:
        """Return the present."""
        with self._lock:
            return self._now

    def forward(self, **by: float) -> datetime:
        """Move on by a `timedelta` given in its words, such as ``minutes=31``; return the new present."""
        with self._lock:
            self._now += timedelta(**by)
            return self._now
