"""OpenAI Agents SDK: a session that is a conversation of the memory, and windows for the model.

``pip install "jiyi[openai-agents]"``. A session gives back every item as it came; `JiyiSession.run_config`
shows the model the part of them that fits, with what the memory recalls.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import InputError
from jiyi.importers.entries import join_text
from jiyi.integrations.common import build_message, finish, log_errors, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Owner, read_conversation
from jiyi.integrations.tools import describe_function
from jiyi.manager import MemoryManager
from jiyi.records import Message, as_mapping
from jiyi.text import TokenCounter

__all__ = ["JiyiInputFilter", "JiyiSession", "UserOf"]

with require_framework("the OpenAI Agents SDK", "openai-agents"):
    from agents import Agent, FunctionTool, Handoff, RunConfig, RunContextWrapper, handoff
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData


_Item = dict[str, Any]

UserOf = Callable[[Any], str]
"""Returns the user of a conversation, from the context an app gives to ``Runner.run``."""


@dataclass(eq=False, repr=False)
class JiyiSession:
    """A session of the Agents SDK in a memory; each item is a message, found by `search` and read for facts.

    - Items come back deep-equal, in their order, as often as they were added.
    - `add_items` writes all or none; a change that has begun is finished when its caller is cancelled.
    - `clear_session` forgets the conversation with everything derived from it; `restore` brings it back.
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

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[_Item]:
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

    async def add_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Add items, all or none; raise `BadMessage` if one of them is no dict of JSON."""
        if items:
            messages = [_to_message(item) for item in items]
            user = self._find_user(wrapper)
            await finish(self._memory.save_messages(self.session_id, messages, user_id=user))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> _Item | None:
        """Remove the newest item and return it; None if there is none."""
        user = self._find_user(wrapper)
        message = await finish(self._memory.pop_message(self.session_id, user_id=user))
        if message is None:
            return None
        *earlier, item = _to_items(message)
        if earlier:  # saved by other means: one message, several items
            await self.add_items(earlier, wrapper=wrapper)
        return item

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Forget the conversation, and all that was derived from it."""
        user = self._find_user(wrapper)
        await finish(self._memory.forget(session_id=self.session_id, user_id=user, reason="cleared"))

    async def replace_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Make these the items of the session, in one transaction; a beginning that is equal stays."""
        messages = [_to_message(item).to_dict() for item in items]
        user = self._find_user(wrapper)
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

    def _find_user(self, wrapper: RunContextWrapper[Any] | None) -> str | None:
        if self.user_of is not None and wrapper is not None and wrapper.context is not None:
            return self.user_of(wrapper.context)
        return self.user_id


@dataclass(slots=True, eq=False)
class JiyiInputFilter:
    """Gives the model the items that fit, and the recalled text before the newest question.

    Instructions, tools, handoffs and the output's schema count. Items are passed on unchanged or left
    out. If the memory fails or takes longer than its time, the input is passed on as it came.
    """

    owner: Owner
    fitting: Fitting
    user_of: UserOf | None = None
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input for the model."""
        with log_errors("the input passes without memory"):
            return await self._fit_input(data)
        return data.model_data

    async def _fit_input(self, data: CallModelData[Any]) -> ModelInputData:
        items, instructions = data.model_data.input, data.model_data.instructions
        tools = await _describe_tools(data.agent, data.context)
        owner = self.owner
        if self.user_of is not None and data.context is not None:
            owner = Owner(owner.memory, self.user_of(data.context), owner.session_id)
        fitted, shown = await asyncio.to_thread(self._fit_items, owner, items, instructions or "", tools)
        self.last = fitted
        return ModelInputData(input=shown, instructions=instructions)

    def _fit_items(
        self, owner: Owner, items: Sequence[Any], instructions: str, tools: Sequence[dict[str, Any]]
    ) -> tuple[Fitted, list[Any]]:
        groups = _group_items(items, owner.memory.counter)
        talk = [message for message, _ in groups]
        fitted = self.fitting.fit(owner, talk, system=instructions, tools=tools)
        item_groups = [[items[i] for i in indices] for _, indices in groups]
        shown = fitted.select(item_groups, lambda text: [{"role": "user", "content": text}])
        return fitted, [item for group in shown for item in group]


async def _describe_tools(agent: Agent[Any], context: Any) -> list[dict[str, Any]]:
    """Return an agent's tools, handoffs and output schema, in the form of Chat Completions."""
    wrapped = RunContextWrapper(context=context)
    function_tools = [t for t in await agent.get_all_tools(wrapped) if isinstance(t, FunctionTool)]
    functions = [(t.name, t.description, t.params_json_schema) for t in function_tools]
    for target in agent.handoffs:
        tool = target if isinstance(target, Handoff) else handoff(target)
        functions.append((tool.tool_name, tool.tool_description, tool.input_json_schema))
    output = agent.output_type
    if output is not None and output is not str:
        from agents import AgentOutputSchema, AgentOutputSchemaBase

        schema = output if isinstance(output, AgentOutputSchemaBase) else AgentOutputSchema(output)
        if not schema.is_plain_text():
            functions.append((schema.name(), "", schema.json_schema()))
    return [describe_function(*function) for function in functions]


_ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULT_TYPES = ("function_call_output", "custom_tool_call_output")
_ROLES = ("user", "assistant", "system", "developer")


def _to_message(item: object) -> Message:
    """Return an item as a message, with the item itself; without text its content is empty.

    Raises:
        BadMessage: it is no dict of JSON.
    """
    return build_message(dict(as_mapping(item)), _to_chat_message(as_mapping(item)))


def _to_items(message: Message) -> list[_Item]:
    """Return the items of a message: the original, or conversions if it was saved by other means."""
    raw = raw_of(message)
    if raw is not None:
        return [raw]
    if message.role == "tool":
        return [{"type": _RESULT_TYPES[0], "call_id": message.tool_call_id, "output": message.text}]
    calls: list[_Item] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    texts: list[_Item] = [{"role": message.role, "content": message.text}]
    return calls if calls and not message.text else [*texts, *calls]


def _group_items(items: Sequence[_Item], counter: TokenCounter) -> list[tuple[Message, list[int]]]:
    """Return messages for a window, each with the indices of its items.

    The model's thoughts, words and calls without a break are one message: an API refuses a thought
    without what follows it. Each has the tokens of all its items.
    """
    groups: list[tuple[list[int], list[Mapping[str, Any]]]] = []
    for index, item in enumerate(items):
        body = _to_chat_message(item)
        is_answer = body["role"] == "assistant"
        if not (is_answer and groups and groups[-1][1][-1]["role"] == "assistant"):
            groups.append(([], []))
        groups[-1][0].append(index)
        groups[-1][1].append(body)
    return [(_join(bodies, [items[i] for i in indices], counter), indices) for indices, bodies in groups]


def _join(bodies: Sequence[Mapping[str, Any]], items: Sequence[_Item], counter: TokenCounter) -> Message:
    texts = [str(body["content"]) for body in bodies if body["content"]]
    calls = [call for body in bodies for call in body.get("tool_calls", ())]
    body: dict[str, Any] = {**bodies[0], "content": "\n".join(texts)}
    message = Message.from_openai(body | ({"tool_calls": calls} if calls else {}))
    tokens = counter.count(message) + sum(_count_other_tokens(item, counter) for item in items)
    return Message.from_openai(message.to_dict(), tokens=tokens, tokens_by=counter.name)


def _count_other_tokens(item: _Item, counter: TokenCounter) -> int:
    """Return the tokens of an item beyond those of its text and calls, such as images and thoughts."""
    is_message = item.get("role") in _ROLES and "content" in item
    if is_message or item.get("type") in (*_ARGUMENTS, *_RESULT_TYPES):
        parts = item.get("content", item.get("output"))
        others = [p for p in parts if not join_text([p])] if isinstance(parts, list) else []
        pictures = [p for p in others if isinstance(p, dict) and p.get("type") == "input_image"]
        images = [{"type": "image_url", "image_url": {"url": p.get("image_url") or ""}} for p in pictures]
        rest = [p for p in others if p not in pictures]
        return (counter.count(Message(role="user", content=tuple(images))) if images else 0) + (
            counter.count_text(json.dumps(rest, ensure_ascii=False, default=str)) if rest else 0
        )
    return counter.count_text(json.dumps(item, ensure_ascii=False, default=str))


def _to_chat_message(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text and calls of an item as a Chat Completions message."""
    type_, role = item.get("type") or "message", item.get("role")
    if type_ in _RESULT_TYPES and isinstance(item.get("call_id"), str):
        return {"role": "tool", "tool_call_id": item["call_id"], "content": join_text(item.get("output"))}
    if type_ in _ARGUMENTS and item.get("call_id") and isinstance(item.get("name"), str):
        text = str(item.get(_ARGUMENTS[type_]) or "")
        body = {"name": item["name"], _ARGUMENTS[type_]: text}
        call = {"type": "custom", "custom": body} if "custom" in type_ else {"function": body}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": item["call_id"], **call}]}
    if type_ == "message" and role in _ROLES:
        return {"role": role, "content": join_text(item.get("content"))}
    return {"role": "assistant", "content": ""}
