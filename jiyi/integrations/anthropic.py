"""Anthropic's SDK: its memory tool, and requests of the Messages API with what the memory recalls.

``pip install "jiyi[anthropic]"``.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby
from typing import Any

from jiyi.importers.entries import as_dict, as_list, join_text, tool_call
from jiyi.integrations.anthropic_memory import JiyiAsyncMemoryTool, JiyiMemoryTool
from jiyi.integrations.common import build_message, log_errors, raw_of
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Owner
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["JiyiAsyncMemoryTool", "JiyiMemoryTool", "JiyiMessages"]

_Request = dict[str, Any]


@dataclass(eq=False, repr=False)
class JiyiMessages:
    """A conversation by the Messages API: each request gets its window, each answer is kept.

    The caller keeps the list of messages, as the API wants it, or begins again with `history`.

    - Blocks pass as they are or are left out: thoughts, calls and results, pictures, compactions,
      marks of the cache. System prompt and tools pass whole, and count.
    - What the memory recalls is a user message directly before the newest one; the messages before
      stay the same from turn to turn.
    - What stands before a compaction passes and is not counted: the API leaves it out itself.
    - If the memory fails or takes longer than its time, the request passes as it came.
    """

    session_id: str  # the conversation
    memory: MemoryManager  # where it is kept; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose; by default whom the memory was opened for
    budget: int | None = None  # input tokens; the settings' by default
    recall_tokens: int | None = None  # most that is recalled; a quarter of the budget by default
    seconds: float = 3.0  # that the memory may take for a request
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    def __post_init__(self) -> None:
        self._owner = Owner(self.memory, self.user_id, self.session_id)
        self._fitting = Fitting.of(self.memory, self.budget, self.recall_tokens, self.seconds)

    def create(self, client: Any, **request: Any) -> Any:
        """Ask ``client.messages.create`` with a window for this request, keep both, return the answer.

        Give ``Anthropic().beta`` as client for requests of the beta. A stream is not kept: `save` its
        final message. That something could not be kept is logged.
        """
        answer = client.messages.create(**self.window(**request))
        self._kept(request, answer)
        return answer

    async def acreate(self, client: Any, **request: Any) -> Any:
        """As `create`, with ``AsyncAnthropic()``."""
        answer = await client.messages.create(**await asyncio.to_thread(self.window, **request))
        await asyncio.to_thread(self._kept, request, answer)
        return answer

    def window(self, **request: Any) -> _Request:
        """Return the arguments of ``client.messages.create`` with the messages that the model is shown."""
        with log_errors("a request passes without memory"):
            messages = list(request["messages"])
            return {**request, "messages": self._shown(messages, request)}
        return request

    def save(self, messages: Sequence[Any], answer: object = None) -> int:
        """Keep what is new in a request's messages, then the answer; return how many records that were.

        New is what comes after the last message that is known; before the model's last turn nothing is
        looked for, so that what was forgotten stays forgotten.

        Raises:
            BadMessage: one of them is none of the API's; nothing was kept.
            StorageError: the database cannot take it; nothing was kept.
        """
        said = [part.message for part in _parts_of([_plain(message) for message in messages])]
        reply = [] if answer is None else [{"role": "assistant", "content": _plain(answer).get("content")}]
        told = [part.message for part in _parts_of(reply)]
        return self._fitting.recaller.save_new(self._owner, said, told, full=True)

    def history(self) -> list[dict[str, Any]]:
        """Return the messages that were kept, to go on with; of a very long conversation the newest."""
        owner = self._owner
        return _whole(owner.memory.session_messages(owner.session_id, user_id=owner.user_id))

    def _kept(self, request: Mapping[str, Any], answer: object) -> None:
        if not request.get("stream"):
            with log_errors("a conversation is not kept"):
                self.save(request["messages"], answer)

    def _shown(self, messages: list[Any], request: Mapping[str, Any]) -> list[Any]:
        given = [_plain(message) for message in messages]
        first = _summed_up(given)
        parts = _parts_of(given[first:])
        counter = self._owner.memory.counter
        talk = [part.counted(counter) for part in parts]
        system, tools = _words(request.get("system")), _tools_of(request.get("tools") or ())
        self.last = self._fitting.fit(self._owner, talk, system=system, tools=tools)
        return [*messages[:first], *_put_together(messages[first:], parts, self.last)]


def _put_together(messages: Sequence[Any], parts: "Sequence[_Part]", fitted: Fitted) -> Iterator[Any]:
    """Give the messages of the parts that stay, with what is recalled."""
    sizes = Counter(part.place for part in parts)
    for place, group in groupby(fitted.kept, lambda i: parts[i].place):
        stay = list(group)
        before = [i for i in stay if fitted.at is not None and i < fitted.at]
        recalled = fitted.recalled.text if fitted.at in stay else ""
        if recalled and not before:
            # A user message: what was said once has no more authority now than it had then.
            yield {"role": "user", "content": recalled}
            recalled = ""
        if len(stay) == sizes[place] and not recalled:
            yield messages[place]
            continue
        message = _plain(messages[place])
        blocks = [message["content"][i] for part in stay for i in parts[part].blocks]
        if recalled:  # results of tools stand first in their message
            at = sum(len(parts[i].blocks) for i in before)
            blocks.insert(at, {"type": "text", "text": recalled})
        yield {**message, "content": blocks}


def _words(system: object) -> str:
    if isinstance(system, str):
        return system
    blocks = system if isinstance(system, list) else []
    return "\n".join(str(_plain(block).get("text") or "") for block in blocks)


_COMPACTION = "compaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Blocks of one message that stay or go together: a result of a tool, words, a whole answer."""

    place: int  # of its message
    content: str | list[Mapping[str, Any]]  # the blocks, or what is said
    blocks: tuple[int, ...] = ()  # their places in the message
    message: Message  # what they say, with the blocks themselves

    def counted(self, counter: TokenCounter) -> Message:
        """Return the message for a window, counted whole; a compaction is a system message, which stays."""
        own = as_list(self.content)
        tokens = counter.count(self.message) + sum(_beside(block, counter) for block in own)
        role = "system" if _of(own, _COMPACTION) else self.message.role
        return replace(self.message, role=role, tokens=tokens, tokens_by=counter.name)


def _parts_of(messages: Sequence[Mapping[str, Any]]) -> list[_Part]:
    """Return the parts of messages, in their order.

    Raises:
        BadMessage: a message is none of user or assistant, or a block is in no form of the API.
    """
    out: list[_Part] = []
    for place, message in enumerate(messages):
        role, given = message.get("role"), message.get("content")
        content = list(map(_plain, given)) if isinstance(given, list) else given
        for number, blocks in enumerate(_groups(role, as_list(content))):
            own: Any = [content[i] for i in blocks] if isinstance(content, list) else content
            raw = {"content": own} | ({} if number else {"role": role})
            said = build_message(raw, _said(role, own))
            out.append(_Part(place=place, content=own, blocks=blocks, message=said))
    return out


def _whole(stored: Sequence[Message]) -> list[dict[str, Any]]:
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


def _summed_up(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many messages stand before the newest compaction, which the API leaves out itself."""
    return max(
        (
            place
            for place, message in enumerate(messages)
            if any(_plain(block).get("type") == _COMPACTION for block in as_list(message.get("content")))
        ),
        default=0,
    )


def _tools_of(tools: Sequence[object]) -> list[dict[str, Any]]:
    """Return tool definitions as Chat Completions write them, to be counted."""
    found = []
    for tool in map(_plain, tools):
        rest = {key: value for key, value in tool.items() if key not in ("input_schema", "cache_control")}
        found.append({"type": "function", "function": {**rest, "parameters": tool.get("input_schema", {})}})
    return found


def _plain(block: object) -> Mapping[str, Any]:
    """Return a block, a message or a tool as a mapping, also where it is an object of the SDK."""
    made = getattr(block, "to_dict", None)
    return as_dict(block if isinstance(block, Mapping) else made() if callable(made) else None)


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
    blocks = [as_dict(block) for block in as_list(content)]
    if role == "user" and blocks and blocks[0].get("type") == "tool_result":
        answered = blocks[0].get("tool_use_id")
        return {"role": "tool", "tool_call_id": answered, "content": join_text(blocks[0].get("content"))}
    words = content if isinstance(content, str) else join_text(_of(blocks, "text"))
    calls = [tool_call(one.get("id"), one.get("name"), one.get("input")) for one in _of(blocks, "tool_use")]
    return {"role": role, "content": words, **({"tool_calls": calls} if calls else {})}


def _of(blocks: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [block for block in blocks if block.get("type") == kind]


def _beside(block: Mapping[str, Any], counter: TokenCounter) -> int:
    """Return the tokens of a block that its words and calls do not have."""
    kind, source = block.get("type"), as_dict(block.get("source"))
    if kind in ("text", "tool_use"):
        return 0
    if kind == "tool_result":
        return sum(_beside(as_dict(inner), counter) for inner in as_list(block.get("content")))
    if kind == "image":
        part: Mapping[str, Any] = {"type": "image_url", "image_url": {"url": str(source.get("url") or "")}}
        return counter.count(Message(role="user", content=(part,)))
    if kind == "document" and source.get("type") == "base64":
        part = {"type": "file", "file": {"file_data": source.get("data")}}
        return counter.count(Message(role="user", content=(part,)))
    told = {key: value for key, value in block.items() if key not in ("signature", "cache_control")}
    return counter.count_text(json.dumps(told, ensure_ascii=False, default=str))
