"""Embeddings from any OpenAI-compatible endpoint: OpenAI, SiliconFlow, Ollama, vLLM, ..."""

import importlib.util
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from jiyi.embeddings.answers import read_vectors
from jiyi.embeddings.embedder import TextKind, Vectors32
from jiyi.embeddings.inputs import check_inputs, clean_text
from jiyi.errors import EmbeddingError, EndpointRefused, EndpointUnreachable, MissingExtra, SettingsError
from jiyi.records.ids import stable_id

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

__all__ = ["Endpoint", "OpenAIEmbedder"]

_DEFAULT_URL = "https://api.openai.com/v1"
_NO_KEY = "none"  # the client insists on a key, a server without keys ignores it
_REQUEST_CHARS = 200_000  # OpenAI takes 300,000 tokens a request; a character is at most about 1.4
_RETRIED = frozenset({408, 409, 429})  # and 5xx: what the client tries again

_ADVICE = {
    401: "check api_key",
    403: "check api_key and what it is allowed to use",
    404: "check base_url (most end in /v1) and the name of the model",
    413: "lower max_chars or batch_size",
}
_OTHER_ADVICE = "check the name of the model, dimensions, max_chars and batch_size"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Endpoint:
    """Where an OpenAI-compatible API is, and how patiently to ask it.

    The environment is read once, here. A key found there goes to `base_url` whatever that
    is, as with the package `openai`; give `api_key=""` to send none.

    Raises:
        SettingsError: a field has an unusable value.
    """

    base_url: str | None = None  # None: OPENAI_BASE_URL, else OpenAI itself
    api_key: str | None = None  # None: OPENAI_API_KEY; "": no key
    timeout: float = 30.0  # seconds to wait for a connection, and for each piece of an answer
    retries: int = 4  # further tries after time-outs, broken connections, 408, 409, 429 and 5xx
    url: str = field(init=False)  # the address in force
    key: str = field(init=False)  # the key in force; a placeholder where there is none

    def __post_init__(self) -> None:
        if not self.timeout > 0 or self.retries < 0:
            raise SettingsError(
                f"timeout must be above 0 and retries at least 0, not {self.timeout} and {self.retries}"
            )
        url = (self.base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL).strip()
        given = os.environ.get("OPENAI_API_KEY") if self.api_key is None else self.api_key
        key = (given or "").strip() or _NO_KEY
        if not _is_web_address(url):
            raise SettingsError('base_url must be a web address such as "http://localhost:11434/v1"')
        if not key.isascii() or not key.isprintable() or " " in key:
            raise SettingsError("api_key holds characters that no key has: look for a paste error")
        if url == _DEFAULT_URL and key == _NO_KEY:
            raise SettingsError("OpenAI needs a key: give api_key, set OPENAI_API_KEY, or give a base_url")
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "key", key)

    def __repr__(self) -> str:
        return f"Endpoint({self.shown!r}, timeout={self.timeout}, retries={self.retries})"

    @property
    def shown(self) -> str:
        """The address without user, password or query, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def short(self, words: str) -> str:
        """Return what a server said as one short line, the key blotted out should it be in there."""
        if self.key_is_in(words):
            words = words.replace(self.key, "***")
        return " ".join(words.split())[:300] or "nothing"

    def key_is_in(self, words: str) -> bool:
        """Whether `words` give the key away."""
        return self.key != _NO_KEY and self.key in words


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class OpenAIEmbedder:
    """Embeds over the network, through the package `openai` (`pip install "jiyi[openai]"`).

    - Making one connects to nothing; the first `embed`, or `dims` when `dimensions` is not
      given, does.
    - Tries again with growing pauses, or after the time the server names in Retry-After
      (up to two minutes), as often as `endpoint.retries` says. All or nothing: one batch
      that fails for good fails the call.
    - Answers are checked: number, order, size, finite; then brought to length 1.
    - Texts are sent up to `max_chars` characters, an empty one as a space.
    - The key appears in no error, name or repr.

    Args:
        model: the model's name at the endpoint.
        endpoint: where it is; the default follows OPENAI_BASE_URL and OPENAI_API_KEY.
        query_model: another model for queries, for pairs trained together.
        query_prefix: put before queries, as the model's card asks.
        passage_prefix: put before passages.
        dimensions: ask for shorter vectors, where the model can.
        batch_size: texts a request, at most; a request also stays below 200,000 characters.
        max_chars: longest text sent, without prefix; the rest of a longer one is not embedded.

    Raises:
        MissingExtra: the package `openai` is not installed.
        SettingsError: an argument has an unusable value.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: Endpoint | None = None,
        query_model: str | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        dimensions: int | None = None,
        batch_size: int = 64,
        max_chars: int = 8_000,
    ) -> None:
        if not model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if min(batch_size, max_chars, 1 if dimensions is None else dimensions) < 1:
            raise SettingsError("batch_size, max_chars and dimensions must be at least 1")
        if importlib.util.find_spec("openai") is None:
            raise _missing()
        self._endpoint = endpoint or Endpoint()
        self._models: dict[TextKind, str] = {"query": query_model or model, "passage": model}
        self._prefixes: dict[TextKind, str] = {
            "query": clean_text(query_prefix, len(query_prefix)),
            "passage": clean_text(passage_prefix, len(passage_prefix)),
        }
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._max_chars = max_chars
        self._dims = dimensions
        self._client: OpenAI | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.name!r} at {self._endpoint.shown})"

    @property
    def name(self) -> str:
        """The word "openai:" and the model, with whatever else decides what its vectors mean.

        Examples: "openai:bge-m3", "openai:text-embedding-3-large@256",
        "openai:qwen3-embedding+prefix:1f0c2d3e".
        """
        name = f"openai:{self._models['passage']}"
        if self._dimensions is not None:
            name += f"@{self._dimensions}"
        if self._models["query"] != self._models["passage"]:
            name += f"+query:{self._models['query']}"
        if any(self._prefixes.values()):
            name += f"+prefix:{stable_id(self._prefixes['query'], self._prefixes['passage'])[:8]}"
        return name

    @property
    def dims(self) -> int:
        """Length of a vector: `dimensions` if given, else learned from the first answer.

        Raises:
            EmbeddingError: as `embed`; asking before the first `embed` sends one short text.
        """
        if self._dims is None:
            self.embed(["size"], "passage")
        assert self._dims is not None
        return self._dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors32:
        """Return a matrix of shape (len(texts), dims).

        Raises:
            InputError: `texts` is not a sequence of strings, or `kind` is unknown.
            EndpointUnreachable: refused, timed out or kept failing, after all retries.
            EndpointRefused: the endpoint said no, or answered with something unusable.
            MissingExtra: the installed `openai` cannot be used.
        """
        items = check_inputs(texts, kind)
        if not items:
            return np.empty((0, self.dims), dtype=np.float32)
        prefix = self._prefixes[kind]
        ready = [prefix + clean_text(item, self._max_chars) or " " for item in items]
        return np.concatenate([self._embed_batch(batch, kind) for batch in self._batches(ready)])

    def close(self) -> None:
        """Close the connections; a later `embed` opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        chars = 0
        for text in texts:
            if batch and (len(batch) == self._batch_size or chars + len(text) > _REQUEST_CHARS):
                yield batch
                batch, chars = [], 0
            batch.append(text)
            chars += len(text)
        yield batch

    def _embed_batch(self, batch: list[str], kind: TextKind) -> Vectors32:
        body = self._ask(batch, self._models[kind])
        try:
            vectors = read_vectors(body, len(batch))
        except ValueError as error:
            begins = self._endpoint.short(body.decode("utf-8", "replace"))
            raise EndpointRefused(
                f"{self._endpoint.shown} did not answer as an embedding endpoint does: {error}; "
                "check base_url (most end in /v1) and that the model is an embedding model; "
                f"the answer begins: {begins}"
            ) from None
        with self._lock:
            if self._dims is None:
                self._dims = vectors.shape[1]
        if vectors.shape[1] != self._dims:
            raise EndpointRefused(
                f"{self._endpoint.shown} gave vectors of size {vectors.shape[1]}, not {self._dims}: "
                "check that the model behind the name did not change and that it supports dimensions"
            )
        return vectors

    def _ask(self, batch: list[str], model: str) -> bytes:
        client = self._opened()
        import openai

        try:
            # The raw answer: the client's own parsing is slower and checks nothing.
            raw = client.embeddings.with_raw_response.create(
                input=batch,
                model=model,
                encoding_format="float",
                extra_body=None if self._dimensions is None else {"dimensions": self._dimensions},
            )
            return raw.content
        except (openai.OpenAIError, ValueError) as error:
            failure = self._translated(error)
            cause = None if self._endpoint.key_is_in(f"{error} {error.__cause__}") else error
        # Out here, so that an error that quotes the key is not kept as context either.
        raise failure from cause

    def _opened(self) -> "OpenAI":
        with self._lock:
            if self._client is None:
                try:
                    from openai import OpenAI
                except ImportError as error:
                    raise _missing() from error
                endpoint = self._endpoint
                self._client = OpenAI(
                    api_key=endpoint.key,
                    base_url=endpoint.url,
                    timeout=endpoint.timeout,
                    max_retries=endpoint.retries,
                )
            return self._client

    def _translated(self, error: Exception) -> EmbeddingError:
        import openai

        if isinstance(error, openai.APIStatusError):
            return self._translated_status(error)
        where, tries = self._endpoint.shown, self._endpoint.retries + 1
        if isinstance(error, openai.APITimeoutError):
            return EndpointUnreachable(
                f"{where} did not answer within {self._endpoint.timeout:g} s, {tries} time(s): "
                "check that it runs, or raise the endpoint's timeout"
            )
        if isinstance(error, openai.APIConnectionError):
            reason = self._endpoint.short(str(error.__cause__ or error))
            return EndpointUnreachable(
                f"{where} could not be reached, {tries} time(s) ({reason}): "
                "check that it runs and that base_url is right"
            )
        return EndpointRefused(
            f"asking {where} failed ({self._endpoint.short(str(error))}): check the settings"
        )

    def _translated_status(self, error: "APIStatusError") -> EmbeddingError:
        where, status = self._endpoint.shown, error.status_code
        words = self._endpoint.short(_words(error))
        # An exhausted account also answers 429, but waiting does not fill it.
        if (status in _RETRIED or status >= 500) and error.code != "insufficient_quota":
            return EndpointUnreachable(
                f"{where} kept failing with HTTP {status} ({words}): try again later, "
                "or see the endpoint's own log"
            )
        advice = _ADVICE.get(status, _OTHER_ADVICE)
        return EndpointRefused(f"{where} refused with HTTP {status} ({words}): {advice}")


def _words(error: "APIStatusError") -> str:
    """What the endpoint said."""
    body = error.body
    said = body.get("message") or body.get("detail") or body if isinstance(body, dict) else body
    return str(said or error.response.reason_phrase)


def _missing() -> MissingExtra:
    return MissingExtra('embeddings over the network need an optional package: pip install "jiyi[openai]"')
