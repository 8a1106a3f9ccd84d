"""Items of OpenAI's Responses API as messages, and messages as items."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jiyi.integrations.keeping import kept, raw_of
from jiyi.records import Message, as_mapping
from jiyi.text import TokenCounter

__all__ = ["grouped", "items_of", "message_of"]

_Item = dict[str, Any]

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")
_ROLES = ("user", "assistant", "system", "developer")


def message_of(item: object) -> Message:
    """Return the message that an item is, with the item itself; what has no words has none there.

    Raises:
        BadMessage: it is no dict of JSON.
    """
    return kept(dict(as_mapping(item)), _said(as_mapping(item)))


def items_of(message: Message) -> list[_Item]:
    """Return the items that a message is: the one it was made of, or what says the same."""
    raw = raw_of(message)
    if raw is not None:
        return [raw]
    if message.role == "tool":
        return [{"type": _RESULTS[0], "call_id": message.tool_call_id, "output": message.text}]
    calls: list[_Item] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    said: list[_Item] = [{"role": message.role, "content": message.text}]
    return calls if calls and not message.text else [*said, *calls]


def grouped(items: Sequence[_Item], counter: TokenCounter) -> list[tuple[Message, list[int]]]:
    """Return messages for a window, each with the places of its items.

    What the model thought, said and called without a break is one message: an API refuses a
    thought without what follows it. Each is counted with what it has beside words.
    """
    groups: list[tuple[list[int], list[Mapping[str, Any]]]] = []
    for place, item in enumerate(items):
        said = _said(item)
        turn = said["role"] == "assistant"
        if not (turn and groups and groups[-1][1][-1]["role"] == "assistant"):
            groups.append(([], []))
        groups[-1][0].append(place)
        groups[-1][1].append(said)
    return [(_joined(said, [items[i] for i in places], counter), places) for places, said in groups]


def _joined(said: Sequence[Mapping[str, Any]], items: Sequence[_Item], counter: TokenCounter) -> Message:
    words = [str(one["content"]) for one in said if one["content"]]
    calls = [call for one in said for call in one.get("tool_calls", ())]
    whole: dict[str, Any] = {**said[0], "content": "\n".join(words)}
    message = Message.from_openai(whole | ({"tool_calls": calls} if calls else {}))
    tokens = counter.count(message) + sum(_beside(item, counter) for item in items)
    return Message.from_openai(message.to_dict(), tokens=tokens, tokens_by=counter.name)


def _beside(item: _Item, counter: TokenCounter) -> int:
    """Return the tokens of what an item has beside its words and calls, such as pictures and thoughts."""
    if item.get("type") in (*_CALLS, *_RESULTS) or (item.get("role") in _ROLES and "content" in item):
        parts = item.get("content", item.get("output"))
        odd = [p for p in parts if not _words([p])] if isinstance(parts, list) else []
        pictures = [p for p in odd if isinstance(p, dict) and p.get("type") == "input_image"]
        shown = [{"type": "image_url", "image_url": {"url": p.get("image_url") or ""}} for p in pictures]
        rest = [part for part in odd if part not in pictures]
        return (counter.count(Message(role="user", content=tuple(shown))) if shown else 0) + (
            counter.count_text(json.dumps(rest, ensure_ascii=False, default=str)) if rest else 0
        )
    return counter.count_text(json.dumps(item, ensure_ascii=False, default=str))


def _said(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an item says as a Chat Completions message."""
    kind, role = item.get("type") or "message", item.get("role")
    if kind in _RESULTS and isinstance(item.get("call_id"), str):
        return {"role": "tool", "tool_call_id": item["call_id"], "content": _words(item.get("output"))}
    if kind in _CALLS and item.get("call_id") and isinstance(item.get("name"), str):
        written = str(item.get(_CALLS[kind]) or "")
        body = {"name": item["name"], _CALLS[kind]: written}
        call = {"type": "custom", "custom": body} if "custom" in kind else {"function": body}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": item["call_id"], **call}]}
    if kind == "message" and role in _ROLES:
        return {"role": role, "content": _words(item.get("content"))}
    return {"role": "assistant", "content": ""}


def _words(content: object) -> str:
    """Return the words of what may be text or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [p.get("text") or p.get("refusal") for p in content if isinstance(p, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))
