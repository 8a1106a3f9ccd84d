"""How one endpoint wants to be asked: what it refuses is left out, or said otherwise."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from jiyi.prompts import load_prompt
from jiyi.text.analyse import language

__all__ = ["Dialect", "Request"]

_WEAKER: Mapping[str, Literal["json_object", "prompt"]] = {
    "json_schema": "json_object",
    "json_object": "prompt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked, whatever the endpoint; fields as in `jiyi.llm.LLM` and `ChatLLM`."""

    messages: Sequence[Mapping[str, Any]]  # OpenAI dicts
    max_tokens: int | None  # most tokens of the reply
    temperature: float  # 0 for the likeliest words
    schema: Mapping[str, Any] | None = None  # a JSON schema of an object
    stop: Sequence[str] = ()  # the reply ends before these
    tools: Sequence[Mapping[str, Any]] = ()  # what the model may call
    stream: bool = False  # whether the answer should come in pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What an endpoint understands; everything, until it refuses something.

    OpenAI's newer models want ``max_completion_tokens`` and take neither a temperature nor
    stop words; DeepSeek and others know no JSON schema, some servers no JSON mode at all;
    Ollama and vLLM refuse tools where the model or the set-up knows none.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # what the field is called
    temperature: bool = True  # whether it may be set
    stop: bool = True  # whether stop words may be sent
    form: Literal["json_schema", "json_object", "prompt"] = "json_schema"  # how a schema is asked for
    tools: bool = True  # whether tools may be offered
    stream: bool = True  # whether an answer may come in pieces
    usage: bool = True  # whether such an answer may be asked to end with its tokens

    def body(self, request: Request) -> dict[str, Any]:
        """Return the fields of the request in this dialect."""
        body: dict[str, Any] = {"messages": list(request.messages)}
        if request.max_tokens is not None:
            body[self.max_tokens] = request.max_tokens
        if self.temperature:
            body["temperature"] = request.temperature
        if request.stop and self.stop:
            body["stop"] = list(request.stop)
        if request.tools and self.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        if request.stream and self.stream:
            body["stream"] = True
            if self.usage:
                body["stream_options"] = {"include_usage": True}
        if request.schema is None:
            return body
        if self.form == "json_schema":
            held = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": held}
            return body
        body["messages"] = _with_schema(request.messages, request.schema)
        if self.form == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body

    def after(self, words: str, body: Mapping[str, Any]) -> "Dialect | None":
        """Return the dialect to try when `body` was refused with these words; None when there is none."""
        for field, about, change in _REFUSALS:
            if field in body and about.search(words):
                return replace(self, **change)
        if "response_format" in body:
            return replace(self, form=_WEAKER[self.form])
        return None


# A field, the words of a refusal that are about it, and what of the dialect changes then.
_REFUSALS: tuple[tuple[str, re.Pattern[str], dict[str, Any]], ...] = (
    ("max_tokens", re.compile(r"max_(completion_)?tokens"), {"max_tokens": "max_completion_tokens"}),
    ("temperature", re.compile(r"temperature"), {"temperature": False}),
    ("stop", re.compile(r"\bstop\b"), {"stop": False}),
    ("stream_options", re.compile(r"stream_options|include_usage"), {"usage": False}),
    ("stream", re.compile(r"\bstream(ing)?\b", re.IGNORECASE), {"stream": False}),
    # Tools as such are refused, and not a message of the conversation that speaks of them.
    ("tools", re.compile(r"^(?!.*(?:tool_call|role)).*(?i:\btools?\b)"), {"tools": False}),
)


def _with_schema(
    messages: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Add to the last message, where models look and every server allows it, what the answer must be."""
    last = messages[-1]
    content = last.get("content")
    shown = json.dumps(schema, ensure_ascii=False)
    spoken = language(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    words = load_prompt("answer_in_json", spoken).substitute(schema=shown)
    if last.get("role") != "user":
        return [*messages, {"role": "user", "content": words}]
    if isinstance(content, list):
        return [*messages[:-1], {**last, "content": [*content, {"type": "text", "text": words}]}]
    return [*messages[:-1], {**last, "content": f"{content}\n\n{words}"}]
