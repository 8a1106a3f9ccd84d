"""Anthropic's SDK: its memory tool, and requests of the Messages API with recalled text."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby
from typing import Any

from jiyi.importers.entries import as_dict, as_list, join_text, tool_call
from jiyi.integrations.anthropic_memory import JiyiAsyncMemoryTool, JiyiMemoryTool
from jiyi.integrations.common import build_message, log_errors, raw_of
from jiyi.integrations.fitting import Fitted, Fitting, with_tokens
from jiyi.integrations.recalling import Owner
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["JiyiAsyncMemoryTool", "JiyiMemoryTool", "JiyiMessages"]

_Request = dict[str, Any]


@dataclass(eq=False, repr=False)
class JiyiMessages:
    """A conversation over the Messages API: each request is fitted, each answer is saved.

    The caller keeps the list of messages, as usual with the API, or continues with `history`. Blocks are sent
    unchanged or left out; messages before a compaction are sent and not counted. If the memory fails or
    takes longer than its time, the request is sent as it came.
    """

    session_id: str  # the conversation
    memory: MemoryManager  # where it is saved; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose; by default whom the memory was opened for
    budget: int | None = None  # input tokens; the settings' by default
    recall_tokens: int | None = None  # most that is recalled; a quarter of the budget by default
    seconds: float = 3.0  # that the memory may take for a request
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    def __post_init__(self) -> None:
        self._owner = Owner(self.memory, self.user_id, self.session_id)
        self._fitting = Fitting(self.memory, self.budget, self.recall_tokens, self.seconds)

    def create(self, client: Any, **request: Any) -> Any:
        """Ask ``client.messages.create`` with `window`, save request and answer, return the answer.

        The beta's client is ``Anthropic().beta``. A stream is not saved: `save` its final message.
        """
        answer = client.messages.create(**self.window(**request))
        self._save_exchange(request, answer)
        return answer

    async def acreate(self, client: Any, **request: Any) -> Any:
        """Do what `create` does, with ``AsyncAnthropic()``."""
        answer = await client.messages.create(**await asyncio.to_thread(self.window, **request))
        await asyncio.to_thread(self._save_exchange, request, answer)
        return answer

    def window(self, **request: Any) -> _Request:
        """Return the arguments of ``client.messages.create`` with the messages that the model is shown."""
        with log_errors("a request passes without memory"):
            messages = list(request["messages"])
            plain_messages = [_to_mapping(message) for message in messages]
            # The API itself leaves out what comes before the newest compaction.
            compacted = max((i for i, m in enumerate(plain_messages) if _has_compaction(m)), default=0)
            parts = list(_split_messages(plain_messages[compacted:]))
            talk = [part.counted(self.memory.counter) for part in parts]
            system, tools = request.get("system") or "", list(_describe_tools(request.get("tools") or ()))
            if not isinstance(system, str):
                system = join_text([_to_mapping(block) for block in system])
            self.last = self._fitting.fit(self._owner, talk, system=system, tools=tools)
            shown = _assemble(messages[compacted:], parts, self.last)
            return {**request, "messages": [*messages[:compacted], *shown]}
        return request

    def save(self, messages: Sequence[Any], answer: object = None) -> int:
        """Save the new messages of a request, then the answer; return how many records were saved.

        New messages come after the last one that is stored, and not before the model's last turn, so
        that forgotten messages stay forgotten.

        Raises:
            BadMessage: one of them is not in a form of the API; nothing was saved.
            StorageError: the database cannot take it; nothing was saved.
        """
        sent = [part.message for part in _split_messages(map(_to_mapping, messages))]
        reply = {"role": "assistant", "content": _to_mapping(answer).get("content")}
        replied = [] if answer is None else [part.message for part in _split_messages([reply])]
        return self._fitting.recaller.save_new(self._owner, sent, replied, full=True)

    def history(self) -> list[dict[str, Any]]:
        """Return the saved messages to continue with; of a very long conversation the newest."""
        owner = self._owner
        return _join_parts(owner.memory.session_messages(owner.session_id, user_id=owner.user_id))

    def _save_exchange(self, request: Mapping[str, Any], answer: object) -> None:
        if not request.get("stream"):
            with log_errors("a conversation is not kept"):
                self.save(request["messages"], answer)


def _assemble(messages: Sequence[Any], parts: "Sequence[_Part]", fitted: Fitted) -> Iterator[Any]:
    """Yield the messages of the parts that are shown, with the recalled text."""
    part_counts = Counter(part.message_index for part in parts)
    for index, group in groupby(fitted.kept, lambda i: parts[i].message_index):
        shown = list(group)
        earlier = [i for i in shown if fitted.at is not None and i < fitted.at]
        recalled = fitted.recalled.text if fitted.at in shown else ""
        if recalled and not earlier:
            # A user message, so that recalled words have no more authority than when they were said.
            yield {"role": "user", "content": recalled}
            recalled = ""
        if len(shown) == part_counts[index] and not recalled:
            yield messages[index]
            continue
        message = _to_mapping(messages[index])
        blocks = [message["content"][i] for part in shown for i in parts[part].block_indices]
        if recalled:  # tool results come first in their message
            position = sum(len(parts[i].block_indices) for i in earlier)
            blocks.insert(position, {"type": "text", "text": recalled})
        yield {**message, "content": blocks}


_COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Blocks of one message that are shown or dropped together: a tool result, text, an answer."""

    message_index: int
    block_indices: tuple[int, ...] = ()  # in the message
    message: Message  # their text and calls, with the blocks themselves

    def counted(self, counter: TokenCounter) -> Message:
        """Return the message with all its tokens; a compaction is a system message, which always stays."""
        blocks = as_list(raw_of(self.message)["content"])
        others = [part for block in blocks for part in _find_other_parts(block)]
        role = "system" if _blocks_of(blocks, _COMPACTION) else self.message.role
        return replace(with_tokens(self.message, others, counter), role=role)


def _split_messages(messages: Iterable[Mapping[str, Any]]) -> Iterator[_Part]:
    """Yield the parts of messages; raise `BadMessage` for a role or a block that the API does not know."""
    for index, message in enumerate(messages):
        role, given = message.get("role"), message.get("content")
        content = list(map(_to_mapping, given)) if isinstance(given, list) else given
        for number, indices in enumerate(_group_blocks(role, as_list(content))):
            own: Any = [content[i] for i in indices] if isinstance(content, list) else content
            raw = {"content": own} | ({} if number else {"role": role})
            built = build_message(raw, _to_chat_message(role, own))
            yield _Part(message_index=index, block_indices=indices, message=built)


def _join_parts(stored: Sequence[Message]) -> list[dict[str, Any]]:
    """Return stored messages in the form of the API, their parts joined again."""
    joined: list[dict[str, Any]] = []
    for message in stored:
        raw = raw_of(message)
        raw = raw if isinstance(raw, dict) else {"role": message.role, "content": _build_content(message)}
        role = "assistant" if message.role == "assistant" else "user"
        last: dict[str, Any] = joined[-1] if joined else {}
        if "role" not in raw and last.get("role") == role and isinstance(last["content"], list):
            joined[-1] = {**last, "content": [*last["content"], *raw["content"]]}
        elif message.role != "system":
            joined.append({**raw, "role": role})
    return joined


def _has_compaction(message: Mapping[str, Any]) -> bool:
    return bool(_blocks_of([_to_mapping(b) for b in as_list(message.get("content"))], _COMPACTION))


def _describe_tools(tools: Sequence[object]) -> Iterator[dict[str, Any]]:
    """Yield tool definitions in the form of Chat Completions, to be counted."""
    for tool in map(_to_mapping, tools):
        function = {key: value for key, value in tool.items() if key != "cache_control"}
        function["parameters"] = function.pop("input_schema", {})
        yield {"type": "function", "function": function}


def _to_mapping(block: object) -> Mapping[str, Any]:
    """Return a block, a message or a tool as a mapping, also if it is an object of the SDK."""
    to_dict = getattr(block, "to_dict", None)
    return as_dict(block if isinstance(block, Mapping) else to_dict() if callable(to_dict) else None)


def _group_blocks(role: object, blocks: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
    """Return the indices of each part's blocks."""
    if role == "user":
        # Each result is a part: it belongs to its call, not to its neighbours.
        keys = [i if b.get("type") == "tool_result" else -1 for i, b in enumerate(blocks)]
        return [tuple(group) for _, group in groupby(range(len(blocks)), keys.__getitem__)] or [()]
    start = max((i for i, b in enumerate(blocks) if b.get("type") == _COMPACTION), default=-1) + 1
    return [tuple(part) for part in (range(start), range(start, len(blocks))) if part] or [()]


def _build_content(message: Message) -> str | list[dict[str, Any]]:
    """Return the content of a message that was saved by other means."""
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _parse_arguments(call.arguments)}
        for call in message.tool_calls
    ]
    text = [{"type": "text", "text": message.text}] if message.text else []
    return [*text, *calls] if calls else message.text


def _parse_arguments(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(arguments := json.loads(text or "{}"), dict):
            return arguments
    return {"arguments": text}


def _to_chat_message(role: object, content: Any) -> dict[str, Any]:
    blocks = [as_dict(block) for block in as_list(content)]
    if role == "user" and blocks and blocks[0].get("type") == "tool_result":
        call_id = blocks[0].get("tool_use_id")
        return {"role": "tool", "tool_call_id": call_id, "content": join_text(blocks[0].get("content"))}
    text = content if isinstance(content, str) else join_text(_blocks_of(blocks, "text"))
    uses = _blocks_of(blocks, "tool_use")
    calls = [tool_call(block.get("id"), block.get("name"), block.get("input")) for block in uses]
    return {"role": role, "content": text, **({"tool_calls": calls} if calls else {})}


def _blocks_of(blocks: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _find_other_parts(block: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a block has beyond text and calls, in the form of Chat Completions where there is one."""
    kind, source = block.get("type"), as_dict(block.get("source"))
    if kind in ("text", "tool_use"):
        return []
    if kind == "tool_result":
        inner_blocks = map(as_dict, as_list(block.get("content")))
        return [part for inner in inner_blocks for part in _find_other_parts(inner)]
    if kind == "image":
        return [{"type": "image_url"}]
    if kind == "document" and source.get("type") == "base64":
        return [{"type": "file", "file": {"file_data": source.get("data")}}]
    uncounted = ("signature", "cache_control")
    return [{"type": "block", **{key: value for key, value in block.items() if key not in uncounted}}]
