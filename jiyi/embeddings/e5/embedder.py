"""The bundled model as an embedder."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import get_args

import numpy as np

from jiyi.embeddings.e5.engines import EngineName
from jiyi.embeddings.e5.model import is_loaded, loaded_model
from jiyi.embeddings.e5.weights import DIMS
from jiyi.embeddings.embedder import TextKind, Vectors32, check_inputs
from jiyi.errors import EmbeddingError, SettingsError

__all__ = ["E5Embedder"]

_NAME = "e5:multilingual-e5-small-q4"


class E5Embedder:
    """Embeds Chinese, English and some 90 other languages without a network or a key.

    - The model is loaded by the first `embed`, or ahead of it by `load_in_background`; once
      per process, shared by all instances. Making an embedder and asking its name and size
      cost nothing.
    - "query" and "passage" texts get the model's own two prefixes.
    - A text counts up to the model's window of 512 tokens (about 2,000 characters of
      English, 800 of Chinese); the rest of a longer one is not read. That also bounds what
      a text can cost. Split long records first: `split_parts`.
    - A text's vector does not depend on what else is in the call, nor on other threads.
      Engines and processors differ by about 0.001 in a component, which changes no ranking
      to speak of: all share one name.
    - Each text takes one thread and lets go of the interpreter lock, so calls from several
      threads run side by side.

    Args:
        threads: how many texts of one call are embedded side by side, at least 1.
        engine: what computes: "onnxruntime", "numpy", or "auto", which is onnxruntime where
            it is installed.
        file: the model's data file; by default where `jiyi model where` finds it.

    Raises:
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

    @property
    def name(self) -> str:
        """Always "e5:multilingual-e5-small-q4"."""
        return _NAME

    @property
    def dims(self) -> int:
        """Always 384."""
        return DIMS

    @property
    def engine(self) -> str:
        """What computes, with its version: "onnxruntime 1.32.0". Loads the model.

        Raises:
            EmbeddingError: the model cannot be loaded.
        """
        return loaded_model(self._engine, self._file).engine.name

    def load_in_background(self) -> None:
        """Start to load the model in a thread, if nobody has; it ends when the model is there.

        What goes wrong is raised by the first `embed`.
        """
        if not is_loaded(self._engine, self._file):
            threading.Thread(target=self._load, name="jiyi-e5-load").start()

    def _load(self) -> None:
        with suppress(EmbeddingError):
            loaded_model(self._engine, self._file)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), 384).

        Raises:
            InputError: `texts` is not a sequence of strings, or `kind` is unknown.
            ModelMissing: its data file is not on this machine.
            EmbeddingError: the model cannot be loaded.
        """
        items = check_inputs(texts, kind)
        out = np.empty((len(items), DIMS), dtype=np.float32)
        if not items:
            return out
        model = loaded_model(self._engine, self._file)

        def fill(row: int) -> None:
            out[row] = model.embed(items[row], kind)

        # One text a call: padding several to one length costs more than it saves.
        if self._threads == 1 or len(items) == 1:
            for row in range(len(items)):
                fill(row)
        else:
            with ThreadPoolExecutor(min(self._threads, len(items)), "jiyi-e5") as pool:
                for _ in pool.map(fill, range(len(items))):
                    pass
        return out
