"""Pruning by LLMLingua-2: a small model decides for each word whether it is needed.

The method: Pan et al., "LLMLingua-2: Data Distillation for Efficient and Faithful Task-Agnostic
Prompt Compression", ACL 2024 Findings. The model and the choice of words are those of the
package `llmlingua`; this adapter loads it without a network and cuts Chinese into words first.
"""

import importlib
import importlib.util
import os
import random
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit, check_rate
from jiyi.errors import InputError, JiyiError, MissingExtra, SettingsError
from jiyi.forks import free_after_fork
from jiyi.text import TokenCounter, counter_for
from jiyi.text.lexicon import jieba

__all__ = ["LLMLingua"]

_MODEL_NAMES = {"xlm-roberta": "xlm-roberta-large", "bert": "bert-base-multilingual-cased"}
_RATE_SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)  # shares of the rate, one after the other, until the limit holds
_HAN = r"\u3400-\u4dbf\u4e00-\u9fff"
_HAN_RUN = re.compile(rf"[{_HAN}]{{2,}}")
_BETWEEN_HAN = re.compile(rf"(?<=[{_HAN}，。！？；：、])[ ]+(?=[{_HAN}，。！？；：、])")


@dataclass(eq=False)
class LLMLingua:
    """A `Compressor` by an LLMLingua-2 model, which drops words (``pip install "jiyi[llmlingua]"``).

    - The model is loaded by the first call, once. Nothing is downloaded: a model is a folder, or a name that
      is in the cache of the Hugging Face hub on this machine (``hf download NAME`` puts it there). Code
      inside a model is not run.
    - Every line is pruned by itself. Words of ``force_tokens`` and words with digits stay, as far as the
      limit allows: where the model leaves more, it is asked for less, and in the end the rest is cut, with a
      note.
    - One call at a time uses the model, others wait for it.

    Raises:
        MissingExtra: the package `llmlingua` is not installed.
        InputError: ``rate`` is out of range or ``force_tokens`` is no list of texts.
        SettingsError: ``model`` is empty; when called: it cannot be loaded.
    """

    model: str | Path = "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"
    """A folder, or a name such as "microsoft/llmlingua-2-xlm-roberta-large-meetingbank", three times as large
    as the default; a token classifier on XLM-RoBERTa or multilingual BERT."""
    rate: float = 0.5  # share of tokens to leave, above 0, at most 1; a call's ``max_tokens`` replaces it
    force_tokens: Sequence[str] = ()  # words that stay, at most 100
    device: str = "cpu"  # or "cuda", "cuda:1", "mps"
    counter: TokenCounter | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not str(self.model).strip():
            raise SettingsError("model must name an LLMLingua-2 model or its folder")
        check_rate(self.rate, self.force_tokens)
        self._forced = [word for word in self.force_tokens if word]
        if len(self._forced) > 100:
            raise InputError(f"{len(self._forced)} force_tokens were given; LLMLingua-2 takes at most 100")
        if importlib.util.find_spec("llmlingua") is None:
            raise MissingExtra('LLMLingua-2 needs optional packages: pip install "jiyi[llmlingua]"')
        self._source = str(self.model)
        self._counter = self.counter or counter_for()
        self._model: Any = None
        self._lock = free_after_fork(threading.Lock())

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return the texts without the words the model finds needless; ``query`` is ignored.

        Raises, besides what `Compressor` does, JiyiError: the model failed on this text.
        """
        texts = Compressible(given, self._counter, "llmlingua", max_tokens)
        before = texts.tokens
        target = max(1, round(self.rate * before)) if max_tokens is None else max_tokens
        if before <= target:
            return texts.unchanged()
        notes: tuple[str, ...] = ()
        for share in _RATE_SHARES:
            rate = share * target / before
            pruned = ((self._prune_line(line, rate) for line in text.split("\n")) for text in texts.texts)
            parts = ["\n".join(filter(None, lines)) for lines in pruned]
            text = "\n".join(filter(None, parts))
            if self._counter.count_text(text) <= (before if max_tokens is None else max_tokens):
                break
        if self._counter.count_text(text) > target and max_tokens is not None:
            text = self._counter.truncate(text, max_tokens)
            notes = (f"the model left more than {max_tokens} tokens; the end was cut",)
        if self._counter.count_text(text) >= before:
            text, notes = texts.whole, ("the model found nothing needless",)
        rest, sources = text, []
        for message, part in zip(texts.messages, parts, strict=True):
            if part and rest:
                sources.append(message.id)
                rest = rest[len(part) + 1 :]
        return texts.result(text, sources, *notes)

    def _prune_line(self, line: str, rate: float) -> str:
        """Return a line, pruned; one that the model cannot read is left unchanged."""
        if not (line := line.strip()):
            return ""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            # The models read a stretch without spaces as one word.
            spaced = _HAN_RUN.sub(lambda run: f" {' '.join(jieba().cut(run[0]))} ", line)
            try:
                prune = self._model.compress_prompt_llmlingua2
                kept = {"force_tokens": self._forced, "force_reserve_digit": True}
                result = prune(spaced, rate=rate, drop_consecutive=True, **kept)
            except IndexError:  # the model knows none of its words
                return line
            except (RuntimeError, ValueError, AssertionError, KeyError) as error:
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                failed = f"the LLMLingua-2 model {self._source!r} failed ({reason})"
                raise JiyiError(f"{failed}: use PruneTokens for this text") from error
        return _BETWEEN_HAN.sub("", str(result["compressed_prompt"])).strip()

    def _load(self) -> Any:
        """Return the library's compressor, its parts set as its constructor would, but without a download.

        The constructor fetches a vocabulary of tiktoken to count with; jiyi's counter replaces it.
        """
        try:
            library = importlib.import_module("llmlingua.prompt_compressor")
            folder = self._source
            if not Path(folder).is_dir():
                hub = importlib.import_module("huggingface_hub")
                folder = hub.snapshot_download(folder, local_files_only=True)
            model = library.PromptCompressor.__new__(library.PromptCompressor)
            model.use_llmlingua2, model.retrieval_model, model.retrieval_model_name = True, None, None
            model.open_api_config, model.cache_bos_num, model.prefix_bos_num = {}, 10, 100
            model.oai_tokenizer = SimpleNamespace(encode=lambda text: range(self._counter.count_text(text)))
            options = {"trust_remote_code": False, "local_files_only": True}
            with _preserved_random_state():
                model.load_model(folder, self.device, options)
                model.init_llmlingua2()
        except (ImportError, OSError, RuntimeError, ValueError, AttributeError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())[:300]
            failed = f"the LLMLingua-2 model {self._source!r} cannot be loaded ({reason})"
            advice = "give the folder of a model, or put it into the hub's cache with `hf download NAME`"
            raise SettingsError(f"{failed}: {advice}") from error
        kind, labels = str(model.model.config.model_type), int(model.model.config.num_labels)
        if kind not in _MODEL_NAMES or labels != 2 or "TokenClassification" not in type(model.model).__name__:
            found = f"{type(model.model).__name__}, {labels} labels"
            advice = "use a token classifier with two labels on XLM-RoBERTa or multilingual BERT"
            raise SettingsError(f"{self._source!r} is no LLMLingua-2 model ({found}): {advice}")
        model.model_name = _MODEL_NAMES[kind]  # the library tells the two tokenizers apart by this name
        model.max_seq_len = min(model.max_seq_len, int(model.max_position_embeddings) - 2)
        model.tokenizer.model_max_length = 1 << 30  # the library cuts long lines into chunks itself
        model.model.eval()
        return model


@contextmanager
def _preserved_random_state() -> Iterator[None]:
    """Restore the states of the random generators, which the library seeds while it loads."""
    state, numpys, seed = random.getstate(), np.random.get_state(), os.environ.get("PYTHONHASHSEED")
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED", None)
        if seed is not None:
            os.environ["PYTHONHASHSEED"] = seed
        random.setstate(state)
        np.random.set_state(numpys)
