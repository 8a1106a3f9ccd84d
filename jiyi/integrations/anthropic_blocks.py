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
    blocks: tuple[int, ...] | None  # their places in its content; None where that is a text
    message: Message  # what they say, with the blocks themselves

    def counted(self, content: object, counter: TokenCounter) -> Message:
        """Return the message for a window, counted with pictures, thoughts and what else it has.

        A compaction is a system message there: it stands for what went before, and never leaves.
        """
        own = [plain(items(content)[i]) for i in self.blocks or ()]
        tokens = counter.count(self.message) + sum(_beside(block, counter) for block in own)
        role = "system" if any(block.get("type") == _COMPACTION for block in own) else self.message.role
        return replace(self.message, role=role, tokens=tokens, tokens_by=counter.name)


def parts_of(messages: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the parts of messages, in their order.

    Raises:
        BadMessage: a message is none of user or assistant, or a block is in no form of the API.
    """
    out: list[Part] = []
    for place, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        groups = [None] if not isinstance(content, list) else _groups(role, [plain(b) for b in content])
        for number, blocks in enumerate(groups):
            own: Any = content if blocks is None else [plain(content[i]) for i in blocks]  # type: ignore[index]
            raw = {"content": own} | ({} if number else {"role": role})
            out.append(Part(place=place, blocks=blocks, message=kept(raw, _said(role, own))))
    return out


def whole(stored: Sequence[Message]) -> list[dict[str, Any]]:
    """Return stored messages as the API has them: parts are put together again."""
    out: list[dict[str, Any]] = []
    for message in stored:
        raw = raw_of(message)
        if not isinstance(raw, dict):  # saved by other means
            continue
        if "role" not in raw and out and isinstance(out[-1]["content"], list):
            out[-1] = {**out[-1], "content": [*out[-1]["content"], *raw["content"]]}
        else:
            out.append({"role": message.role if message.role != "tool" else "user", **raw})
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
        return [tuple(group) for _, group in groupby(range(len(blocks)), keys.__getitem__)]
    last = max((i for i, block in enumerate(blocks) if block.get("type") == _COMPACTION), default=-1) + 1
    return [tuple(part) for part in (range(last), range(last, len(blocks))) if part] or [()]


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
