"""Replies from any OpenAI-compatible endpoint: OpenAI, DeepSeek, Qwen, Ollama, vLLM, llama.cpp, ..."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from jiyi.endpoint import Endpoint, Failure, Faults, get_breaker, retry_within
from jiyi.errors import InputError, LLMRefused, LLMUnreachable, SettingsError
from jiyi.llm.answers import read_reply, read_turn
from jiyi.llm.llm import Reply, Turn
from jiyi.llm.streams import Relay, read_stream
from jiyi.posting import OpenAIClient
from jiyi.prompts import load_prompt
from jiyi.text import encodable, language

if TYPE_CHECKING:
    from openai import OpenAI

__all__ = ["OpenAILLM"]

_T = TypeVar("_T")
_Body = Mapping[str, Any]  # the fields of a request
_Messages = Sequence[Mapping[str, Any]]

_FIELD_REFUSED = frozenset({400, 422})  # for a field that an endpoint does not know

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

# What an endpoint may not understand, and the words of a refusal that are about it. OpenAI's newer models
# want ``max_completion_tokens`` and take neither a temperature nor stop words; Ollama and vLLM know no tools
# for some models; DeepSeek and others know no JSON schema, some servers no JSON mode ("response_format").
_REFUSALS: Mapping[str, re.Pattern[str]] = {
    "max_tokens": re.compile(r"max_(completion_)?tokens"),
    "temperature": re.compile(r"temperature"),
    "stop": re.compile(r"\bstop\b"),
    "stream_options": re.compile(r"stream_options|include_usage"),
    "stream": re.compile(r"\bstream(ing)?\b", re.IGNORECASE),
    # Tools as such are refused, and not a message of the conversation that speaks of them.
    "tools": re.compile(r"^(?!.*(?:tool_call|role)).*(?i:\btools?\b)"),
}


def _adapt(request: _Body, refused: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a request for an endpoint that refused some of them, or a JSON schema."""
    body = {name: value for name, value in request.items() if name not in refused}
    if "max_tokens" in request and "max_tokens" in refused:
        body["max_completion_tokens"] = request["max_tokens"]
    if "stream" in refused:
        body.pop("stream_options", None)
    if "json_schema" in refused and "response_format" in request:
        schema = request["response_format"]["json_schema"]["schema"]
        body["messages"] = _add_schema(request["messages"], schema)
        if "response_format" not in refused:
            body["response_format"] = {"type": "json_object"}
    return body


def _find_refused(words: str, body: _Body, refused: frozenset[str]) -> str | None:
    """Return what an endpoint refused with these words; None: something that no other request helps."""
    matching = (field for field, pattern in _REFUSALS.items() if field in body and pattern.search(words))
    found = next(matching, None)
    if found is None and "response_format" in body:
        return "response_format" if "json_schema" in refused else "json_schema"
    return found


@dataclass(eq=False, repr=False)
class OpenAILLM:
    """An `LLM` and a `ChatLLM` over the network, through the package `openai` (`pip install "jiyi[openai]"`).

    - Making one connects to nothing; the first question does.
    - Tries again as `jiyi.endpoint.retry_within` does, but not once text was handed to `on_text`.
    - Never hangs: `complete` and `chat` return or raise within `time_limit` and a second, all tries included.
    - A schema is asked for as JSON schema; where the endpoint refuses that, as JSON mode with the schema in
      the prompt; where it refuses that too, in the prompt alone. A field it refuses otherwise (`max_tokens`
      for `max_completion_tokens`, `temperature`, `stop`, `tools`, `stream`) is renamed or left out. What
      worked is remembered. Stop words end the reply even where the endpoint does not know them.
    - The key appears in no error, name or repr.

    Raises:
        MissingExtra: the package `openai` is not installed.
        SettingsError, InputError: an argument has an unusable value; `extra_body` is no JSON.
    """

    model: str  # the model's name at the endpoint
    _: KW_ONLY
    endpoint: Endpoint | None = None  # None: as OPENAI_BASE_URL and OPENAI_API_KEY say, waiting `time_limit`
    """Where it is. An answer in one piece takes long, so its `timeout` must be as long as one takes."""
    time_limit: float = 60.0  # most seconds a call may take
    extra_body: Mapping[str, Any] | None = None  # fields of each request: ``{"enable_thinking": False}``

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise SettingsError("model must name a model of the endpoint")
        if not 0 < self.time_limit < float("inf"):
            raise SettingsError(f"time_limit must be a number of seconds above 0, not {self.time_limit}")
        self._endpoint = self.endpoint or Endpoint(timeout=self.time_limit)
        self._client = OpenAIClient(self._endpoint, _FAULTS, purpose="language models")
        self._breaker = get_breaker(self._endpoint, self.model, _FAULTS)
        self._extra_body = _check_sendable("extra_body", dict(self.extra_body or {}))
        self._refused = frozenset[str]()  # see `_adapt`

    def __repr__(self) -> str:
        return f"OpenAILLM({self.name!r} at {self._endpoint.shown})"

    @property
    def name(self) -> str:
        """The word "openai:" and the model, such as "openai:deepseek-chat"."""
        return f"openai:{self.model}"

    def complete(
        self,
        messages: _Messages,
        *,
        max_tokens: int | None = None,
        temperature: float = 0,
        schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
    ) -> Reply:
        """Return the reply to a conversation, as `LLM.complete`, or raise as it does.

        LLMUnreachable: refused, timed out or kept failing until the time was over; LLMRefused: the endpoint
        or the model said no, or answered with something unusable.
        """
        request = _write_request("complete", messages, max_tokens, temperature)
        stop = _check_sendable("stop", [stop] if isinstance(stop, str) else list(stop))
        if stop:
            request["stop"] = stop
        if schema is not None:
            asked = {"name": "answer", "strict": True, "schema": _check_sendable("schema", dict(schema))}
            request["response_format"] = {"type": "json_schema", "json_schema": asked}

        def ask(left: float, attempt: int) -> Reply:
            return self._parse(read_reply, self._request(request, left, attempt)[0])

        reply = self._retry(ask, probe_aside=True)
        places = [place for word in stop if word and (place := reply.text.find(word)) >= 0]
        return replace(reply, text=reply.text[: min(places)], finish="stop") if places else reply

    def chat(
        self,
        messages: _Messages,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        temperature: float = 0,
        on_text: Callable[[str], object] | None = None,
    ) -> Turn:
        """Return the next turn, as `ChatLLM.chat`; raises as `complete`, also if the answer broke off."""
        request = _write_request("chat", messages, max_tokens, temperature)
        if tools:
            request["tools"] = _check_sendable("tools", [dict(tool) for tool in tools])
        if on_text is None:
            return self._retry(partial(self._request_turn, request, None))
        request |= {"stream": True, "stream_options": {"include_usage": True}}
        relay = Relay()
        return relay.run(lambda: self._retry(partial(self._request_turn, request, relay)), on_text)

    def close(self) -> None:
        """Close the connections; a later `complete` opens new ones."""
        self._client.close()

    def _retry(self, ask: Callable[[float, int], _T], *, probe_aside: bool = False) -> _T:
        return retry_within(
            ask,
            self._breaker,
            endpoint=self._endpoint,
            faults=_FAULTS,
            time_limit=self.time_limit,
            probe_aside=probe_aside,
        )

    def _request_turn(self, request: _Body, relay: Relay | None, left: float, attempt: int) -> Turn:
        raw, body = self._request(request, left, attempt, relay)
        turn = self._parse(read_turn, raw)
        if relay is not None and not relay.has_passed_text:
            relay(turn.text)  # it came in one piece
        if "tools" in request and "tools" not in body:
            turn = replace(turn, notes=("the endpoint takes no tools: none were offered to the model",))
        return turn

    def _request(
        self, request: _Body, left: float, attempt: int, relay: Relay | None = None
    ) -> tuple[bytes, _Body]:
        """Ask once, leaving out what the endpoint refuses; return its answer and what it took."""
        deadline = time.monotonic() + left
        refused = self._refused
        while True:
            body = _adapt(request, refused)
            try:
                raw = self._send(body, max(deadline - time.monotonic(), 0.001), attempt, relay)
            except Failure as failure:
                field = _find_refused(failure.words, body, refused)
                if failure.status not in _FIELD_REFUSED or field is None:
                    raise
                refused |= {field}
            else:
                self._refused = refused
                return raw, body

    def _send(self, body: _Body, left: float, attempt: int, relay: Relay | None) -> bytes:
        def send(client: "OpenAI", seconds: float) -> bytes:
            request = {"model": self.model, **body, "extra_body": self._extra_body, "timeout": seconds}
            if relay is not None and "stream" in body:
                return read_stream(client, request, relay)
            return client.chat.completions.with_raw_response.create(**request).content

        try:
            return self._client.ask(send, left=left, attempt=attempt)
        except Failure as failure:
            if relay is None or not relay.has_passed_text:
                raise
            words = self._endpoint.short(str(failure.error))
        # Out here, and without another try: text passed on cannot be taken back.
        broke_off = f"{self._endpoint.shown} broke off in the middle of its answer ({words})"
        raise Failure(LLMUnreachable(f"{broke_off}: what came before that is all there is; ask again"))

    def _parse(self, read: Callable[[bytes], _T], raw: bytes) -> _T:
        try:
            return read(raw)
        except ValueError as error:
            raise _FAULTS.unusable(self._endpoint, error, raw) from None


def _add_schema(messages: _Messages, schema: Mapping[str, Any]) -> _Messages:
    """Add the schema to the last message, where models look and every server allows it."""
    *before, last = messages
    content = last.get("content")
    spoken = language(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    words = load_prompt("answer_in_json", spoken).substitute(schema=json.dumps(schema, ensure_ascii=False))
    if last.get("role") != "user":
        return [*messages, {"role": "user", "content": words}]
    part = {"type": "text", "text": words}
    added = [*content, part] if isinstance(content, list) else f"{content}\n\n{words}"
    return [*before, {**last, "content": added}]


def _write_request(
    verb: str, messages: _Messages, max_tokens: int | None, temperature: float
) -> dict[str, Any]:
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"max_tokens must be at least 1, not {max_tokens}")
    if not messages or not all(isinstance(message, Mapping) for message in messages):
        raise InputError(f'{verb}() takes a list of messages such as [{{"role": "user", "content": "..."}}]')
    request = {"messages": _check_sendable("messages", [dict(message) for message in messages])}
    return request | ({} if max_tokens is None else {"max_tokens": max_tokens}) | {"temperature": temperature}


def _check_sendable(what: str, value: Any) -> Any:
    try:
        return encodable(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be written as JSON: {error}") from error
