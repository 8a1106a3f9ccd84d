"""Text to vectors: the protocol every embedder follows."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Embedder", "TextKind", "Vectors32"]

TextKind = Literal["query", "passage"]
"""Questions and stored texts are embedded differently by most retrieval models."""

Vectors32 = NDArray[np.float32]
"""A float32 matrix of shape (texts, dims) with rows of length 1."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how alike they are.

    Guarantees: one row per text, in order; float32, L2-normalised, finite; the same text
    and kind give the same row; any text is accepted, empty, huge or malformed; safe to
    call from several threads.
    """

    @property
    def name(self) -> str:
        """Identity of model and settings, stored with the data: "e5:multilingual-e5-small-q4"."""
        ...

    @property
    def dims(self) -> int:
        """Length of a vector. May ask the model once.

        Raises:
            EmbeddingError: the model cannot be asked.
        """
        ...

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), dims).

        Raises:
            InputError: ``texts`` is a bare string or holds something else than text.
            EmbeddingError: the model failed; no partial answer is given.
        """
        ...
