"""LlamaIndex: a memory for its agents and chat engines, and a block for its own `Memory`."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from jiyi.errors import BadMessage
from jiyi.importers.entries import as_dict, parse_llama_index_message
from jiyi.integrations.common import build_message, finish, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting, with_tokens
from jiyi.integrations.recalling import Owner, Recalled, read_conversation
from jiyi.manager import MemoryManager
from jiyi.records import Message

with require_framework("LlamaIndex", "llama-index"):
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import BaseMemory, BaseMemoryBlock

_NO_SESSION = "llama-index"  # the conversation of a block without a session


class JiyiMemory(BaseMemory):
    """A conversation of the memory: all of it is saved and searched, and what fits is shown.

    Until the conversation changes, `get` returns the same. Writing is all or none. Failures to read or write
    raise; a recall that fails is left out. An agent adds more to a request than its memory returns:
    ``system``, ``tools`` and ``reserve`` allow for it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: MemoryManager = Field(exclude=True)  # where it is saved; it stays open
    session_id: str = Field(min_length=1)  # the conversation
    user_id: str | None = None  # whose; None: whom the memory was opened for
    budget: int | None = Field(default=None, gt=0)  # input tokens; None: as the memory is set
    recall_tokens: int | None = Field(default=None, gt=0)  # at most for recalled text
    seconds: float = Field(default=3.0, gt=0)  # that a recall may take
    system: str = ""  # the agent's system prompt
    tools: list[Any] = Field(default_factory=list, exclude=True)  # its tools, or dicts of Chat Completions
    reserve: int = Field(default=0, ge=0)  # tokens left for calls and results of the current run

    _fitting: Fitting = PrivateAttr()
    _last_shown: tuple[object, Fitted] | None = PrivateAttr(default=None)  # conversation, result

    def model_post_init(self, context: Any, /) -> None:
        """Set up the budget."""
        super().model_post_init(context)
        self._fitting = Fitting(self.memory, self.budget, self.recall_tokens, self.seconds)

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows it by."""
        return "JiyiMemory"

    @classmethod
    def from_defaults(cls, chat_history: Sequence[ChatMessage] | None = None, **fields: Any) -> "JiyiMemory":
        """Return a memory with these fields; a ``chat_history`` becomes its conversation."""
        fields.pop("llm", None)  # chat engines give it to every kind of memory
        memory = cls(**fields)
        if chat_history:
            memory.set(list(chat_history))
        return memory

    @property
    def _owner(self) -> Owner:
        return Owner(self.memory, self.user_id, self.session_id)

    @property
    def last(self) -> Fitted | None:
        """What was shown last: tokens, recalled text and why, whether nothing was relevant."""
        return self._last_shown[1] if self._last_shown else None

    def get(self, input: Any = None, initial_token_count: int = 0, **_: Any) -> list[ChatMessage]:
        """Return the messages for the model.

        ``input`` is a question, text or a message, that may not be in the conversation yet;
        ``initial_token_count`` is what the caller puts before the messages.
        """
        stored = read_conversation(self._owner)
        talk = [with_tokens(m, _find_other_parts(m), self.memory.counter) for m in stored]
        question = str(getattr(input, "content", input) or "").strip()
        if question == next((m.text.strip() for m in reversed(talk) if m.role == "user"), ""):
            question = ""  # an agent repeats its question at every step
        if question:
            talk.append(Message(role="user", content=question))
        state = (question, initial_token_count, self.system, [message.id for message in stored])
        if self._last_shown is None or self._last_shown[0] != state:
            tools = [t if isinstance(t, Mapping) else t.metadata.to_openai_tool() for t in self.tools]
            reserved = self.reserve + initial_token_count
            fitted = self._fitting.fit(self._owner, talk, system=self.system, tools=tools, reserved=reserved)
            self._last_shown = state, fitted
        messages = [_to_chat_message(message) for message in stored]
        return list(self._last_shown[1].select(messages, lambda text: ChatMessage(role="user", content=text)))

    def get_all(self) -> list[ChatMessage]:
        """Return the whole conversation, oldest first."""
        return [_to_chat_message(message) for message in read_conversation(self._owner)]

    def put(self, message: ChatMessage) -> None:
        """Add a message; raises as `put_messages`."""
        self.put_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Add messages, all or none; raise `BadMessage` if one of them is no JSON."""
        self.memory.save_messages(self.session_id, self._build_messages(messages), user_id=self.user_id)

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Make these the conversation, in one transaction; a beginning that is equal stays as it is.

        Records derived only from the others are forgotten too; `MemoryManager.restore` brings all back.
        Raises `BadMessage` if one of them is no JSON.
        """
        new = [message.to_dict() for message in self._build_messages(messages)]
        self.memory.replace_messages(self.session_id, new, user_id=self.user_id)

    def reset(self) -> None:
        """Forget the conversation, and all that was derived from it."""
        self.memory.forget(session_id=self.session_id, user_id=self.user_id, reason="reset")

    def _build_messages(self, messages: Sequence[ChatMessage]) -> list[Message]:
        """Return messages to save, without the recalled text that `get` added."""
        recalled = self.last.recalled.text if self.last else ""
        return [_to_message(chat) for chat in messages if not (recalled and chat.content == recalled)]


class JiyiMemoryBlock(BaseMemoryBlock[str]):
    """What the memory recalls for the newest question, as a block of LlamaIndex's own `Memory`.

    Messages that leave that memory's queue are saved here, in the session of its ``session_id``. The
    text stays the same until another question is asked. If the memory fails, the block is empty.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    name: str = "jiyi"
    description: str | None = "What was said in other conversations."
    priority: int = 1
    memory: MemoryManager = Field(exclude=True)  # it stays open
    user_id: str | None = None  # whose; None: whom the memory was opened for
    recall_tokens: int = Field(default=1_000, gt=0)  # most that is recalled
    seconds: float = Field(default=3.0, gt=0)  # that a recall may take

    _fitting: Fitting = PrivateAttr()
    _last_shown: tuple[object, Recalled] | None = PrivateAttr(default=None)  # question, result

    def model_post_init(self, context: Any, /) -> None:
        """Set up how much is recalled."""
        super().model_post_init(context)
        self._fitting = Fitting(self.memory, self.recall_tokens, self.recall_tokens, self.seconds)

    @property
    def last(self) -> Recalled | None:
        """What was recalled last and why, and whether nothing was relevant."""
        return self._last_shown[1] if self._last_shown else None

    async def _aget(
        self, messages: Sequence[ChatMessage] | None = None, session_id: str = _NO_SESSION, **_: Any
    ) -> str:
        talk = [_to_message(message) for message in messages or ()]
        state = session_id, list(dict.fromkeys(m.text for m in talk if m.role == "user"))
        if self._last_shown is None or self._last_shown[0] != state:
            owner = Owner(self.memory, self.user_id, session_id)
            self._last_shown = state, await asyncio.to_thread(self._fitting.recall, owner, talk)
        return self._last_shown[1].text

    async def _aput(self, messages: Sequence[ChatMessage]) -> None:
        for session_id, group in groupby(messages, lambda m: m.additional_kwargs.get("session_id")):
            saved, session = [_to_message(message) for message in group], session_id or _NO_SESSION
            await finish(asyncio.to_thread(self.memory.save_messages, session, saved, user_id=self.user_id))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the beginning of a text, so many tokens shorter; None if nothing is left."""
        counter = self.memory.counter
        return counter.truncate(content, counter.count_text(content) - tokens_to_truncate) or None


def _to_message(chat: ChatMessage) -> Message:
    try:
        raw = chat.model_dump(mode="json")
    except ValueError as error:
        raise BadMessage(f"a message cannot be written as JSON: {error}") from error
    raw["additional_kwargs"].pop("images", None)  # they are blocks already, and would be doubled when read
    return build_message(raw, parse_llama_index_message(raw)[0])


def _to_chat_message(message: Message) -> ChatMessage:
    """Return the original of a stored message; one that was saved by other means is converted."""
    raw = raw_of(message)
    if "blocks" in as_dict(raw):
        with suppress(ValidationError):  # such as an image whose path no longer exists
            return ChatMessage.model_validate(raw)
    blocks: list[dict[str, Any]] = [{"block_type": "text", "text": message.text}] if message.text else []
    for call in message.tool_calls:
        fields = {"tool_call_id": call.id, "tool_name": call.name, "tool_kwargs": call.arguments}
        blocks.append({"block_type": "tool_call", **fields})
    extra = {"tool_call_id": message.tool_call_id} if message.role == "tool" else {}
    return ChatMessage.model_validate({"role": message.role, "blocks": blocks, "additional_kwargs": extra})


def _find_other_parts(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the blocks beyond text and calls in the form of Chat Completions, as far as their size needs."""
    for block in as_dict(raw_of(message)).get("blocks", ()):
        match block["block_type"]:
            case "text" | "tool_call" | "cache":  # counted already, or free
                pass
            case "image":
                yield {"type": "image_url"}
            case "audio":
                yield {"type": "input_audio"}
            case "video" | "document" as kind:
                yield {"type": "file", "file": {"file_data": block.get("data") or block.get(kind)}}
            case _:
                yield {"type": "text", "text": json.dumps(block, ensure_ascii=False)}
