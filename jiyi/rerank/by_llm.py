"""Reranking by a language model that gives each passage a score."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from jiyi.errors import LLMError, RerankError, SettingsError
from jiyi.llm import LLM, ask_each
from jiyi.prompts import quote
from jiyi.rerank.reranker import check_query
from jiyi.storage import batched
from jiyi.text import counter_for
from jiyi.text.analyse import language as language_of

__all__ = ["LLMReranker"]

_MAX_TEXT_CHARS = 20_000  # of a text, before its tokens are counted
_SCORE = {"type": "integer", "minimum": 0, "maximum": 10}


@dataclass(eq=False)
class LLMReranker:
    """A `Reranker` that asks a language model for a score from 0 to 10 for each passage.

    - Passages and query are quoted as data, up to `passage_tokens` of each by o200k_base; what they say is
      no instruction to the model.
    - The model answers by a JSON schema with one entry a passage, checked, and repaired
      once; an answer that still leaves one out is an error, never a guess.
    - One call for every `batch_size` passages, one after the other, on one scale.

    SettingsError: a number is below 1.
    """

    llm: LLM
    _: KW_ONLY
    language: Literal["auto", "zh", "en"] = "auto"  # of the prompt; auto: of the query
    batch_size: int = 20
    passage_tokens: int = 200

    def __post_init__(self) -> None:
        if min(self.batch_size, self.passage_tokens) < 1:
            raise SettingsError("batch_size and passage_tokens must be at least 1")
        self._counter = counter_for("o200k_base")

    @property
    def name(self) -> str:
        """The word "llm:" and the name of the model, or of its class where it has none."""
        return f"llm:{getattr(self.llm, 'name', type(self.llm).__name__)}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a whole number from 0 to 10 for each of `texts`; errors are those of `Reranker`."""
        question, items = check_query(query, texts, _MAX_TEXT_CHARS)
        language = language_of(question) if self.language == "auto" else self.language
        asked, *shown = (self._counter.truncate(t.strip(), self.passage_tokens) for t in (question, *items))
        scores: list[float] = []
        for batch in batched(shown, self.batch_size):
            try:
                answers = ask_each(self.llm, "rerank", batch, _SCORE, language=language, query=quote(asked))
            except LLMError as error:
                raise RerankError(f"the language model gave no scores: {error}") from error
            scores += map(float, answers)
        return scores
