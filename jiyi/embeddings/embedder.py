"""Text to vectors: the protocol of embedders, a cache for any of them, and what they share."""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from jiyi.errors import EmbeddingError, InputError, JiyiError, SettingsError
from jiyi.forks import free_after_fork
from jiyi.text import without_surrogates

__all__ = [
    "CachedEmbedder", "Embedder", "TextKind", "Vectors32", "check_inputs", "check_texts", "clean_text",
    "items_in_order",
]  # fmt: skip

TextKind = Literal["query", "passage"]
"""Questions and stored texts are embedded differently by most retrieval models."""

Vectors32 = NDArray[np.float32]
"""A float32 matrix of shape (texts, dims) with rows of length 1."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose dot product says how alike they are.

    Guarantees: one row per text, in order; float32, L2-normalised, finite; the same text and kind give the
    same row; any text is accepted, empty, huge or malformed; safe to call from several threads.
    """

    @property
    def name(self) -> str:
        """Identity of model and settings, stored with the data: "e5:multilingual-e5-small-q4"."""

    @property
    def dims(self) -> int:
        """Length of a vector. May ask the model once; EmbeddingError: it cannot be asked."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), dims); no partial answer is given.

        InputError: ``texts`` is a bare string or holds something else than text. EmbeddingError: the model
        failed.
        """


@dataclass(eq=False)
class CachedEmbedder:
    """Keeps the vectors of the last `size` different texts in memory.

    - Same name, size and answers as the embedder inside; a returned matrix is the caller's own.
    - Only texts not in memory are sent on, in one call, each once per call; two threads that miss the same
      text at the same moment may both send it on.
    - Memory: a hash of each text and its vector, about 15 MB for 10,000 vectors of 384 dimensions.

    SettingsError: `size` is below 1.
    """

    inner: Embedder  # the embedder that does the work
    size: int = 10_000  # texts

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SettingsError(f"size must be at least 1, not {self.size}")
        # Used last at the end.
        self._rows: OrderedDict[tuple[str, bytes], NDArray[np.float32]] = OrderedDict()
        self._lock = free_after_fork(threading.Lock())

    @property
    def name(self) -> str:
        """The name of the embedder inside."""
        return self.inner.name

    @property
    def dims(self) -> int:
        """The vector length of the embedder inside."""
        return self.inner.dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), dims), asking the inner embedder only for what is new.

        Any exception of the inner embedder becomes an `EmbeddingError`; vectors already in memory stay.
        """
        items = check_inputs(texts, kind)
        if not items:
            return self.inner.embed([], kind)
        encoded = (text.encode("utf-8", "surrogatepass") for text in items)
        keys = [(kind, hashlib.blake2b(data, digest_size=16).digest()) for data in encoded]
        with self._lock:
            rows = {key: self._rows[key] for key in keys if key in self._rows}
        missing = {key: text for key, text in zip(keys, items, strict=True) if key not in rows}
        if missing:
            rows |= zip(missing, self._embed_with_inner(list(missing.values()), kind), strict=True)
        with self._lock:
            for key in keys:
                self._rows[key] = rows[key]
                self._rows.move_to_end(key)
            while len(self._rows) > self.size:
                self._rows.popitem(last=False)
        return np.stack([rows[key] for key in keys])

    def clear(self) -> None:
        """Forget every vector in memory."""
        with self._lock:
            self._rows.clear()

    def _embed_with_inner(self, texts: list[str], kind: TextKind) -> list[NDArray[np.float32]]:
        try:
            # Copies: a view would keep the whole matrix of its call alive.
            return [row.copy() for _, row in zip(texts, self.inner.embed(texts, kind), strict=True)]
        except JiyiError:
            raise
        except Exception as error:  # an embedder of the caller may raise anything
            raise EmbeddingError(f"the embedder failed: {error!r}") from error


def check_inputs(texts: Sequence[str], kind: str) -> list[str]:
    """Do as `check_texts`; raise InputError also if `kind` is neither "query" nor "passage"."""
    if kind not in ("query", "passage"):
        raise InputError(f'kind must be "query" or "passage", not {kind!r}')
    return check_texts(texts, "embed([text], kind)")


def check_texts(texts: Sequence[str], call: str) -> list[str]:
    """Return `texts` as a list or raise InputError; `call` shows the right call in the message."""
    verb = call.partition("(")[0]
    if isinstance(texts, str):
        raise InputError(f"{verb}() takes a list of texts, not one string: write {call}")
    items = list(texts)
    if wrong := [type(item).__name__ for item in items if not isinstance(item, str)]:
        raise InputError(f"{verb}() takes texts, not {wrong[0]}")
    return items


def clean_text(text: str, limit: int) -> str:
    """Return the first `limit` characters of `text` that C and UTF-8 can carry: NUL becomes a space."""
    return without_surrogates(text[:limit].replace("\0", " "))


def items_in_order(
    body: bytes, lists: Sequence[str], count: int, what: str, *, by_place: bool = False
) -> list[dict[str, Any]]:
    """Return the `count` objects of an endpoint's answer, by their field `index`.

    The list stands under one of the names `lists`, or is the answer itself where they include "". With
    `by_place` an object without an index gets its place as one. `what` is what the objects hold, for errors.

    ValueError: it is not such an answer; the message says what is wrong, quoting nothing.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if isinstance(answer, dict):
        answer = next((answer[name] for name in lists if name in answer), None)
    elif "" not in lists:
        answer = None
    if not isinstance(answer, list):
        raise ValueError(f"it has no list under '{lists[0]}'")
    if len(answer) != count:
        raise ValueError(f"{count} texts were sent, {len(answer)} {what} came back")
    by_index: dict[int, dict[str, Any]] = {}
    for position, item in enumerate(answer):
        index = item.get("index", position if by_place else None) if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or index in by_index:
            raise ValueError(f"item {position} has a wrong or repeated index")
        by_index[index] = item
    return [by_index[index] for index in range(count)]
