"""OpenAI Agents SDK: a session that is a conversation of the memory, and windows for the model."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import InputError
from jiyi.integrations.common import build_message, finish, log_errors, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting, with_tokens
from jiyi.integrations.recalling import Owner, read_conversation
from jiyi.integrations.responses import find_other_parts, group_items, join_items, to_chat_message
from jiyi.integrations.tools import describe_function
from jiyi.manager import MemoryManager
from jiyi.records import Message, as_mapping
from jiyi.text import TokenCounter

with require_framework("the OpenAI Agents SDK", "openai-agents"):
    from agents import Agent, FunctionTool, Handoff, RunConfig, RunContextWrapper, handoff
    from agents.agent_output import AgentOutputSchema, AgentOutputSchemaBase
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData

_Item = dict[str, Any]
_Wrapper: TypeAlias = RunContextWrapper[Any] | None

UserOf = Callable[[Any], str]
"""Returns the user of a conversation, from the context an app gives to ``Runner.run``."""


@dataclass(eq=False, repr=False)
class JiyiSession:
    """A session of the Agents SDK in a memory; each item is a message, found by `search` and read for facts.

    Items come back deep-equal, in their order, as often as they were added. A change that has begun is
    finished when its caller is cancelled.
    """

    session_id: str  # the conversation
    memory: MemoryManager  # where it is saved; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose; by default whom the memory was opened for
    user_of: UserOf | None = None  # returns the user, from the context of a run; overrides ``user_id``
    session_settings: Any = None
    """The SDK's, or a dict of them: ``limit`` is how many items are returned if none is asked for."""

    def __post_init__(self) -> None:
        if not isinstance(self.session_id, str) or not self.session_id:
            raise InputError(f"session_id must be non-empty text, not {self.session_id!r}")
        self.session_settings = SessionSettings().resolve(self.session_settings)
        self._memory = AsyncMemoryManager(self.memory)

    async def get_items(self, limit: int | None = None, *, wrapper: _Wrapper = None) -> list[_Item]:
        """Return the newest ``limit`` items, oldest first; without a limit, or with one below 0, all."""
        count = self.session_settings.limit if limit is None else limit
        if count == 0:
            return []
        user = self._find_user(wrapper)
        if count is None or not 0 < count <= 10_000:
            stored = await asyncio.to_thread(read_conversation, Owner(self.memory, user, self.session_id))
        else:
            stored = await self._memory.session_messages(self.session_id, count, user_id=user)
        items = [item for message in stored for item in _to_items(message)]
        return items if count is None or count < 0 else items[-count:]

    async def add_items(self, items: Sequence[_Item], *, wrapper: _Wrapper = None) -> None:
        """Add items, all or none; raise `BadMessage` if one of them is no dict of JSON."""
        if items:
            messages, user = [_to_message(item) for item in items], self._find_user(wrapper)
            await finish(self._memory.save_messages(self.session_id, messages, user_id=user))

    async def pop_item(self, *, wrapper: _Wrapper = None) -> _Item | None:
        """Remove the newest item and return it; None if there is none."""
        message = await finish(self._memory.pop_message(self.session_id, user_id=self._find_user(wrapper)))
        if message is None:
            return None
        *earlier, item = _to_items(message)
        if earlier:  # saved by other means: one message, several items
            await self.add_items(earlier, wrapper=wrapper)
        return item

    async def clear_session(self, *, wrapper: _Wrapper = None) -> None:
        """Forget the conversation, and all that was derived from it; `restore` brings it back."""
        user = self._find_user(wrapper)
        await finish(self._memory.forget(session_id=self.session_id, user_id=user, reason="cleared"))

    async def replace_items(self, items: Sequence[_Item], *, wrapper: _Wrapper = None) -> None:
        """Make these the items of the session, in one transaction; a beginning that is equal stays."""
        messages, user = [_to_message(item).to_dict() for item in items], self._find_user(wrapper)
        await finish(self._memory.replace_messages(self.session_id, messages, user_id=user))

    async def _atomic_replace_items(self, items: Sequence[_Item]) -> bool:
        # The SDK's compaction looks for this name; without it, it clears the session and adds the items.
        await self.replace_items(items)
        return True

    def input_filter(
        self, budget: int | None = None, *, recall_tokens: int | None = None, seconds: float = 3.0
    ) -> "JiyiInputFilter":
        """Return a ``call_model_input_filter`` for this session; see `JiyiInputFilter`."""
        owner = Owner(self.memory, self.user_id, self.session_id)
        return JiyiInputFilter(owner, Fitting(self.memory, budget, recall_tokens, seconds), self.user_of)

    def run_config(self, budget: int | None = None, **fields: Any) -> RunConfig:
        """Return a run configuration with `input_filter`; ``fields`` are its other ones."""
        return RunConfig(call_model_input_filter=self.input_filter(budget), **fields)

    def _find_user(self, wrapper: _Wrapper) -> str | None:
        if self.user_of is not None and wrapper is not None and wrapper.context is not None:
            return self.user_of(wrapper.context)
        return self.user_id


@dataclass(slots=True, eq=False)
class JiyiInputFilter:
    """Gives the model the items that fit, unchanged, and the recalled text before the newest question.

    If the memory fails or takes longer than its time, the input is passed on as it came.
    """

    owner: Owner
    fitting: Fitting
    user_of: UserOf | None = None
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input for the model."""
        with log_errors("the input passes without memory"):
            tools = await _describe_tools(data.agent, data.context)
            return await asyncio.to_thread(self._fit_input, data, tools)
        return data.model_data

    def _fit_input(self, data: CallModelData[Any], tools: Sequence[dict[str, Any]]) -> ModelInputData:
        owner, instructions = self.owner, data.model_data.instructions
        if self.user_of is not None and data.context is not None:
            owner = replace(owner, user_id=self.user_of(data.context))
        groups = group_items(data.model_data.input)
        talk = [_count_items(group, owner.memory.counter) for group in groups]
        self.last = fitted = self.fitting.fit(owner, talk, system=instructions or "", tools=tools)
        shown = fitted.select(groups, lambda text: [{"role": "user", "content": text}])
        return ModelInputData(input=list(chain.from_iterable(shown)), instructions=instructions)


async def _describe_tools(agent: Agent[Any], context: Any) -> list[dict[str, Any]]:
    """Return an agent's tools, handoffs and output schema, in the form of Chat Completions."""
    tools = await agent.get_all_tools(RunContextWrapper(context=context))
    functions = [(t.name, t.description, t.params_json_schema) for t in tools if isinstance(t, FunctionTool)]
    for target in agent.handoffs:
        tool = target if isinstance(target, Handoff) else handoff(target)
        functions.append((tool.tool_name, tool.tool_description, tool.input_json_schema))
    output = agent.output_type
    if output is not None and output is not str:
        schema = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not schema.is_plain_text():
            functions.append((schema.name(), "", schema.json_schema()))
    return [describe_function(*function) for function in functions]


def _to_message(item: object) -> Message:
    """Return an item as a message, with the item itself; without text its content is empty."""
    return build_message(dict(as_mapping(item)), to_chat_message(as_mapping(item)))


def _to_items(message: Message) -> list[_Item]:
    """Return the items of a message: the original, or conversions if it was saved by other means."""
    raw = raw_of(message)
    if raw is not None:
        return [raw]
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
    calls: list[_Item] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    texts: list[_Item] = [{"role": message.role, "content": message.text}]
    return calls if calls and not message.text else [*texts, *calls]


def _count_items(items: Sequence[_Item], counter: TokenCounter) -> Message:
    """Return a message with the text and calls of items, and the tokens of all they have."""
    others = [part for item in items for part in find_other_parts(item)]
    return with_tokens(Message.from_openai(join_items(items)), others, counter)
