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
"""Says whose conversation it is, by the context an app gives to ``Runner.run``."""


@dataclass(eq=False, repr=False)
class JiyiSession:
    """A session of the Agents SDK in a memory; each item is a message, found by `search` and read for facts.

    - Items come back deep-equal, in their order, as often as they were added.
    - `add_items` writes all or none; a change that has begun is finished when its caller is cancelled.
    - `clear_session` forgets the conversation with everything derived from it; `restore` brings it back.
    """

    session_id: str  # the conversation
    memory: MemoryManager  # where it is kept; it stays open
    _: KW_ONLY
    user_id: str | None = None  # whose; by default whom the memory was opened for
    user_of: UserOf | None = None  # says whose, by the context of a run; it goes before ``user_id``
    session_settings: Any = None
    """The SDK's, or a dict of them: ``limit`` items are given back where no number is asked for."""

    def __post_init__(self) -> None:
        if not isinstance(self.session_id, str) or not self.session_id:
            raise InputError(f"session_id must be non-empty text, not {self.session_id!r}")
        self.session_settings = SessionSettings().resolve(self.session_settings)
        self._memory = AsyncMemoryManager(self.memory)

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[_Item]:
        """Return the newest ``limit`` items, oldest first; without a limit, or with one below 0, all."""
        most = self.session_settings.limit if limit is None else limit
        if most == 0:
            return []
        user = self._user(wrapper)
        if most is None or not 0 < most <= 10_000:
            stored = await asyncio.to_thread(read_conversation, Owner(self.memory, user, self.session_id))
        else:
            stored = await self._memory.session_messages(self.session_id, most, user_id=user)
        items = [item for message in stored for item in _items_of(message)]
        return items if most is None or most < 0 else items[-most:]

    async def add_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Add items, all or none; raise `BadMessage` if one of them is no dict of JSON."""
        if items:
            messages = [_message_of(item) for item in items]
            user = self._user(wrapper)
            await finish(self._memory.save_messages(self.session_id, messages, user_id=user))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> _Item | None:
        """Take the newest item out and return it; None where there is none."""
        user = self._user(wrapper)
        message = await finish(self._memory.pop_message(self.session_id, user_id=user))
        if message is None:
            return None
        *before, item = _items_of(message)
        if before:  # saved by other means than this: one message, several items
            await self.add_items(before, wrapper=wrapper)
        return item

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Forget the conversation, and all that was derived from it."""
        user = self._user(wrapper)
        await finish(self._memory.forget(session_id=self.session_id, user_id=user, reason="cleared"))

    async def replace_items(
        self, items: Sequence[_Item], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Make these the items of the session, in one transaction; those it begins with already stay."""
        messages = [_message_of(item).to_dict() for item in items]
        user = self._user(wrapper)
        await finish(self._memory.replace_messages(self.session_id, messages, user_id=user))

    async def _atomic_replace_items(self, items: Sequence[_Item]) -> bool:
        # By this name the SDK's compaction asks for it; else it clears the session and adds them.
        await self.replace_items(items)
        return True

    def input_filter(
        self, budget: int | None = None, *, recall_tokens: int | None = None, seconds: float = 3.0
    ) -> "JiyiInputFilter":
        """Return a ``call_model_input_filter`` for this session; see `JiyiInputFilter`."""
        owner = Owner(self.memory, self.user_id, self.session_id)
        return JiyiInputFilter(owner, Fitting.of(self.memory, budget, recall_tokens, seconds), self.user_of)

    def run_config(self, budget: int | None = None, **fields: Any) -> RunConfig:
        """Return a run configuration with `input_filter`; ``fields`` are its other ones."""
        return RunConfig(call_model_input_filter=self.input_filter(budget), **fields)

    def _user(self, wrapper: RunContextWrapper[Any] | None) -> str | None:
        if self.user_of is not None and wrapper is not None and wrapper.context is not None:
            return self.user_of(wrapper.context)
        return self.user_id


@dataclass(slots=True, eq=False)
class JiyiInputFilter:
    """What the model is shown: the items that fit, and what the memory recalls before the newest question.

    Instructions, tools, handoffs and the output's schema count. Items are passed on as they are, or
    left out. If the memory fails or takes longer than its time, the input passes as it came.
    """

    owner: Owner
    fitting: Fitting
    user_of: UserOf | None = None
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return what the model is shown."""
        with log_errors("the input passes without memory"):
            return await self._shown(data)
        return data.model_data

    async def _shown(self, data: CallModelData[Any]) -> ModelInputData:
        items, instructions = data.model_data.input, data.model_data.instructions
        tools = await _tools(data.agent, data.context)
        owner = self.owner
        if self.user_of is not None and data.context is not None:
            owner = Owner(owner.memory, self.user_of(data.context), owner.session_id)
        fitted, shown = await asyncio.to_thread(self._fitted, owner, items, instructions or "", tools)
        self.last = fitted
        return ModelInputData(input=shown, instructions=instructions)

    def _fitted(
        self, owner: Owner, items: Sequence[Any], instructions: str, tools: Sequence[dict[str, Any]]
    ) -> tuple[Fitted, list[Any]]:
        groups = _grouped(items, owner.memory.counter)
        talk = [message for message, _ in groups]
        fitted = self.fitting.fit(owner, talk, system=instructions, tools=tools)
        given = [[items[i] for i in places] for _, places in groups]
        shown = fitted.select(given, lambda text: [{"role": "user", "content": text}])
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
    return [describe_function(*one) for one in given]


_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_RESULTS = ("function_call_output", "custom_tool_call_output")
_ROLES = ("user", "assistant", "system", "developer")


def _message_of(item: object) -> Message:
    """Return the message that an item is, with the item itself; what has no words has none there.

    Raises:
        BadMessage: it is no dict of JSON.
    """
    return build_message(dict(as_mapping(item)), _said(as_mapping(item)))


def _items_of(message: Message) -> list[_Item]:
    """Return the items that a message is: the one it was made of, or what says the same."""
    raw = raw_of(message)
    if raw is not None:
        return [raw]
    if message.role == "tool":
        return [{"type": _RESULTS[0], "call_id": message.tool_call_id, "output": message.text}]
    calls: list[_Item] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    said: list[_Item] = [{"role": message.role, "content": message.text}]
    return calls if calls and not message.text else [*said, *calls]


def _grouped(items: Sequence[_Item], counter: TokenCounter) -> list[tuple[Message, list[int]]]:
    """Return messages for a window, each with the places of its items.

    What the model thought, said and called without a break is one message: an API refuses a
    thought without what follows it. Each is counted with what it has beside words.
    """
    groups: list[tuple[list[int], list[Mapping[str, Any]]]] = []
    for place, item in enumerate(items):
        said = _said(item)
        turn = said["role"] == "assistant"
        if not (turn and groups and groups[-1][1][-1]["role"] == "assistant"):
            groups.append(([], []))
        groups[-1][0].append(place)
        groups[-1][1].append(said)
    return [(_joined(said, [items[i] for i in places], counter), places) for places, said in groups]


def _joined(said: Sequence[Mapping[str, Any]], items: Sequence[_Item], counter: TokenCounter) -> Message:
    words = [str(one["content"]) for one in said if one["content"]]
    calls = [call for one in said for call in one.get("tool_calls", ())]
    body: dict[str, Any] = {**said[0], "content": "\n".join(words)}
    message = Message.from_openai(body | ({"tool_calls": calls} if calls else {}))
    tokens = counter.count(message) + sum(_beside(item, counter) for item in items)
    return Message.from_openai(message.to_dict(), tokens=tokens, tokens_by=counter.name)


def _beside(item: _Item, counter: TokenCounter) -> int:
    """Return the tokens of what an item has besides its words and calls, such as pictures and thoughts."""
    if item.get("type") in (*_CALLS, *_RESULTS) or (item.get("role") in _ROLES and "content" in item):
        parts = item.get("content", item.get("output"))
        odd = [p for p in parts if not join_text([p])] if isinstance(parts, list) else []
        pictures = [p for p in odd if isinstance(p, dict) and p.get("type") == "input_image"]
        shown = [{"type": "image_url", "image_url": {"url": p.get("image_url") or ""}} for p in pictures]
        rest = [part for part in odd if part not in pictures]
        return (counter.count(Message(role="user", content=tuple(shown))) if shown else 0) + (
            counter.count_text(json.dumps(rest, ensure_ascii=False, default=str)) if rest else 0
        )
    return counter.count_text(json.dumps(item, ensure_ascii=False, default=str))


def _said(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an item says as a Chat Completions message."""
    kind, role = item.get("type") or "message", item.get("role")
    if kind in _RESULTS and isinstance(item.get("call_id"), str):
        return {"role": "tool", "tool_call_id": item["call_id"], "content": join_text(item.get("output"))}
    if kind in _CALLS and item.get("call_id") and isinstance(item.get("name"), str):
        written = str(item.get(_CALLS[kind]) or "")
        body = {"name": item["name"], _CALLS[kind]: written}
        call = {"type": "custom", "custom": body} if "custom" in kind else {"function": body}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": item["call_id"], **call}]}
    if kind == "message" and role in _ROLES:
        return {"role": role, "content": join_text(item.get("content"))}
    return {"role": "assistant", "content": ""}
