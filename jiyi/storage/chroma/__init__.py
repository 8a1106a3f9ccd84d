"""Vectors in Chroma beside a store that stays the truth. Needs the extra ``jiyi[chroma]``."""

from jiyi.storage.chroma.drift import Drift
from jiyi.storage.chroma.store import ChromaStore
from jiyi.storage.chroma.trash import ChromaTrash
from jiyi.storage.chroma.vectors import ChromaVectors, open_vectors

__all__ = ["ChromaStore", "ChromaTrash", "ChromaVectors", "Drift", "open_vectors"]
