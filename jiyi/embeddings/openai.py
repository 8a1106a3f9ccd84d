"""Embeddings from any OpenAI-compatible endpoint: OpenAI, SiliconFlow, Ollama, vLLM, ..."""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jiyi.embeddings.embedder import TextKind, Vectors32, check_inputs, clean_text, items_in_order
from jiyi.endpoint import Endpoint, Failure, Faults, get_breaker, retry, retry_within
from jiyi.errors import EndpointRefused, EndpointUnreachable, SettingsError, TextRefused
from jiyi.forks import free_after_fork
from jiyi.posting import OpenAIClient
from jiyi.records.checks import stable_id
from jiyi.text import counter_for

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["OpenAIEmbedder"]

_MAX_REQUEST_CHARS = 200_000  # OpenAI takes 300,000 tokens a request; a character is at most about 1.4
_TEXT_REFUSED_STATUSES = frozenset({400, 413, 422})  # for a text too long or not allowed
_MIN_TEXT_CHARS = 16  # a shorter text is not refused for its length
_NAMED_LIMIT = re.compile(
    r"(?:max|limit|less than|at most|up to|exceed|longer than)\D{0,60}?(\d[\d,]*) *(token|char)",
    re.IGNORECASE,
)

_FAULTS = Faults(
    unreachable=EndpointUnreachable,
    refused=EndpointRefused,
    advice={
        404: "check base_url (most end in /v1) and the name of the model",
        413: "lower embedding_max_chars or embedding_batch_size",
    },
    other_advice="check the name of the model and embedding_dimensions, _max_chars and _batch_size",
    misfit="did not answer as an embedding endpoint does",
    misfit_advice="check base_url (most end in /v1) and that the model is an embedding model",
)


@dataclass(eq=False, repr=False)
class OpenAIEmbedder:
    """Embeds over the network, through the package `openai` (`pip install "jiyi[openai]"`).

    - Making one connects to nothing; the first `embed`, or `dims` when `dimensions` is not given, does.
    - Tries again as `jiyi.endpoint.retry` does; queries only within `endpoint.query_seconds` each. All or
      nothing: one batch that fails for good fails the call.
    - Answers are checked: number, order, size, finite; then brought to length 1.
    - Texts are sent up to `max_chars` characters without prefix, an empty one as a space; `batch_size` in a
      request, which also stays below 200,000 characters.
    - A text that the endpoint refuses (400, 413, 422) while it embeds another is sent by itself, cut at the
      limit that the answer names, else halved until it is accepted.
    - The key appears in no error, name or repr.

    Raises MissingExtra (the package `openai` is not installed), SettingsError (an unusable argument).
    """

    model: str
    _: KW_ONLY
    endpoint: Endpoint | None = None  # None: as OPENAI_BASE_URL and OPENAI_API_KEY say
    query_model: str | None = None  # another model for queries, for pairs trained together
    query_prefix: str = ""  # put before texts, as the model's card asks
    passage_prefix: str = ""
    dimensions: int | None = None  # ask for shorter vectors, where the model can
    batch_size: int = 64
    max_chars: int = 8_000

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if min(self.batch_size, self.max_chars, 1 if self.dimensions is None else self.dimensions) < 1:
            raise SettingsError("batch_size, max_chars and dimensions must be at least 1")
        self._endpoint = self.endpoint or Endpoint()
        self._client = OpenAIClient(self._endpoint, _FAULTS, purpose="embeddings over the network")
        self._models: dict[TextKind, str] = {"query": self.query_model or self.model, "passage": self.model}
        prefixes: dict[TextKind, str] = {"query": self.query_prefix, "passage": self.passage_prefix}
        self._prefixes = {kind: clean_text(prefix, len(prefix)) for kind, prefix in prefixes.items()}
        self._dims = self.dimensions
        self._lock = free_after_fork(threading.Lock())

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.name!r} at {self._endpoint.shown})"

    @property
    def name(self) -> str:
        """Model and what else decides its vectors, such as "openai:text-embedding-3-large@256"."""
        name = f"openai:{self.model}" + ("" if self.dimensions is None else f"@{self.dimensions}")
        if self._models["query"] != self.model:
            name += f"+query:{self._models['query']}"
        if any(self._prefixes.values()):
            name += f"+prefix:{stable_id(self._prefixes['query'], self._prefixes['passage'])[:8]}"
        return name

    @property
    def dims(self) -> int:
        """Length of a vector: `dimensions` if given, else learned from an answer, as to one short text."""
        if self._dims is None:
            self.embed(["size"], "passage")
        assert self._dims is not None
        return self._dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), dims).

        Raises, besides what `Embedder` does:
            EndpointUnreachable: refused, timed out or kept failing, after all retries.
            EndpointRefused: the endpoint refused, or its answer cannot be used. TextRefused: it refused a
                text however short it was cut, though others are embedded.
        """
        items = check_inputs(texts, kind)
        if not items:
            return np.empty((0, self.dims), dtype=np.float32)
        prefix = self._prefixes[kind]
        cleaned = [prefix + clean_text(item, self.max_chars) or " " for item in items]
        return np.concatenate([self._embed_batch(batch, kind) for batch in self._split_batches(cleaned)])

    def _embed_batch(self, batch: list[str], kind: TextKind, *, works: bool = False) -> Vectors32:
        """Embed a batch; where it is refused and the endpoint ``works``, its halves, or a text shortened."""
        answer = self._embed_unless_refused(batch, kind)
        if not isinstance(answer, Failure):
            return answer
        if not works and isinstance(self._embed_unless_refused(["size"], kind), Failure):
            raise answer.error from answer.cause  # the texts are not the cause
        if len(batch) > 1:
            halves = batch[: len(batch) // 2], batch[len(batch) // 2 :]
            return np.concatenate([self._embed_batch(half, kind, works=True) for half in halves])
        text = _shorten(batch[0], str(answer.error), self._models[kind])
        if len(text) < len(self._prefixes[kind]) + _MIN_TEXT_CHARS:
            raise TextRefused(str(answer.error), status=answer.status or 400) from answer.cause
        return self._embed_batch([text], kind, works=True)

    def _embed_unless_refused(self, batch: list[str], kind: TextKind) -> Vectors32 | Failure:
        """Return the vectors of a batch, or the refusal if its texts may be the cause."""
        model = self._models[kind]

        def ask(left: float, attempt: int) -> Vectors32 | Failure:
            try:
                return self._request_vectors(batch, model, left, attempt)
            except Failure as failure:
                if failure.status not in _TEXT_REFUSED_STATUSES:
                    raise
                return failure

        breaker = get_breaker(self._endpoint, model, _FAULTS)
        if kind == "passage":
            return retry(ask, breaker, retries=self._endpoint.retries)
        time_limit = self._endpoint.query_seconds * len(batch)
        return retry_within(ask, breaker, endpoint=self._endpoint, faults=_FAULTS, time_limit=time_limit)

    def close(self) -> None:
        """Close the connections; a later `embed` opens new ones."""
        self._client.close()

    def _split_batches(self, texts: list[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        chars = 0
        for text in texts:
            if batch and (len(batch) == self.batch_size or chars + len(text) > _MAX_REQUEST_CHARS):
                yield batch
                batch, chars = [], 0
            batch.append(text)
            chars += len(text)
        yield batch

    def _request_vectors(self, batch: list[str], model: str, left: float, attempt: int) -> Vectors32:
        def send(client: "OpenAI", seconds: float) -> bytes:
            # The raw answer: the client's own parsing is slower and checks nothing.
            return client.embeddings.with_raw_response.create(
                input=batch,
                model=model,
                encoding_format="float",
                extra_body=None if self.dimensions is None else {"dimensions": self.dimensions},
                timeout=seconds,
            ).content

        body = self._client.ask(send, left=left, attempt=attempt)
        try:
            vectors = _read_vectors(body, len(batch))
        except ValueError as error:
            raise _FAULTS.unusable(self._endpoint, error, body) from None
        with self._lock:
            if self._dims is None:
                self._dims = vectors.shape[1]
        if vectors.shape[1] != self._dims:
            sizes = f"vectors of size {vectors.shape[1]}, not {self._dims}"
            advice = "check that the model behind the name did not change and that it supports dimensions"
            raise Failure(EndpointRefused(f"{self._endpoint.shown} gave {sizes}: {advice}"))
        return vectors


def _shorten(text: str, refusal: str, model: str) -> str:
    """Return the text up to the limit that a refusal names, in estimated tokens; without one, half of it."""
    cut = text
    if limit := _NAMED_LIMIT.search(refusal):
        most = int(limit[1].replace(",", ""))
        cut = text[:most] if limit[2].lower() == "char" else counter_for(model).truncate(text, most)
    return cut if len(cut) < len(text) else text[: len(text) // 2]


def _read_vectors(body: bytes, count: int) -> Vectors32:
    """Return the `count` vectors of an answer in the order asked, each of length 1, or raise ValueError."""
    items = items_in_order(body, ["data"], count, "vectors", by_place=True)
    rows = [_read_row(item.get("embedding"), index) for index, item in enumerate(items)]
    if len(sizes := {len(row) for row in rows}) > 1:
        raise ValueError(f"its vectors have different sizes: {sorted(sizes)}")
    return np.stack(rows).astype(np.float32)


def _read_row(values: Any, index: int) -> NDArray[np.float64]:
    if not isinstance(values, list) or not values:
        raise ValueError(f"vector {index} is not a list of numbers but {type(values).__name__}")
    try:
        row = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"vector {index} is not a list of numbers") from None
    if row.ndim != 1 or not np.isfinite(row).all():
        raise ValueError(f"vector {index} holds something that is not a finite number")
    largest = np.abs(row).max()
    if largest == 0:
        raise ValueError(f"vector {index} is all zeros")
    row /= largest  # first, so that squares neither overflow nor underflow
    return row / np.linalg.norm(row)
