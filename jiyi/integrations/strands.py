"""Strands Agents: a store that saves conversations and finds them again, for its memory manager."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from jiyi.async_manager import AsyncMemoryManager
from jiyi.integrations.common import finish, require_framework
from jiyi.integrations.recalling import describe_hit, hash_text
from jiyi.manager import MemoryManager
from jiyi.records import Hits, Message
from jiyi.records.checks import new_id

with require_framework("Strands Agents", "strands"):
    from strands import tool
    from strands.memory import AddMessagesContext, InvocationTrigger, MemoryEntry, SearchOptions

_DEFAULT_RESULT_COUNT = 5  # if neither the caller nor the store says how many


@dataclass(eq=False, repr=False)
class JiyiMemoryStore:
    """A `strands.memory.MemoryStore` on a memory, for one agent: ``MemoryManager(stores=[store])``.

    What the user and the agent say is a conversation of the memory, read for facts. `search` looks in all
    else of the user's memory; the agent has its own conversation already.
    """

    memory: MemoryManager  # where it is kept; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose; by default whom the memory was opened for
    session_id: str = ""  # the conversation; by default a new one for each store
    name: str = "jiyi"  # what tools call the store
    description: str | None = "What was said and learned in earlier conversations."  # for the model
    max_search_results: int | None = None  # entries of a search where the caller does not say
    extraction: Any = None  # when to save, as in Strands; by default after each invocation
    forget_tool: bool = False  # give the agent a tool that forgets what it found, by ids
    last: Hits | None = field(default=None, init=False)
    """The hits of the last search, with ``nothing_relevant`` and each hit's ``why``."""
    writable = True

    def __post_init__(self) -> None:
        if self.extraction is None:
            self.extraction = {"trigger": InvocationTrigger()}
        self.session_id = self.session_id or f"strands-{new_id()}"
        self._memory = AsyncMemoryManager(self.memory)
        self._instance_id = new_id()  # sequence numbers begin again with each agent

    async def initialize(self) -> None:
        """Raise a `JiyiError` if the memory cannot be read: it is closed or damaged, or no user is set."""
        await self._memory.session_messages(self.session_id, 1, user_id=self.user_id)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return what other conversations have for a query, best first; metadata as of `describe_hit`."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or _DEFAULT_RESULT_COUNT
        self.last = hits = await self._memory.search(
            query, limit=limit, filters={"session_id": {"ne": self.session_id}}, user_id=self.user_id
        )
        return [MemoryEntry(content=hit.wordings[0], metadata=describe_hit(hit, hits)) for hit in hits]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str | None:
        """Keep a text, whose newer value replaces an older one; return the id of the record with its text.

        Raises `InputError` if the metadata cannot be saved.
        """
        learned = await finish(self._memory.remember(content, metadata=metadata, user_id=self.user_id))
        return learned.kept

    async def add_messages(
        self, messages: Sequence[Mapping[str, Any]], context: AddMessagesContext | None = None
    ) -> None:
        """Save messages, all or none; the same sequence numbers a second time change nothing.

        Messages without text, such as tool calls, are left out.
        """
        sequence_numbers = context.sequence_numbers if context is not None else None
        numbered = zip(sequence_numbers or [None] * len(messages), messages, strict=True)
        to_save = [self._build_message(number, entry) for number, entry in numbered if _read_text(entry)]
        if to_save:
            await finish(self._memory.save_messages(self.session_id, to_save, user_id=self.user_id))

    def get_tools(self) -> list[Any]:
        """Return the tool ``forget_memory`` if ``forget_tool`` is set."""

        async def forget_memory(ids: list[str]) -> int:
            """Forget memories that are wrong or that the user wants forgotten, with all derived from them.

            Args:
                ids: ids of entries, from the metadata that search_memory gave.

            Returns:
                How many records were forgotten.
            """
            reason = "forgotten by the agent"
            return (await finish(self._memory.forget(ids=ids, reason=reason, user_id=self.user_id))).total

        return [tool(forget_memory)] if self.forget_tool else []

    def _build_message(self, sequence_number: int | None, message: Mapping[str, Any]) -> Message:
        role, text = message["role"], _read_text(message)
        # Agents that share a store use the same numbers; their words tell their messages apart.
        identity = (self._instance_id, sequence_number, role, text)
        message_id = new_id() if sequence_number is None else hash_text(repr(identity))
        return Message(role=role, content=text, id=message_id)


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, with the text that cites sources."""
    texts: list[str] = []
    for block in message["content"]:
        citations = block.get("citationsContent", {}).get("content", ())
        texts.extend(part["text"] for part in (block, *citations) if part.get("text", "").strip())
    return "\n".join(texts)
