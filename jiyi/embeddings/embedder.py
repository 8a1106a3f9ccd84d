"""Text to vectors: the protocol every embedder follows, and what each does to its input first."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import InputError

__all__ = ["Embedder", "TextKind", "Vectors32", "check_inputs", "clean_text"]

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


def check_inputs(texts: Sequence[str], kind: str) -> list[str]:
    """Return `texts` as a list.

    Raises:
        InputError: `texts` is one string instead of a sequence of them, holds something
            that is not text, or `kind` is neither "query" nor "passage".
    """
    if isinstance(texts, str):
        raise InputError("embed() takes a list of texts, not one string: write embed([text], kind)")
    if kind not in ("query", "passage"):
        raise InputError(f'kind must be "query" or "passage", not {kind!r}')
    items = list(texts)
    for item in items:
        if not isinstance(item, str):
            raise InputError(f"embed() takes texts, not {type(item).__name__}")
    return items


def clean_text(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text` in a form that C and UTF-8 can carry.

    NUL, which ends a C string, becomes a space. Two surrogates that make a character are
    joined into it, a lone one becomes U+FFFD.
    """
    text = text[:limit].replace("\0", " ")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
