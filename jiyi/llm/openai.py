"""Replies from any OpenAI-compatible endpoint: OpenAI, DeepSeek, Qwen, Ollama, vLLM, llama.cpp, ..."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from jiyi.endpoint import Endpoint, Failure, Faults, breaker_of, in_time
from jiyi.errors import InputError, LLMRefused, LLMUnreachable, SettingsError
from jiyi.llm.answers import encodable, read_reply, read_turn
from jiyi.llm.dialect import Dialect, Request
from jiyi.llm.llm import Reply, Turn
from jiyi.llm.streaming import Relay, read_stream, relayed
from jiyi.openai_client import OpenAIClient

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["OpenAILLM"]

_T = TypeVar("_T")

_NEGOTIABLE = frozenset({400, 422})  # how endpoints refuse a field they do not know

_FAULTS = Faults(
    unreachable=LLMUnreachable,
    refused=LLMRefused,
    advice={
        404: "check base_url (most end in /v1) and the name of the model",
        413: "send fewer or shorter messages",
    },
    other_advice="check the name of the model, and that the messages fit its context window",
    misfit="gave no reply of a chat model",
    misfit_advice="check base_url (most end in /v1) and that it is a chat model",
)


class OpenAILLM:
    """An `LLM` and a `ChatLLM` over the network, through the package `openai` (`pip install "jiyi[openai]"`).

    - Making one connects to nothing; the first question does.
    - Tries again after time-outs, broken connections, 408, 409, 429 and 5xx, with growing
      pauses or after the time named in Retry-After, as often as `endpoint.retries` says,
      as long as `time_limit` lets it; not once text was handed to `on_text`. A model that
      kept failing is skipped for a while, from 1 second up to 5 minutes.
    - Never hangs: `complete` and `chat` return or raise within `time_limit` and a second, all
      tries included, whatever the endpoint does.
    - A schema is asked for as JSON schema; where the endpoint refuses that, as JSON mode
      with the schema in the prompt; where it refuses that too, in the prompt alone. A
      field it refuses otherwise (`max_tokens` for `max_completion_tokens`, `temperature`,
      `stop`, `tools`, `stream`) is renamed or left out. What worked is remembered.
    - Stop words end the reply even where the endpoint does not know them.
    - The key appears in no error, name or repr.

    Args:
        model: the model's name at the endpoint.
        endpoint: where it is; the default follows OPENAI_BASE_URL and OPENAI_API_KEY. An
            answer in one piece takes long, so its `timeout` must be as long as one takes;
            in the default it is `time_limit`.
        time_limit: most seconds a call may take, all tries included.
        extra_body: further fields of each request, such as ``{"enable_thinking": False}``.

    Raises:
        MissingExtra: the package `openai` is not installed.
        SettingsError: an argument has an unusable value.
        InputError: `extra_body` cannot be written as JSON.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: Endpoint | None = None,
        time_limit: float = 60.0,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        if not model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if not 0 < time_limit < float("inf"):
            raise SettingsError(f"time_limit must be a number of seconds above 0, not {time_limit}")
        self._model = model
        self._endpoint = endpoint or Endpoint(timeout=time_limit)
        self._client = OpenAIClient(self._endpoint, _FAULTS, purpose="language models")
        self._breaker = breaker_of(self._endpoint, model, _FAULTS)
        self._time_limit = time_limit
        self._extra_body = _sendable("extra_body", dict(extra_body or {}))
        self._dialect = Dialect()

    def __repr__(self) -> str:
        return f"OpenAILLM({self.name!r} at {self._endpoint.shown})"

    @property
    def name(self) -> str:
        """The word "openai:" and the model, such as "openai:deepseek-chat"."""
        return f"openai:{self._model}"

    def complete(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int | None = None,
        temperature: float = 0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Return the reply to a conversation; see `LLM.complete`.

        Raises:
            InputError: there are no messages, or something cannot be written as JSON.
            LLMUnreachable: refused, timed out or kept failing until the time was over.
            LLMRefused: the endpoint or the model said no, or answered with something unusable.
        """
        request = Request(
            messages=_messages("complete", messages),
            max_tokens=_at_least_one(max_tokens),
            temperature=temperature,
            schema=None if schema is None else _sendable("schema", dict(schema)),
            stop=_sendable("stop", [stop] if isinstance(stop, str) else list(stop)),
        )
        return self._bounded(
            lambda left, number: _cut(
                self._reading(read_reply, self._ask(request, left, number)[0]), request
            ),
            aside=True,
        )

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        temperature: float = 0,
        on_text: Callable[[str], object] | None = None,
    ) -> Turn:
        """Return the next turn of a conversation; see `ChatLLM.chat`.

        Raises:
            InputError: there are no messages, or something cannot be written as JSON.
            LLMUnreachable: refused, timed out, kept failing until the time was over, or broke
                off in the middle of its answer.
            LLMRefused: the endpoint or the model said no, or answered with something unusable.
        """
        request = Request(
            messages=_messages("chat", messages),
            max_tokens=_at_least_one(max_tokens),
            temperature=temperature,
            tools=_sendable("tools", [dict(tool) for tool in tools]),
            stream=on_text is not None,
        )
        if on_text is None:
            return self._bounded(lambda left, number: self._turn(request, left, number, None))
        return relayed(
            lambda relay: self._bounded(lambda left, number: self._turn(request, left, number, relay)),
            on_text,
        )

    def close(self) -> None:
        """Close the connections; a later `complete` opens new ones."""
        self._client.close()

    def _bounded(self, ask: Callable[[float, int], _T], *, aside: bool = False) -> _T:
        return in_time(
            ask,
            self._breaker,
            endpoint=self._endpoint,
            faults=_FAULTS,
            time_limit=self._time_limit,
            aside=aside,
        )

    def _turn(self, request: Request, left: float, number: int, relay: Relay | None) -> Turn:
        raw, dialect = self._ask(request, left, number, relay)
        turn = self._reading(read_turn, raw)
        if relay is not None and not relay.told:
            relay(turn.text)  # it came in one piece
        if request.tools and not dialect.tools:
            turn = replace(turn, notes=("the endpoint takes no tools: none were offered to the model",))
        return turn

    def _ask(
        self, request: Request, left: float, number: int, relay: Relay | None = None
    ) -> tuple[bytes, Dialect]:
        """Ask once, in other words where the endpoint refuses the first."""
        deadline = time.monotonic() + left
        dialect = self._dialect
        while True:
            body = dialect.body(request)
            try:
                raw = self._send(body, max(deadline - time.monotonic(), 0.001), number, relay)
                break
            except Failure as failure:
                other = dialect.after(failure.words, body) if failure.status in _NEGOTIABLE else None
                if other is None:
                    raise
                dialect = other
        self._dialect = dialect
        return raw, dialect

    def _send(self, body: Mapping[str, Any], left: float, number: int, relay: Relay | None) -> bytes:
        def send(client: "OpenAI", seconds: float) -> bytes:
            request = {"model": self._model, **body, "extra_body": self._extra_body, "timeout": seconds}
            if relay is not None and "stream" in body:
                return read_stream(client, request, relay)
            return client.chat.completions.with_raw_response.create(**request).content

        try:
            return self._client.ask(send, left=left, number=number)
        except Failure as failure:
            if relay is None or not relay.told:
                raise
            words = self._endpoint.short(str(failure.error))
        # Out here, and without another try: what was said already cannot be taken back.
        raise Failure(
            LLMUnreachable(
                f"{self._endpoint.shown} broke off in the middle of its answer ({words}): "
                "what came before that is all there is; ask again"
            )
        )

    def _reading(self, read: Callable[[bytes], _T], raw: bytes) -> _T:
        try:
            return read(raw)
        except ValueError as error:
            raise _FAULTS.unusable(self._endpoint, error, raw) from None


def _cut(reply: Reply, request: Request) -> Reply:
    """End a reply at its first stop word."""
    ends = [place for word in request.stop if word and (place := reply.text.find(word)) >= 0]
    return replace(reply, text=reply.text[: min(ends)], finish="stop") if ends else reply


def _messages(verb: str, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if not messages or not all(isinstance(message, Mapping) for message in messages):
        raise InputError(f'{verb}() takes a list of messages such as [{{"role": "user", "content": "..."}}]')
    sendable: list[dict[str, Any]] = _sendable("messages", [dict(message) for message in messages])
    return sendable


def _at_least_one(max_tokens: int | None) -> int | None:
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"max_tokens must be at least 1, not {max_tokens}")
    return max_tokens


def _sendable(what: str, value: Any) -> Any:
    try:
        return encodable(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be written as JSON: {error}") from error
