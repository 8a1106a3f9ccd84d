"""Reranking by a /rerank API: Jina, Cohere, SiliconFlow, vLLM, llama.cpp, Text Embeddings Inference, ..."""

import sys
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from jiyi.embeddings.embedder import items_in_order
from jiyi.endpoint import Endpoint, Failure, Faults, get_breaker, retry_within
from jiyi.errors import RerankError, SettingsError
from jiyi.posting import post
from jiyi.rerank.reranker import check_query

__all__ = ["EndpointReranker"]

_FAULTS = Faults(
    unreachable=RerankError,
    refused=RerankError,
    advice={
        404: "check base_url (it is asked at base_url + /rerank) and the name of the model",
        413: "lower max_chars, or rerank fewer texts",
    },
    other_advice="check base_url, the name of the model and max_chars",
    misfit="did not answer as a rerank endpoint does",
    misfit_advice="check base_url and that the model is a reranker",
)


@dataclass(eq=False, repr=False)
class EndpointReranker:
    """A `Reranker` behind an HTTP API, asked with the standard library.

    - Making one connects to nothing. Each call is one connection and one request, to the endpoint's address
      with "/rerank" appended, unless it ends in "/rerank" or "/reranks".
    - Tries again as `jiyi.endpoint.retry_within` does, for `time_limit` seconds.
    - Redirects are refused, answers above 10 MB too; answers are checked: number, indexes, finite scores.
    - Texts are sent up to `max_chars` characters, an empty one as a space.
    - The key appears in no error, name or repr.

    SettingsError: an argument has an unusable value.
    """

    model: str
    _: KW_ONLY
    endpoint: Endpoint
    time_limit: float = 10.0
    max_chars: int = 8_000

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if not 0 < self.time_limit < float("inf") or self.max_chars < 1:
            raise SettingsError("time_limit must be a number above 0, and max_chars at least 1")
        self._url = _rerank_url(self.endpoint)
        self._breaker = get_breaker(self.endpoint, self.model, _FAULTS)
        self._bare = False  # whether it takes a request without a model

    def __repr__(self) -> str:
        return f"EndpointReranker({self.name!r} at {self.endpoint.shown})"

    @property
    def name(self) -> str:
        """The word "endpoint:" and the model."""
        return f"endpoint:{self.model}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each of `texts`, on the model's own scale; errors are those of `Reranker`."""
        question, items = check_query(query, texts, self.max_chars)
        if not items:
            return []
        question, items = question or " ", [item or " " for item in items]
        ask = partial(self._request_scores, question, items)
        return retry_within(
            ask, self._breaker, endpoint=self.endpoint, faults=_FAULTS, time_limit=self.time_limit
        )

    def _request_scores(self, query: str, texts: list[str], left: float, attempt: int) -> list[float]:
        deadline = time.monotonic() + left

        def ask(body: dict[str, Any]) -> bytes:
            left = max(deadline - time.monotonic(), 0.001)
            return post(self.endpoint, self._url, body, _FAULTS, left=left, attempt=attempt)

        # As Text Embeddings Inference reads it, which serves one model.
        bare = {"query": query, "texts": texts, "truncate": True, "raw_scores": False}
        # As Jina, Cohere and SiliconFlow read it.
        named = {"model": self.model, "query": query, "documents": texts, "top_n": len(texts)}
        try:
            body = ask(bare if self._bare else {**named, "return_documents": False})
        except Failure as failure:
            # Text Embeddings Inference says that a field `texts` is missing.
            if failure.status not in (400, 422) or "texts" not in failure.words:
                raise
            body = ask(bare)
            self._bare = True
        try:
            return _read_scores(body, len(texts))
        except ValueError as error:
            raise _FAULTS.unusable(self.endpoint, error, body) from None


def _rerank_url(endpoint: Endpoint) -> str:
    parts = urlsplit(endpoint.url)
    if "@" in parts.netloc:
        raise SettingsError("a reranker's base_url takes no user and password: give the key as api_key")
    path = parts.path.rstrip("/")
    if not path.endswith(("/rerank", "/reranks")):
        path += "/rerank"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _read_scores(body: bytes, count: int) -> list[float]:
    """Return the `count` scores of an answer in the order of the texts; a ValueError says what is wrong.

    Understood are ``{"results": [{"index": 0, "relevance_score": 0.9}, ...]}`` (Jina,
    Cohere, SiliconFlow, vLLM, llama.cpp), the same under "data" (Voyage), and a bare list
    of ``{"index": 0, "score": 0.9}`` (Text Embeddings Inference).
    """
    items = items_in_order(body, ["results", "data", ""], count, "scores")
    return [_read_score(item.get("relevance_score", item.get("score")), i) for i, item in enumerate(items)]


def _read_score(value: Any, index: int) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"the score of text {index} is no number but {type(value).__name__}")
    if not abs(value) <= sys.float_info.max:
        raise ValueError(f"the score of text {index} is not finite")
    return float(value)
