"""Vectors in Chroma; the store stays the truth. Needs the extra ``jiyi[chroma]``."""

from jiyi.storage.chroma.outbox import Drift
from jiyi.storage.chroma.vectors import ChromaVectors, open_vectors

__all__ = ["ChromaVectors", "Drift", "open_vectors"]
