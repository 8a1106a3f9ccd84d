"""OpenAI Agents SDK: a session that is a conversation of the memory, and windows for the model.

``pip install "jiyi[openai-agents]"``. A session gives back every item as it came; `JiyiSession.run_config`
shows the model the part of them that fits, with what the memory recalls.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import InputError, MissingExtra
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.keeping import settled
from jiyi.integrations.openai_items import grouped, items_of, message_of
from jiyi.integrations.recalling import Owner, whole
from jiyi.integrations.tools import function
from jiyi.manager import MemoryManager

try:
    from agents import Agent, FunctionTool, Handoff, RunConfig, RunContextWrapper, handoff
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise MissingExtra('the OpenAI Agents SDK is missing: pip install "jiyi[openai-agents]"') from error

__all__ = ["JiyiInputFilter", "JiyiSession", "UserOf"]

_Item = dict[str, Any]

UserOf = Callable[[Any], str]
"""Says whose conversation it is, by the context an app gives to ``Runner.run``."""

_log = logging.getLogger("jiyi.integrations")


class JiyiSession:
    """A session of the Agents SDK in a memory; each item is a message, found by `search` and read for facts.

    - Items come back deep-equal, in their order, as often as they were added.
    - `add_items` writes all or none; a change that has begun is finished when its caller is cancelled.
    - `clear_session` forgets the conversation with everything derived from it; `restore` brings it back.

    Args:
        session_id: the conversation.
        memory: where it is kept; it stays open.
        user_id: whose; by default whom the memory was opened for.
        user_of: says whose, by the context of a run; it goes before ``user_id``.
        session_settings: their ``limit`` is the number of items that are given back where none is asked for.
    """

    def __init__(
        self,
        session_id: str,
        memory: MemoryManager,
        *,
        user_id: str | None = None,
        user_of: UserOf | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(session_id, str) or not session_id:
            raise InputError(f"session_id must be non-empty text, not {session_id!r}")
        self.session_id = session_id
        self.session_settings = SessionSettings().resolve(session_settings)
        self._sync = memory
        self._memory = AsyncMemoryManager(memory)
        self._user_id = user_id
        self._user_of = user_of

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[_Item]:
        """Return the newest ``limit`` items, oldest first; without a limit, or with one below 0, all."""
        most = self.session_settings.limit if limit is None else limit
        if most == 0:
            return []
        user = self._user(wrapper)
        if most is None or not 0 < most <= 10_000:
            stored = await asyncio.to_thread(whole, Owner(self._sync, user, self.session_id))
        else:
            stored = await self._memory.session_messages(self.session_id, most, user_id=user)
        items = [item for message in stored for item in items_of(message)]
        return items if most is None or most < 0 else items[-most:]

    async def add_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Add items, all or none.

        Raises:
            BadMessage: one of them is no dict of JSON.
        """
        if items:
            messages = [message_of(item) for item in items]
            user = self._user(wrapper)
            await settled(self._memory.save_messages(self.session_id, messages, user_id=user))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> _Item | None:
        """Take the newest item out and return it; None where there is none."""
        user = self._user(wrapper)
        message = await settled(self._memory.pop_message(self.session_id, user_id=user))
        if message is None:
            return None
        *before, item = items_of(message)
        if before:  # saved by other means than this: one message, several items
            await self.add_items(before, wrapper=wrapper)
        return item

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Forget the conversation, and all that was derived from it."""
        user = self._user(wrapper)
        await settled(self._memory.forget(session_id=self.session_id, user_id=user, reason="cleared"))

    async def replace_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Make these the items of the session, in one transaction; those it begins with already stay."""
        messages = [message_of(item).to_dict() for item in items]
        user = self._user(wrapper)
        await settled(self._memory.replace_messages(self.session_id, messages, user_id=user))

    async def _atomic_replace_items(self, items: Sequence[_Item]) -> bool:
        # By this name the SDK's compaction asks for it; else it clears the session and adds them.
        await self.replace_items(items)
        return True

    def input_filter(
        self, budget: int | None = None, *, recall_tokens: int | None = None, seconds: float = 3.0
    ) -> "JiyiInputFilter":
        """Return a ``call_model_input_filter`` for this session; see `JiyiInputFilter`."""
        owner = Owner(self._sync, self._user_id, self.session_id)
        return JiyiInputFilter(owner, Fitting.of(self._sync, budget, recall_tokens, seconds), self._user_of)

    def run_config(self, budget: int | None = None, **fields: Any) -> RunConfig:
        """Return a run configuration with `input_filter`; ``fields`` are its other ones."""
        return RunConfig(call_model_input_filter=self.input_filter(budget), **fields)

    def _user(self, wrapper: RunContextWrapper[Any] | None) -> str | None:
        if self._user_of is not None and wrapper is not None and wrapper.context is not None:
            return self._user_of(wrapper.context)
        return self._user_id


class JiyiInputFilter:
    """What the model is shown: the items that fit, and what the memory recalls before the newest question.

    Instructions, tools, handoffs and the output's schema count. Items are passed on as they are, or
    left out. If the memory fails or takes longer than its time, the input passes as it came.

    Attributes:
        last: what was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``.
    """

    def __init__(self, owner: Owner, fitting: Fitting, user_of: UserOf | None = None) -> None:
        self.last: Fitted | None = None
        self._owner = owner
        self._fitting = fitting
        self._user_of = user_of

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return what the model is shown."""
        try:
            return await self._shown(data)
        except Exception as error:
            _log.warning("the input passes without memory: %s: %s", type(error).__name__, error)
            return data.model_data

    async def _shown(self, data: CallModelData[Any]) -> ModelInputData:
        items, instructions = data.model_data.input, data.model_data.instructions
        tools = await _tools(data.agent, data.context)
        owner = self._owner
        if self._user_of is not None and data.context is not None:
            owner = Owner(owner.memory, self._user_of(data.context), owner.session_id)
        fitted, kept = await asyncio.to_thread(self._fitted, owner, items, instructions or "", tools)
        self.last = fitted
        return ModelInputData(input=kept, instructions=instructions)

    def _fitted(
        self, owner: Owner, items: Sequence[Any], instructions: str, tools: Sequence[dict[str, Any]]
    ) -> tuple[Fitted, list[Any]]:
        groups = grouped(items, owner.memory.counter)
        talk = [message for message, _ in groups]
        fitted = self._fitting.fit(owner, talk, system=instructions, tools=tools)
        given = [[items[i] for i in places] for _, places in groups]
        shown = fitted.shown(given, lambda text: [{"role": "user", "content": text}])
        return fitted, [item for group in shown for item in group]


async def _tools(agent: Agent[Any], context: Any) -> list[dict[str, Any]]:
    """Return what is sent of an agent's tools, handoffs and output, as Chat Completions write tools."""
    wrapped = RunContextWrapper(context=context)
    found = [t for t in await agent.get_all_tools(wrapped) if isinstance(t, FunctionTool)]
    given = [(tool.name, tool.description, tool.params_json_schema) for tool in found]
    for one in agent.handoffs:
        made = one if isinstance(one, Handoff) else handoff(one)
        given.append((made.tool_name, made.tool_description, made.input_json_schema))
    output = agent.output_type
    if output is not None and output is not str:
        from agents import AgentOutputSchema, AgentOutputSchemaBase

        schema = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not schema.is_plain_text():
            given.append((schema.name(), "", schema.json_schema()))
    return [function(*one) for one in given]
