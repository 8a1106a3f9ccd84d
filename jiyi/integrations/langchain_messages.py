"""LangChain's messages as messages of a memory, and back; tools as Chat Completions write them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
    messages_from_dict,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from jiyi.integrations.keeping import raw_of
from jiyi.integrations.recalling import digest
from jiyi.integrations.saving import Entry
from jiyi.integrations.tools import function
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["entry_of", "given_of", "is_summary", "message_of", "tools_of"]

_ROLES = {"human": "user", "system": "system", "tool": "tool"}
_BESIDE = ("text", "tool_use", "tool_call", "function_call")  # parts that words and calls have already


def message_of(message: BaseMessage, counter: TokenCounter) -> Message:
    """Return what a message says, counted with what it has beside words and calls."""
    body: dict[str, Any] = {"role": _role(message), "content": str(message.text)}
    if isinstance(message, ToolMessage):
        body["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        body["tool_calls"] = [_call(call, i) for i, call in enumerate(calls)]
    said = Message.from_openai({name: value for name, value in body.items() if value != []})
    return replace(said, tokens=counter.count(said) + _beside(message, counter), tokens_by=counter.name)


def entry_of(message: BaseMessage, said: Message) -> Entry:
    """Return a message as it is saved: whole, but for an artifact that is no JSON."""
    raw = json.dumps(message.model_dump(), ensure_ascii=False, skipkeys=True, default=repr)
    return Entry(message.id or digest(raw), raw, said)


def is_summary(message: BaseMessage) -> bool:
    """Say whether LangChain made a message of others: nobody said it."""
    return message.additional_kwargs.get("lc_source") == "summarization"


def given_of(message: Message) -> BaseMessage:
    """Return the message that was saved; what was saved by other means, as LangChain writes it."""
    raw = raw_of(message)
    if isinstance(raw, Mapping) and "type" in raw:
        return messages_from_dict([{"type": raw["type"], "data": raw}])[0]
    return convert_to_messages([message.to_openai()])[0]


def tools_of(request: ModelRequest[Any]) -> list[dict[str, Any]]:
    """Return what a request sends of tools and of the schema of its output."""
    given = [_tool(tool) for tool in request.tools]
    output = request.response_format
    if isinstance(output, ToolStrategy):
        specs: Sequence[Any] = output.schema_specs
    elif isinstance(output, ProviderStrategy):
        specs = [output.schema_spec]
    else:
        specs = ToolStrategy(getattr(output, "schema", output)).schema_specs if output is not None else []
    return [*given, *(function(spec.name, spec.description, spec.json_schema) for spec in specs)]


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role if message.role in ("user", "system") else "assistant"
    return _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "assistant")


def _call(call: Mapping[str, Any], place: int) -> dict[str, Any]:
    args = call["args"]
    written = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=repr)
    body = {"name": call["name"] or "", "arguments": written}
    return {"id": call["id"] or f"without-id-{place}", "type": "function", "function": body}


def _beside(message: BaseMessage, counter: TokenCounter) -> int:
    """Return the tokens of pictures, thoughts and other parts that are neither words nor calls."""
    if isinstance(message.content, str):
        return 0
    parts = [p for p in message.content if isinstance(p, dict) and p.get("type") not in _BESIDE]
    if not parts:
        return 0
    try:
        body = convert_to_openai_messages([message.model_copy(update={"content": parts})])[0]
        odd = [part for part in body["content"] if isinstance(part, dict)]
    except (ValueError, KeyError, TypeError):  # parts of another provider
        odd = parts
    return sum(counter.count(Message.from_openai({"role": "user", "content": [p]})) for p in odd)


def _tool(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except ValueError:  # a provider's own tool
        return dict(tool)
