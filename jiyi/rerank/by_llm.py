"""Reranking by a language model that gives each passage a score."""

from collections.abc import Sequence
from typing import Literal

from jiyi.errors import LLMError, RerankError, SettingsError
from jiyi.llm import LLM, ask_each
from jiyi.prompts import quote
from jiyi.rerank.reranker import check_query
from jiyi.text import counter_for
from jiyi.text.analyse import language as language_of

__all__ = ["LLMReranker"]

_MAX_TEXT_CHARS = 20_000  # of a text, before its tokens are counted
_SCORE = {"type": "integer", "minimum": 0, "maximum": 10}


class LLMReranker:
    """A `Reranker` that asks a language model for a score from 0 to 10 for each passage.

    - Passages and query are quoted as data; what they say is no instruction to the model.
    - The model answers by a JSON schema with one entry a passage, checked, and repaired
      once; an answer that still leaves one out is an error, never a guess.
    - Costs one call of the model for every `batch_size` passages, one after the other, and
      `passage_tokens` a passage; scores of different batches are given apart, on one scale.

    Args:
        llm: the model.
        language: of the prompt; "auto": as the query.
        batch_size: passages in one prompt, at most.
        passage_tokens: tokens shown of a passage and of the query, by o200k_base; of a
            longer one the beginning.

    Raises:
        SettingsError: a number is below 1.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        language: Literal["auto", "zh", "en"] = "auto",
        batch_size: int = 20,
        passage_tokens: int = 200,
    ) -> None:
        if min(batch_size, passage_tokens) < 1:
            raise SettingsError("batch_size and passage_tokens must be at least 1")
        self._llm = llm
        self._language = language
        self._batch_size = batch_size
        self._passage_tokens = passage_tokens
        self._counter = counter_for("o200k_base")

    def __repr__(self) -> str:
        return f"LLMReranker({self._llm!r})"

    @property
    def name(self) -> str:
        """The word "llm:" and the name of the model, or of its class where it has none."""
        return f"llm:{getattr(self._llm, 'name', type(self._llm).__name__)}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a whole number from 0 to 10 for each of `texts`; errors are those of `Reranker`."""
        question, items = check_query(query, texts, _MAX_TEXT_CHARS)
        scores: list[float] = []
        for start in range(0, len(items), self._batch_size):
            scores += self._score_batch(question, items[start : start + self._batch_size])
        return scores

    def _score_batch(self, query: str, texts: list[str]) -> list[float]:
        language = language_of(query) if self._language == "auto" else self._language
        shown = [self._truncate(text) for text in texts]
        query = quote(self._truncate(query))
        try:
            scores = ask_each(self._llm, "rerank", shown, _SCORE, language=language, query=query)
        except LLMError as error:
            raise RerankError(f"the language model gave no scores: {error}") from error
        return [float(score) for score in scores]

    def _truncate(self, text: str) -> str:
        return self._counter.truncate(text.strip(), self._passage_tokens)
