"""LlamaIndex: a memory for its agents and chat engines, and a block for its own `Memory`.

``pip install "jiyi[llama-index]"``. `JiyiMemory` keeps a whole conversation and shows what fits;
`JiyiMemoryBlock` adds what other conversations said to the `Memory` of LlamaIndex.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import BadMessage
from jiyi.importers.entries import tool_call
from jiyi.integrations.common import build_message, finish, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Owner, Recalled, read_conversation
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.text import TokenCounter

with require_framework("LlamaIndex", "llama-index"):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import BaseMemory, BaseMemoryBlock

__all__ = ["JiyiMemory", "JiyiMemoryBlock"]

_ROLES = {"developer": "developer", "system": "system", "user": "user", "function": "tool", "tool": "tool"}
_PLAIN = ("text", "tool_call", "cache")  # blocks that a message has as its words and calls, or that are free


class JiyiMemory(BaseMemory):
    """A conversation of the memory: all of it is kept and searched, and what fits is shown.

    - `get` gives the messages that fit, as they came, and what the memory recalls before the newest
      question. Until the conversation changes, it gives the same.
    - No tool call is given without its results; the beginning stays the same for several turns.
    - Writing is all or none. What cannot be read or written raises; a recall that fails is left out.

    An agent puts more into a request than its memory gives: ``system``, ``tools`` and ``reserve`` tell of it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: MemoryManager = Field(exclude=True)  # where it is kept; it stays open
    session_id: str = Field(min_length=1)  # the conversation
    user_id: str | None = None  # whose; None: whom the memory was opened for
    budget: int | None = Field(default=None, gt=0)  # input tokens; None: as the memory is set
    recall_tokens: int | None = Field(default=None, gt=0)  # of them, most that is recalled
    seconds: float = Field(default=3.0, gt=0)  # recall may take
    system: str = ""  # the agent's system prompt
    tools: list[Any] = Field(default_factory=list, exclude=True)  # its tools, or what Chat Completions write
    reserve: int = Field(default=0, ge=0)  # tokens left for calls and results of a run that goes on

    _fitting: Fitting = PrivateAttr()
    _shown: tuple[object, Fitted] | None = PrivateAttr(default=None)  # for which conversation, and what

    def model_post_init(self, context: Any, /) -> None:
        """Set up what fits."""
        super().model_post_init(context)
        self._fitting = Fitting.of(self.memory, self.budget, self.recall_tokens, self.seconds)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows it by."""
        return "JiyiMemory"

    @classmethod
    def from_defaults(cls, chat_history: Sequence[ChatMessage] | None = None, **fields: Any) -> "JiyiMemory":
        """Return a memory with these fields; a ``chat_history`` becomes its conversation."""
        fields.pop("llm", None)  # chat engines give it to every kind of memory
        made = cls(**fields)
        if chat_history:
            made.set(list(chat_history))
        return made

    @property
    def _owner(self) -> Owner:
        return Owner(self.memory, self.user_id, self.session_id)

    @property
    def last(self) -> Fitted | None:
        """What was shown last: tokens, what was recalled and why, whether nothing was relevant."""
        return self._shown[1] if self._shown else None

    def get(self, input: Any = None, initial_token_count: int = 0, **_: Any) -> list[ChatMessage]:
        """Return what the model is shown.

        Args:
            input: the question, text or a message, where it is not in the conversation yet.
            initial_token_count: tokens that the caller puts before it.
        """
        stored = read_conversation(self._owner)
        talk = [_counted(message, self.memory.counter) for message in stored]
        asked = str(getattr(input, "content", input) or "").strip()
        if asked == next((m.text.strip() for m in reversed(talk) if m.role == "user"), ""):
            asked = ""  # an agent says its question again at every step
        if asked:
            talk.append(Message(role="user", content=asked))
        about = (asked, initial_token_count, self.system, [message.id for message in stored])
        if self._shown is None or self._shown[0] != about:
            tools = [t if isinstance(t, Mapping) else t.metadata.to_openai_tool() for t in self.tools]
            room = self._fitting.budget - self.reserve - initial_token_count
            fitted = replace(self._fitting, budget=room).fit(
                self._owner, talk, system=self.system, tools=tools
            )
            self._shown = about, fitted
        given = [_given(message) for message in stored]
        return list(self._shown[1].select(given, lambda text: ChatMessage(role="user", content=text)))

    def get_all(self) -> list[ChatMessage]:
        """Return the whole conversation, oldest first."""
        return [_given(message) for message in read_conversation(self._owner)]

    def put(self, message: ChatMessage) -> None:
        """Add a message; raises as `put_messages`."""
        self.put_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages, all or none; raise `BadMessage` if one of them is no JSON."""
        self.memory.save_messages(self.session_id, self._new(messages), user_id=self.user_id)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Make these the conversation, in one transaction; those it begins with already stay.

        What was derived from the others alone goes with them; `MemoryManager.restore` brings it back.

        Raises:
            BadMessage: one of them is no JSON.
        """
        new = [message.to_dict() for message in self._new(messages)]
        self.memory.replace_messages(self.session_id, new, user_id=self.user_id)

    def reset(self) -> None:
        """Forget the conversation, and all that was derived from it."""
        self.memory.forget(session_id=self.session_id, user_id=self.user_id, reason="reset")

    def _new(self, messages: Sequence[ChatMessage]) -> list[Message]:
        """Return messages to save, without what `get` added to those that it gave."""
        added = self.last.recalled.text if self.last else ""
        return [_message(one) for one in messages if not (added and one.content == added)]


class JiyiMemoryBlock(BaseMemoryBlock[str]):
    """What the memory recalls for the newest question, as a block of LlamaIndex's own `Memory`.

    What leaves that memory's queue is saved here as the conversation of its ``session_id``. The text
    is the same until another question is asked. If the memory fails, the block is empty.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "jiyi"
    description: str | None = "What was said in other conversations."
    priority: int = 1
    memory: MemoryManager = Field(exclude=True)  # it stays open
    user_id: str | None = None  # whose; None: whom the memory was opened for
    recall_tokens: int = Field(default=1_000, gt=0)  # most that is recalled
    seconds: float = Field(default=3.0, gt=0)  # recall may take

    _fitting: Fitting = PrivateAttr()
    _shown: tuple[object, Recalled] | None = PrivateAttr(default=None)  # for which question, and what

    def model_post_init(self, context: Any, /) -> None:
        """Set up how much is recalled."""
        super().model_post_init(context)
        self._fitting = Fitting.of(self.memory, self.recall_tokens, self.recall_tokens, self.seconds)

    @property
    def last(self) -> Recalled | None:
        """What was recalled last and why, and whether nothing was relevant."""
        return self._shown[1] if self._shown else None

    async def _aget(
        self, messages: Sequence[ChatMessage] | None = None, session_id: str = "llama-index", **_: Any
    ) -> str:
        talk = [_message(message) for message in messages or ()]
        asked = session_id, list(dict.fromkeys(m.text for m in talk if m.role == "user"))
        if self._shown is None or self._shown[0] != asked:
            owner = Owner(self.memory, self.user_id, session_id)
            self._shown = asked, await asyncio.to_thread(self._fitting.recall, owner, talk)
        return self._shown[1].text

    async def _aput(self, messages: Sequence[ChatMessage]) -> None:
        for session_id, group in groupby(messages, lambda m: m.additional_kwargs.get("session_id")):
            saved = [_message(message) for message in group]
            memory = AsyncMemoryManager(self.memory)
            await finish(memory.save_messages(session_id or "llama-index", saved, user_id=self.user_id))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the beginning of a text that takes so many tokens less; None where nothing is left."""
        counter = self.memory.counter
        return counter.truncate(content, counter.count_text(content) - tokens_to_truncate) or None


def _message(chat: ChatMessage) -> Message:
    """Return the message that a LlamaIndex message is, with the message itself."""
    try:
        raw = chat.model_dump(mode="json")
    except ValueError as error:
        raise BadMessage(f"a message cannot be written as JSON: {error}") from error
    more = raw["additional_kwargs"]
    more.pop("images", None)  # they are blocks already, and would be so once more when it is read
    role = _ROLES.get(raw["role"], "assistant")
    said: dict[str, Any] = {"role": role, "content": chat.content or ""}
    if role == "assistant" and (calls := _calls(raw)):
        said["tool_calls"] = calls
    if role == "tool" and isinstance(more.get("tool_call_id"), str):
        said["tool_call_id"] = more["tool_call_id"]
    return build_message(raw, said)


def _calls(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message: blocks, or what integrations without such blocks write."""
    calls: dict[str, dict[str, Any]] = {}
    for block in raw["blocks"]:
        if block["block_type"] == "tool_call":
            name = block["tool_name"]  # without an id a result has the name of its tool
            call = tool_call(block["tool_call_id"] or name, name, block["tool_kwargs"])
            calls[call["id"]] = call
    written = raw["additional_kwargs"].get("tool_calls")
    for call in written if isinstance(written, list) else ():
        if isinstance(call, dict) and call.get("id") and isinstance(call.get("function"), dict):
            calls.setdefault(call["id"], call)
    return list(calls.values())


def _given(message: Message) -> ChatMessage:
    """Return the message that one was made of, or what says the same."""
    raw = raw_of(message)
    if isinstance(raw, dict) and "blocks" in raw:
        try:
            return ChatMessage.model_validate(raw)
        except ValidationError:  # such as a picture by a path that is not there any more
            pass
    blocks: list[dict[str, Any]] = [{"block_type": "text", "text": message.text}] if message.text else []
    blocks += [
        {
            "block_type": "tool_call",
            "tool_call_id": call.id,
            "tool_name": call.name,
            "tool_kwargs": call.arguments,
        }
        for call in message.tool_calls
    ]
    more = {"tool_call_id": message.tool_call_id} if message.role == "tool" else {}
    return ChatMessage.model_validate({"role": message.role, "blocks": blocks, "additional_kwargs": more})


def _counted(message: Message, counter: TokenCounter) -> Message:
    """Return a message with the tokens of what it has besides words and calls, such as pictures."""
    raw = raw_of(message)
    blocks = raw.get("blocks", ()) if isinstance(raw, dict) else ()
    odd = tuple(_part(block) for block in blocks if block["block_type"] not in _PLAIN)
    if not odd:
        return message
    tokens = counter.count(message) + counter.count(Message(role="user", content=odd))
    return replace(message, tokens=tokens, tokens_by=counter.name)


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block as Chat Completions write it, as far as its size goes."""
    match block["block_type"]:
        case "image":
            return {"type": "image_url", "image_url": {"url": "", "detail": block.get("detail")}}
        case "audio" if block.get("audio"):
            body = {"data": block["audio"], "format": block.get("format")}
            return {"type": "input_audio", "input_audio": body}
        case "audio" | "video" | "document" as kind:
            return {"type": "file", "file": {"file_data": block.get("data") or block.get(kind)}}
    return {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
