"""pydantic-ai's messages as messages of a memory, and back; what a request sends beside them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import (
    BaseToolReturnPart,
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters

from jiyi.integrations.keeping import raw_of
from jiyi.integrations.saving import Entry
from jiyi.integrations.tools import function
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["Piece", "entries_of", "given_of", "pieces_of", "system_of", "tools_of", "without"]

_PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": ""}}  # counted without looking into it


@dataclass(frozen=True, slots=True)
class Piece:
    """What stays or leaves as one: a part of a request, or a whole response."""

    place: int  # of the message
    part: int | None  # of a request; None for a whole message
    said: Message


def pieces_of(messages: Sequence[ModelMessage], counter: TokenCounter) -> list[Piece]:
    """Return the pieces of a conversation, counted with what they have beside words and calls."""
    out: list[Piece] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            out += [Piece(place, i, _asked(part, counter)) for i, part in enumerate(message.parts)]
        else:
            out.append(Piece(place, None, _answered(message, counter)))
    return out


def entries_of(messages: Sequence[ModelMessage], pieces: Iterable[Piece]) -> list[Entry]:
    """Return the pieces as they are saved, each with its message, less the other parts of that."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    seen: Counter[str] = Counter()
    keys = []
    for message in messages:
        key = _key(message)
        seen[key] += 1
        keys.append(f"{key}#{seen[key]}")
    out = []
    for piece in pieces:
        whole, key = dumped[piece.place], keys[piece.place]
        if piece.part is not None:
            whole = {**whole, "parts": [whole["parts"][piece.part]]}
        raw = json.dumps({"of": key, "message": whole}, ensure_ascii=False)
        out.append(Entry(f"{key}/{piece.part}", raw, piece.said))
    return out


def given_of(stored: Iterable[Message]) -> list[ModelMessage]:
    """Return the messages that were saved; what was saved by other means is left out."""
    out: list[dict[str, Any]] = []
    last = None
    for message in stored:
        raw = raw_of(message)
        if not isinstance(raw, Mapping) or "of" not in raw:
            continue
        if raw["of"] == last:
            out[-1]["parts"] += raw["message"]["parts"]
        else:
            out.append(raw["message"])
        last = raw["of"]
    return list(ModelMessagesTypeAdapter.validate_python(out))


def without(
    messages: Sequence[ModelMessage],
    pieces: Sequence[Piece],
    kept: Iterable[int],
    recalled: str,
    at: int | None,
) -> list[ModelMessage]:
    """Return what is shown of messages: the same objects, or copies of requests with fewer or more parts.

    ``recalled`` is put before the piece at place ``at``.
    """
    parts: dict[int, list[Any]] = {}
    for place in kept:
        piece = pieces[place]
        shown = parts.setdefault(piece.place, [])
        if piece.part is not None:
            if place == at and recalled:
                # A user's part: what was said once has no more authority now than it had then.
                shown.append(UserPromptPart(recalled))
            shown.append(messages[piece.place].parts[piece.part])
    out = []
    for place, message in enumerate(messages):
        shown = parts.get(place, [])
        if isinstance(message, ModelResponse) or not message.parts or shown == list(message.parts):
            if place in parts or not message.parts:
                out.append(message)
        elif shown:
            out.append(replace(message, parts=shown))
    return out


def system_of(parameters: ModelRequestParameters, messages: Sequence[ModelMessage]) -> str:
    """Return the instructions of a request."""
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return (requests[-1].instructions or "") if requests else ""


def tools_of(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """Return what a request sends of tools and of the schema of its output."""
    given = [*parameters.function_tools, *parameters.output_tools]
    tools = [function(tool.name, tool.description, tool.parameters_json_schema) for tool in given]
    output = parameters.output_object
    if output is not None and parameters.output_mode in ("native", "prompted"):
        tools.append(function(output.name or "", output.description, output.json_schema))
    return [*tools, *({"type": tool.kind} for tool in parameters.native_tools)]


def _asked(part: Any, counter: TokenCounter) -> Message:
    """Return what a part of a request says; one of the framework's own is counted, and stays."""
    beside: list[dict[str, Any]] = []
    if isinstance(part, UserPromptPart):
        words, beside = _words([part.content] if isinstance(part.content, str) else part.content)
        said = Message(role="user", content=words, created_at=part.timestamp)
    elif isinstance(part, BaseToolReturnPart):
        _, beside = _words(part.files)
        words = part.model_response_str()
        said = Message(role="tool", content=words, tool_call_id=part.tool_call_id, created_at=part.timestamp)
    elif part.part_kind == "system-prompt":
        said = Message(role="system", content=part.content, created_at=part.timestamp)
    elif part.part_kind == "retry-prompt" and part.tool_name:
        said = Message(role="tool", content=part.model_response(), tool_call_id=part.tool_call_id)
    else:
        # Feedback on an answer leaves with the turn of that answer.
        said = Message(role="assistant" if part.part_kind.startswith("retry") else "system", content="")
        beside = [{"type": part.part_kind, "said": repr(part)}]
    return _counted(said, beside, counter)


def _answered(message: ModelResponse, counter: TokenCounter) -> Message:
    calls, odd = [], []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            body = {"name": part.tool_name, "arguments": part.args_as_json_str()}
            calls.append({"id": part.tool_call_id, "type": "function", "function": body})
        elif part.part_kind == "file":
            odd.append(_PICTURE)
        elif not isinstance(part, TextPart):
            odd.append({"type": part.part_kind, "said": str(getattr(part, "content", None) or repr(part))})
    said = Message.from_openai(
        {"role": "assistant", "content": message.text or ""} | ({"tool_calls": calls} if calls else {}),
        created_at=message.timestamp,
    )
    return _counted(said, odd, counter)


def _counted(said: Message, beside: Sequence[dict[str, Any]], counter: TokenCounter) -> Message:
    # One by one: a part counts the same wherever it stands.
    extra = sum(counter.count(Message(role="user", content=(part,))) for part in beside)
    return replace(said, tokens=counter.count(said) + extra, tokens_by=counter.name)


def _words(content: Sequence[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the words of what a user sends, and the rest as parts that can be counted."""
    words: list[str] = []
    rest: list[dict[str, Any]] = []
    for item in content:
        if isinstance(item, str | TextContent):
            words.append(item if isinstance(item, str) else str(item.content))
        elif isinstance(item, BinaryContent) and not item.is_image:
            rest.append({"type": "file", "file": {"file_data": item.base64}})
        elif isinstance(item, ImageUrl | BinaryContent):
            rest.append(_PICTURE)
        elif getattr(item, "kind", "") != "cache-point":
            rest.append({"type": "other", "said": repr(item)})
    return "\n".join(words), rest


def _key(message: ModelMessage) -> str:
    """Return what a message is known by: its kind, when it was made, and the call that it answers."""
    if isinstance(message, ModelResponse):
        return f"response {message.timestamp.isoformat()}"
    for part in message.parts:
        made = getattr(part, "timestamp", None)
        if made is not None:
            return f"request {made.isoformat()} {getattr(part, 'tool_call_id', '')}"
    return f"request {message.timestamp.isoformat() if message.timestamp else ''}"
