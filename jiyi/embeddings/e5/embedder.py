"""The bundled model as an embedder. It is loaded once per process and engine, and shared."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.engines import Engine, EngineName, make_engine
from jiyi.embeddings.e5.locate import check_model, model_file
from jiyi.embeddings.e5.tokenizer import Tokenizer
from jiyi.embeddings.e5.weights import DIMS, WINDOW, Weights
from jiyi.embeddings.embedder import TextKind, Vectors32, check_inputs, clean_text
from jiyi.errors import EmbeddingError, SettingsError

_MAX_CHARS = 4_096  # read of a text at most; a window of prose is about 2,300


class E5Embedder:
    """Embeds Chinese, English and some 90 other languages without a network or a key.

    - The model is loaded by the first `embed`, or ahead of it by `load_in_background`; once per process,
      shared by all instances. Its file is by default that which `jiyi model where` names.
    - "query" and "passage" texts get the model's own two prefixes. A text counts up to the window of 512
      tokens (about 2,000 characters of English, 800 of Chinese). Split long records first: `split_parts`.
    - A text's vector does not depend on what else is in the call, nor on other threads. Engines ("auto" is
      onnxruntime where it is installed, else numpy) and processors differ by about 0.001 in a component.
    - Each text takes one thread and lets go of the interpreter lock; of one call ``threads`` texts are
      embedded side by side.

    SettingsError: `threads` is below 1, or there is no such engine.
    """

    def __init__(self, threads: int = 1, engine: EngineName = "auto", *, file: Path | None = None) -> None:
        if threads < 1:
            raise SettingsError(f"threads must be at least 1, not {threads}")
        if engine not in get_args(EngineName):
            raise SettingsError(f"engine must be one of {', '.join(get_args(EngineName))}, not {engine!r}")
        self._threads = threads
        self._engine: EngineName = engine
        self._file = file

    def __repr__(self) -> str:
        return f"E5Embedder(threads={self._threads}, engine={self._engine!r})"

    name = "e5:multilingual-e5-small-q4"
    """Identity of model and settings."""
    dims = DIMS
    """Length of a vector: 384."""

    @property
    def engine(self) -> str:
        """What computes, with its version: "onnxruntime 1.32.0". Loads the model, as `load_model`."""
        return load_model(self._engine, self._file).engine.name

    def load_in_background(self) -> None:
        """Start to load the model in a thread, once; what goes wrong is raised by the first `embed`."""

        def load() -> None:
            with suppress(EmbeddingError, RuntimeError):  # RuntimeError: the program is ending
                load_model(self._engine, self._file)

        if (self._engine, self._file) not in _models and not _loading.locked():  # nor being loaded
            threading.Thread(target=load, name="jiyi-e5-load").start()

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), 384); raises as `Embedder` and `load_model`."""
        items = check_inputs(texts, kind)
        out = np.empty((len(items), DIMS), dtype=np.float32)
        if not items:
            return out
        model = load_model(self._engine, self._file)

        def fill(row: int) -> None:
            out[row] = model.embed(items[row], kind)

        # One text a call: padding several to one length costs more than it saves.
        if (threads := min(self._threads, len(items))) == 1:
            list(map(fill, range(len(items))))
        else:
            with ThreadPoolExecutor(threads, "jiyi-e5") as pool:
                list(pool.map(fill, range(len(items))))
        return out


class _Model:
    """Vocabulary, word vectors and engine; safe to use from several threads."""

    def __init__(self, weights: Weights, engine: EngineName) -> None:
        self.tokenizer = Tokenizer(weights.vocabulary())
        self.engine: Engine = make_engine(engine, weights)
        self._words = weights.blocks("emb.word", DIMS)
        self._positions = weights.floats("emb.pos").reshape(-1, DIMS) + weights.floats("emb.type")[:DIMS]

    def ids(self, text: str, kind: TextKind) -> list[int]:
        """Return the ids of prefix and text, cut to the window, with the ids that mark beginning and end."""
        ids = self.tokenizer.ids(f"{kind}: {clean_text(text, _MAX_CHARS)}")[: WINDOW - 2]
        return [self.tokenizer.first, *ids, self.tokenizer.last]

    def embed(self, text: str, kind: TextKind) -> NDArray[np.float32]:
        """Return a vector of length 1."""
        ids = self.ids(text, kind)
        mean = self.engine.compute_mean(self._words.rows(np.array(ids)) + self._positions[: len(ids)])
        mean /= np.sqrt(mean @ mean)
        return mean


_models: dict[tuple[EngineName, Path | None], _Model] = {}
_loading = threading.Lock()
if hasattr(os, "register_at_fork"):  # else a child could wait for ever for a lock that its parent held
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )


def load_model(engine: EngineName, file: Path | None = None) -> _Model:
    """Return the model of a data file, by default the one on this machine, loading it the first time.

    Raises:
        ModelMissing: there is no data file.
        EmbeddingError: the file is damaged or not this model, or the engine cannot be used.
    """
    key = engine, file
    if key not in _models:
        with _loading:
            if key not in _models:
                _models[key] = _load_checked(engine, file)
    return _models[key]


def _load_checked(engine: EngineName, given: Path | None) -> _Model:
    weights = Weights(file := model_file(given))
    with ThreadPoolExecutor(1, "jiyi-e5-check") as pool:  # the check takes as long as the rest
        checked = pool.submit(check_model, file)
        try:
            return _Model(weights, engine)
        finally:
            checked.result()  # where a damaged file made the lines above fail, this says why
