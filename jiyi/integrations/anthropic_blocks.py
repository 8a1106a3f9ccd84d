"""Messages of Anthropic's API, taken apart into what a window keeps or leaves out whole."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from jiyi.importers.entries import call_of, items, mapping, text
from jiyi.integrations.keeping import kept, raw_of
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["Part", "parts_of", "plain", "summed_up", "tools_of", "whole"]

_COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Blocks of one message that stay or go together: a result of a tool, words, a whole answer."""

    place: int  # of its message
    content: str | list[Mapping[str, Any]]  # the blocks, or what is said
    blocks: tuple[int, ...] = ()  # their places in the message
    message: Message  # what they say, with the blocks themselves

    def counted(self, counter: TokenCounter) -> Message:
        """Return the message for a window, counted with pictures, thoughts and what else it has.

        A compaction is a system message there: it stands for what went before, and never leaves.
        """
        own = items(self.content)
        tokens = counter.count(self.message) + sum(_beside(block, counter) for block in own)
        role = "system" if _of(own, _COMPACTION) else self.message.role
        return replace(self.message, role=role, tokens=tokens, tokens_by=counter.name)


def parts_of(messages: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the parts of messages, in their order.

    Raises:
        BadMessage: a message is none of user or assistant, or a block is in no form of the API.
    """
    out: list[Part] = []
    for place, message in enumerate(messages):
        role, given = message.get("role"), message.get("content")
        content = list(map(plain, given)) if isinstance(given, list) else given
        for number, blocks in enumerate(_groups(role, items(content))):
            own: Any = [content[i] for i in blocks] if isinstance(content, list) else content
            raw = {"content": own} | ({} if number else {"role": role})
            said = kept(raw, _said(role, own))
            out.append(Part(place=place, content=own, blocks=blocks, message=said))
    return out


def whole(stored: Sequence[Message]) -> list[dict[str, Any]]:
    """Return stored messages as the API has them: parts are put together again."""
    out: list[dict[str, Any]] = []
    for message in stored:
        raw = raw_of(message)
        raw = raw if isinstance(raw, dict) else {"role": message.role, "content": _blocks(message)}
        role = "assistant" if message.role == "assistant" else "user"
        if "role" not in raw and out and out[-1]["role"] == role and isinstance(out[-1]["content"], list):
            out[-1] = {**out[-1], "content": [*out[-1]["content"], *raw["content"]]}
        elif message.role != "system":
            out.append({**raw, "role": role})
    return out


def summed_up(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many messages stand before the newest compaction, which the API leaves out itself."""
    return max(
        (
            place
            for place, message in enumerate(messages)
            if any(plain(block).get("type") == _COMPACTION for block in items(message.get("content")))
        ),
        default=0,
    )


def tools_of(tools: Sequence[object]) -> list[dict[str, Any]]:
    """Return tool definitions as Chat Completions write them, to be counted."""
    found = []
    for tool in map(plain, tools):
        rest = {key: value for key, value in tool.items() if key not in ("input_schema", "cache_control")}
        found.append({"type": "function", "function": {**rest, "parameters": tool.get("input_schema", {})}})
    return found


def plain(block: object) -> Mapping[str, Any]:
    """Return a block, a message or a tool as a mapping, also where it is an object of the SDK."""
    made = getattr(block, "to_dict", None)
    return mapping(block if isinstance(block, Mapping) else made() if callable(made) else None)


def _groups(role: object, blocks: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Return the places of blocks by part."""
    if role == "user":
        # Each result by itself: it belongs to its call, not to its neighbours.
        keys = [i if block.get("type") == "tool_result" else -1 for i, block in enumerate(blocks)]
        return [tuple(group) for _, group in groupby(range(len(blocks)), keys.__getitem__)] or [()]
    last = max((i for i, block in enumerate(blocks) if block.get("type") == _COMPACTION), default=-1) + 1
    return [tuple(part) for part in (range(last), range(last, len(blocks))) if part] or [()]


def _blocks(message: Message) -> str | list[dict[str, Any]]:
    """Return what a message that was saved by other means says, as blocks."""
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call.arguments)}
        for call in message.tool_calls
    ]
    words = [{"type": "text", "text": message.text}] if message.text else []
    return [*words, *calls] if calls else message.text


def _arguments(written: str) -> dict[str, Any]:
    try:
        found = json.loads(written or "{}")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"arguments": written}


def _said(role: object, content: Any) -> dict[str, Any]:
    """Return what a part says as a Chat Completions message."""
    blocks = [mapping(block) for block in items(content)]
    if role == "user" and blocks and blocks[0].get("type") == "tool_result":
        answered = blocks[0].get("tool_use_id")
        return {"role": "tool", "tool_call_id": answered, "content": text(blocks[0].get("content"))}
    words = content if isinstance(content, str) else text(_of(blocks, "text"))
    calls = [call_of(one.get("id"), one.get("name"), one.get("input")) for one in _of(blocks, "tool_use")]
    return {"role": role, "content": words, **({"tool_calls": calls} if calls else {})}


def _of(blocks: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _beside(block: Mapping[str, Any], counter: TokenCounter) -> int:
    """Return the tokens of a block that its words and calls do not have."""
    kind, source = block.get("type"), mapping(block.get("source"))
    if kind in ("text", "tool_use"):
        return 0
    if kind == "tool_result":
        return sum(_beside(mapping(inner), counter) for inner in items(block.get("content")))
    if kind == "image":
        part: Mapping[str, Any] = {"type": "image_url", "image_url": {"url": str(source.get("url") or "")}}
        return counter.count(Message(role="user", content=(part,)))
    if kind == "document" and source.get("type") == "base64":
        part = {"type": "file", "file": {"file_data": source.get("data")}}
        return counter.count(Message(role="user", content=(part,)))
    told = {key: value for key, value in block.items() if key not in ("signature", "cache_control")}
    return counter.count_text(json.dumps(told, ensure_ascii=False, default=str))
