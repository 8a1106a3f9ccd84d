"""Reranking by a cross-encoder on this machine, through `sentence-transformers`."""

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from jiyi.errors import MissingExtra, RerankError, SettingsError
from jiyi.forks import free_after_fork
from jiyi.rerank.reranker import check_query

__all__ = ["CrossEncoderReranker"]

_MAX_CHARS_PER_TOKEN = 16  # of a text, for each token of `max_length`


@dataclass(eq=False)
class CrossEncoderReranker:
    """A `Reranker` that runs a model here (`pip install "jiyi[cross-encoder]"`).

    - The model is loaded by the first `score`, once. Nothing is downloaded: a model is a folder, or a name
      such as "BAAI/bge-reranker-v2-m3" that is in the cache of the Hugging Face hub on this machine (``hf
      download NAME`` puts it there). It runs on ``device``: "cpu", "cuda:1", "mps", ...; None is the fastest
      there is.
    - Query and text count together up to `max_length` tokens, or up to the model's own window where that is
      smaller; the rest of the longer of the two is not read.
    - One call at a time uses the model, others wait for it; it reads `batch_size` pairs together.

    Raises MissingExtra (the package `sentence-transformers` is not installed), SettingsError (an argument).
    """

    model_name_or_path: str | Path
    device: str | None = None
    _: KW_ONLY
    max_length: int = 512
    batch_size: int = 16

    def __post_init__(self) -> None:
        if not str(self.model_name_or_path).strip():
            raise SettingsError("model_name_or_path must name a model or its folder")
        if min(self.max_length, self.batch_size) < 1:
            raise SettingsError("max_length and batch_size must be at least 1")
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtra('cross-encoders need an optional package: pip install "jiyi[cross-encoder]"')
        self._source = str(self.model_name_or_path)
        self._model: Any = None
        self._lock = free_after_fork(threading.Lock())

    @property
    def name(self) -> str:
        """The word "cross-encoder:" and the model, without the folders it lies in."""
        folder = Path(self._source)
        return f"cross-encoder:{folder.name if folder.is_dir() else self._source}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each of `texts`, on the model's own scale; errors are those of `Reranker`."""
        question, items = check_query(query, texts, self.max_length * _MAX_CHARS_PER_TOKEN)
        if not items:
            return []
        with self._lock:
            try:
                if self._model is None:
                    self._model = self._load()
                pairs = [(question, item) for item in items]
                scores = self._model.predict(pairs, batch_size=self.batch_size, show_progress_bar=False)
                return [float(score) for score in scores]
            except Exception as error:
                raise RerankError(f"{self.name} failed: {error}") from error

    def _load(self) -> Any:
        from huggingface_hub import snapshot_download
        from sentence_transformers import CrossEncoder

        # The hub's own "local files only" still asks the hub whether a name exists.
        folder = self._source
        if not Path(folder).is_dir():
            folder = snapshot_download(folder, local_files_only=True)
        model = CrossEncoder(folder, device=self.device, local_files_only=True)
        model.max_seq_length = min(model.max_seq_length or self.max_length, self.max_length)
        return model
