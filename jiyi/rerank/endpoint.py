"""Reranking by a /rerank API: Jina, Cohere, SiliconFlow, vLLM, llama.cpp, Text Embeddings Inference, ..."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from jiyi.endpoint import Endpoint, Failure, Faults, patiently
from jiyi.errors import RerankError, SettingsError
from jiyi.rerank.answers import read_scores
from jiyi.rerank.inputs import check_texts
from jiyi.rerank.post import TooMuch, post_json

__all__ = ["EndpointReranker"]

_MOST_BYTES = 10_000_000  # of an answer; one score takes about 60

_FAULTS = Faults(
    unreachable=RerankError,
    refused=RerankError,
    advice={
        401: "check api_key",
        403: "check api_key and what it is allowed to use",
        404: "check base_url (it is asked at base_url + /rerank) and the name of the model",
        413: "lower max_chars, or rerank fewer texts",
    },
    other_advice="check base_url, the name of the model and max_chars",
)


class EndpointReranker:
    """A `Reranker` behind an HTTP API, asked with the standard library.

    - Making one connects to nothing. Each call is one connection and one request.
    - Tries again after time-outs, broken connections, 408, 409, 429 and 5xx, as often as
      `endpoint.retries` says and `time_limit` lets it.
    - Redirects are refused, answers above 10 MB too; answers are checked: number, indexes,
      finite scores.
    - Texts are sent up to `max_chars` characters, an empty one as a space.
    - The key appears in no error, name or repr.

    Args:
        model: the model's name at the endpoint.
        endpoint: where it is; "/rerank" is put behind its address, unless that ends in
            "/rerank" or "/reranks".
        time_limit: seconds after which nothing further is tried.
        max_chars: longest text sent; the rest of a longer one is not read.

    Raises:
        SettingsError: an argument has an unusable value.
    """

    def __init__(
        self, model: str, *, endpoint: Endpoint, time_limit: float = 10.0, max_chars: int = 8_000
    ) -> None:
        if not model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if not 0 < time_limit < float("inf") or max_chars < 1:
            raise SettingsError("time_limit must be a number above 0, and max_chars at least 1")
        self._model = model
        self._endpoint = endpoint
        self._url = _address(endpoint)
        self._time_limit = time_limit
        self._max_chars = max_chars
        self._write = _as_documents

    def __repr__(self) -> str:
        return f"EndpointReranker({self.name!r} at {self._endpoint.shown})"

    @property
    def name(self) -> str:
        """The word "endpoint:" and the model."""
        return f"endpoint:{self._model}"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each of `texts`, on the model's own scale.

        Raises:
            InputError: `texts` is a bare string or holds something else than text.
            RerankError: the endpoint cannot be reached, said no, or answered with something
                unusable.
        """
        question, items = check_texts(query, texts, self._max_chars)
        if not items:
            return []
        question, items = question or " ", [item or " " for item in items]
        return patiently(
            lambda left, number: self._ask(question, items, left, number),
            retries=self._endpoint.retries,
            time_limit=self._time_limit,
        )

    def _ask(self, query: str, texts: list[str], left: float, number: int) -> list[float]:
        deadline = time.monotonic() + left
        try:
            body = self._post(self._write(self._model, query, texts), left, number)
        except Failure as failure:
            # Text Embeddings Inference says that a field `texts` is missing.
            if failure.status not in (400, 422) or "texts" not in failure.words:
                raise
            body = self._post(
                _as_texts(self._model, query, texts), max(deadline - time.monotonic(), 0.001), number
            )
            self._write = _as_texts
        try:
            return read_scores(body, len(texts))
        except ValueError as error:
            raise self._unusable(str(error), body) from None

    def _post(self, payload: Mapping[str, Any], left: float, number: int) -> bytes:
        endpoint = self._endpoint
        seconds = min(endpoint.timeout, left)
        try:
            answer = post_json(
                self._url,
                payload,
                key=endpoint.key if endpoint.has_key else None,
                timeout=seconds,
                time_limit=left,
                most_bytes=_MOST_BYTES,
            )
        except TooMuch as error:
            raise self._unusable(f"it is too large, {error}", b"") from error
        except TimeoutError as error:
            failure = _FAULTS.silent(endpoint, seconds=seconds, tries=number)
            failure.cause = error
        except (OSError, ValueError) as error:
            failure = _FAULTS.cut_off(endpoint, str(error), tries=number)
            failure.cause = endpoint.shareable(error)
        else:
            if answer.status == 200:
                return answer.body
            said = answer.body.decode("utf-8", "replace")
            failure = _FAULTS.answered(endpoint, answer.status, said, retry_after=answer.retry_after)
        raise failure

    def _unusable(self, reason: str, body: bytes) -> Failure:
        begins = self._endpoint.short(body.decode("utf-8", "replace"))
        return Failure(
            RerankError(
                f"{self._endpoint.shown} did not answer as a rerank endpoint does: {reason}; check "
                f"base_url and that the model is a reranker; the answer begins: {begins}"
            )
        )


def _address(endpoint: Endpoint) -> str:
    parts = urlsplit(endpoint.url)
    if "@" in parts.netloc:
        raise SettingsError("a reranker's base_url takes no user and password: give the key as api_key")
    path = parts.path.rstrip("/")
    if not path.endswith(("/rerank", "/reranks")):
        path += "/rerank"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _as_documents(model: str, query: str, texts: list[str]) -> dict[str, Any]:
    """Write a request as Jina, Cohere and SiliconFlow read it."""
    return {
        "model": model,
        "query": query,
        "documents": texts,
        "top_n": len(texts),
        "return_documents": False,
    }


def _as_texts(model: str, query: str, texts: list[str]) -> dict[str, Any]:  # noqa: ARG001
    """Write a request as Text Embeddings Inference reads it, which serves one model."""
    return {"query": query, "texts": texts, "truncate": True, "raw_scores": False}
