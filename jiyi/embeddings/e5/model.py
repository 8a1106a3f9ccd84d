"""The loaded model: text to vector. One per process and engine, shared by all embedders."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.e5.engines import Engine, EngineName, make_engine
from jiyi.embeddings.e5.locate import model_file
from jiyi.embeddings.e5.tokenizer import Tokenizer
from jiyi.embeddings.e5.weights import DIMS, WINDOW, Weights
from jiyi.embeddings.embedder import TextKind, clean_text

__all__ = ["Model", "is_loaded", "loaded_model"]

_MAX_CHARS = 4_096  # more than this is not even read; a window of prose is about 2,300


class Model:
    """Vocabulary, word vectors and engine; safe to use from several threads."""

    def __init__(self, weights: Weights, engine: EngineName) -> None:
        self.tokenizer = Tokenizer(weights.vocabulary())
        self.engine: Engine = make_engine(engine, weights)
        self._words = weights.blocks("emb.word", DIMS)
        self._places = weights.floats("emb.pos").reshape(-1, DIMS) + weights.floats("emb.type")[:DIMS]

    def ids(self, text: str, kind: TextKind) -> list[int]:
        """Return the ids of the window: prefix and text between the marks of beginning and end."""
        ids = self.tokenizer.ids(f"{kind}: {clean_text(text, _MAX_CHARS)}")[: WINDOW - 2]
        return [self.tokenizer.first, *ids, self.tokenizer.last]

    def embed(self, text: str, kind: TextKind) -> NDArray[np.float32]:
        """Return a vector of length 1."""
        ids = self.ids(text, kind)
        mean = self.engine.mean(self._words.rows(np.array(ids)) + self._places[: len(ids)])
        mean /= np.sqrt(mean @ mean)
        return mean


_models: dict[tuple[EngineName, Path | None], Model] = {}
_loading = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child would wait for ever for a model its parent was loading
    os.register_at_fork(
        before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
    )


def loaded_model(engine: EngineName, file: Path | None = None) -> Model:
    """Return the model of a data file, by default the one on this machine, loading it the first time.

    Raises:
        ModelMissing: there is no data file.
        EmbeddingError: it is damaged or another one, or the engine cannot be had.
    """
    key = engine, file
    if key not in _models:
        with _loading:
            if key not in _models:
                _models[key] = _load(engine, file)
    return _models[key]


def is_loaded(engine: EngineName, file: Path | None = None) -> bool:
    """Return whether the model is there or on its way."""
    return (engine, file) in _models or _loading.locked()


def _load(engine: EngineName, file: Path | None) -> Model:
    weights = Weights(model_file(file))
    with ThreadPoolExecutor(1, "jiyi-e5-check") as pool:  # the check takes as long as the rest
        checked = pool.submit(weights.check)
        try:
            return Model(weights, engine)
        finally:
            checked.result()  # a damaged file may have failed above in any way: this says why
