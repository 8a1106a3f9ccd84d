"""Tokens of messages and tool definitions beyond their plain text.

``count`` counts the tokens of a text. Rules that OpenAI publishes are followed; else numbers come from
measured requests; without any the larger number is taken.

Sources: [1] OpenAI Cookbook, "How to count tokens with tiktoken", sections 6 and 7. [2] OpenAI
guide "Images and vision", cost of tile-based models. [3] Requests with their ``prompt_tokens``
in community.openai.com/t/538914 and github.com/forestwanglin/openai-java/issues/5. [4] OpenAI guide
"Managing costs" (Realtime).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jiyi.records import ContentPart, Message
from jiyi.records.message import SENT_EXTRAS

__all__ = ["PRIMING", "Count", "message_tokens", "openai_tools", "template_tools"]

Count = Callable[[str], int]

PRIMING = 3
"""Every reply is primed with the start of an assistant message [1]."""

_NAME = 1  # besides the tokens of a name [1]
_ONE_CALL = 3  # a single tool call, besides name and arguments [3]
_PARALLEL, _EACH_CALL = 19, 8  # several calls are wrapped into one call of "multi_tool_use" [3]
_MEDIA = 85 + 170 * 8  # a picture of at most 2 x 4 tiles of 512 [2]; as much as 72 to 144 s of sound [4]
_FILE_BYTES = 16  # bytes of a file per token: a 30 kB page of a PDF gives 1,900, text and picture
_TEMPLATE_TOOLS = 200  # sentences of chat templates around tool definitions


def message_tokens(message: Message, count: Count, per_message: int) -> int:
    """Return the tokens of a message in a request, without the priming of the reply.

    The rule of [1]: ``per_message`` and the tokens of role, content and name (one more for the name). Tool
    calls count with name, arguments and their measured overhead [3], a tool result without a name with its
    ``tool_call_id``, which is never shorter; other fields, such as ``refusal``, as text or JSON.
    """
    total = per_message + count(str(message.extra.get("role") or message.role))
    if isinstance(message.content, str):
        total += count(message.content)
    else:
        total += sum(_part_tokens(part, count) for part in message.content or ())
    if message.name is not None:
        total += _NAME + count(message.name)
    elif message.tool_call_id is not None:
        total += count(message.tool_call_id)
    if calls := message.tool_calls:
        total += sum(count(call.name) + count(call.arguments) for call in calls)
        total += _ONE_CALL if len(calls) == 1 else _PARALLEL + _EACH_CALL * len(calls)
    return total + sum(
        _value_tokens(message.extra[key], count) for key in SENT_EXTRAS if message.extra.get(key) is not None
    )


def openai_tools(tools: Sequence[Mapping[str, Any]], count: Count, func_init: int) -> int:
    """Return the tokens of tool definitions for models of OpenAI, by the rule of [1].

    7 (``func_init``, 10 before gpt-4o) a function, 3 for having properties, 3 each property, -3 and 3 each
    item for an enum, 12 at the end, and the tokens of ``name:description`` and ``name:type:description``.
    Parts of a schema without a rule (items, nested objects, anyOf) count as JSON.
    """
    return sum(func_init + _function_tokens(tool, count) for tool in tools) + 12 if tools else 0


def template_tools(tools: Sequence[Mapping[str, Any]], count: Count) -> int:
    """Return the tokens of tool definitions in chat templates that show them as JSON (Qwen and others)."""
    return sum(count(_json(tool)) + 1 for tool in tools) + _TEMPLATE_TOOLS if tools else 0


def _part_tokens(part: ContentPart, count: Count) -> int:
    kind = part.get("type")
    for key in ("text", "refusal"):
        if isinstance(part.get(key), str):
            return count(part[key])
    body = part.get(str(kind))
    if kind in ("image_url", "input_image", "input_audio"):
        return _MEDIA
    if kind == "file" and isinstance(body, Mapping):
        # The pages of an uploaded file are unknown: it has at least one.
        return max(_MEDIA, len(str(body.get("file_data") or "")) * 3 // 4 // _FILE_BYTES)
    return count(_json(part))


def _function_tokens(tool: Mapping[str, Any], count: Count) -> int:
    body = tool.get(str(tool.get("type") or "function"), tool)
    if not isinstance(body, Mapping):
        return count(_json(tool))
    total = count(f"{body.get('name') or ''}:{_description(body)}")
    schema = body.get("parameters")
    if not isinstance(schema, Mapping):
        return total + _rest_tokens(body, count, "name", "description", "strict", "type")
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and properties:
        total += 3 + sum(3 + _property_tokens(str(name), p, count) for name, p in properties.items())
    return total + _rest_tokens(schema, count, "type", "properties", "required", "additionalProperties")


def _property_tokens(name: str, schema: object, count: Count) -> int:
    if not isinstance(schema, Mapping):
        return count(f"{name}:{_json(schema)}")
    total = count(f"{name}:{schema.get('type') or ''}:{_description(schema)}")
    items = schema.get("enum")
    if isinstance(items, Sequence) and not isinstance(items, str):
        total += -3 + sum(3 + count(item if isinstance(item, str) else _json(item)) for item in items)
    return total + _rest_tokens(schema, count, "type", "description", "enum")


def _rest_tokens(schema: Mapping[str, Any], count: Count, *known: str) -> int:
    return _value_tokens({name: value for name, value in schema.items() if name not in known}, count)


def _description(body: Mapping[str, Any]) -> str:
    return str(body.get("description") or "").removesuffix(".")


def _value_tokens(value: object, count: Count) -> int:
    if value is None or value in ({}, [], ()):
        return 0
    return count(value if isinstance(value, str) else _json(value))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
