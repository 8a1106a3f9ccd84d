"""LangChain: a middleware that gives agents memory, with ``create_agent`` and deepagents, and a retriever."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from jiyi.importers.entries import tool_call
from jiyi.integrations.common import find_sessions, find_user_id, log_errors, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting, with_tokens
from jiyi.integrations.recalling import Entry, Owner, Saver, describe_hit, hash_text, read_conversation
from jiyi.integrations.tools import build_tools, describe_function
from jiyi.manager import MemoryManager
from jiyi.records import SEARCHABLE, Kind, Message
from jiyi.text import TokenCounter

with require_framework("LangChain", "langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
    from langchain.tools import ToolRuntime
    from langchain_core import messages as lc
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from pydantic import ConfigDict, Field

_Request: TypeAlias = ModelRequest[Any]
_Response: TypeAlias = ModelResponse[Any]

UserOf = Callable[[Any], str | None]
"""Returns the user of a run, from LangGraph's ``Runtime``."""

_SUBGRAPH = "|graph:"  # between a thread's id and the path to an agent inside its graph


class JiyiMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Saves an agent's threads, and shows the model the messages that fit with what the memory recalls.

    - A message of the state is saved once, by its id; a changed one replaces its saved version. A
      summary that LangChain made is not saved, and without a ``thread_id`` nothing is.
    - LangChain's message objects are shown or left out, never changed, and neither is the state.
    - If recalling fails or takes longer than its time, the model is asked without it; messages that
      cannot be saved are saved with the next request.

    Args:
        memory: stays open.
        budget: input tokens; the settings' by default.
        user_id: whose; by default ``user_id`` of the run's context, then the user whom a LangGraph
            server let in, then whom the memory was opened for.
        user_of: returns the user, from the runtime; overrides ``user_id``.
        recall_tokens: most that is recalled; a quarter of the budget by default.
        seconds: that recalling may take.
        tools: whether the model gets ``remember``, ``recall`` and ``forget``.
        name: of the middleware; "SummarizationMiddleware" replaces deepagents' own.
        last: (attribute) what was shown last, with ``last.recalled.nothing_relevant`` and ``why``.
    """

    def __init__(
        self,
        memory: MemoryManager,
        budget: int | None = None,
        *,
        user_id: str | None = None,
        user_of: UserOf | None = None,
        recall_tokens: int | None = None,
        seconds: float = 3.0,
        tools: bool = False,
        name: str = "JiyiMemoryMiddleware",
    ) -> None:
        super().__init__()
        self.last: Fitted | None = None
        own_tools = build_tools(self._owner, ToolRuntime[Any, Any]) if tools else ()
        self.tools = [StructuredTool.from_function(tool) for tool in own_tools]
        self._memory = memory
        self._user_of = user_of or (lambda runtime: user_id if user_id is not None else _find_user(runtime))
        self._fitting = Fitting(memory, budget, recall_tokens, seconds)
        self._saver = Saver()
        self._name = name

    @property
    def name(self) -> str:
        """The name by which agents know it."""
        return self._name

    def wrap_model_call(self, request: _Request, handler: Callable[[_Request], _Response]) -> _Response:
        """Save, ask the model with the messages that fit and the recalled text, save the answer."""
        response = handler(self._prepare_request(request))
        self._save_answer(request, response)
        return response

    async def awrap_model_call(
        self, request: _Request, handler: Callable[[_Request], Awaitable[_Response]]
    ) -> _Response:
        """Do what `wrap_model_call` does without blocking the event loop."""
        response = await handler(await asyncio.to_thread(self._prepare_request, request))
        await asyncio.to_thread(self._save_answer, request, response)
        return response

    def history(self, thread_id: str, *, user_id: str | None = None) -> list[lc.BaseMessage]:
        """Return all messages of a thread as they were, also those the state no longer has."""
        return list(map(_to_langchain, read_conversation(Owner(self._memory, user_id, thread_id))))

    def forget_thread(self, thread_id: str, *, user_id: str | None = None) -> int:
        """Forget a thread and its subagents' with all derived from them; return how many records.

        `MemoryManager.restore` brings it back. The checkpointer has a copy of its own.
        """
        ids = [thread_id, *find_sessions(self._memory, f"{thread_id}{_SUBGRAPH}", user_id)]
        forget = partial(self._memory.forget, user_id=user_id, reason="thread deleted")
        return sum(forget(session_id=id_).total for id_ in ids)

    def _prepare_request(self, request: _Request) -> _Request:
        with log_errors("the request passes without memory"):
            owner = self._owner(request.runtime)
            try:
                talk = [_to_message(message, self._memory.counter) for message in request.messages]
                system, tools = request.system_prompt or "", _describe_tools(request)
                self.last = fitted = self._fitting.fit(owner, talk, system=system, tools=tools)
                return request.override(messages=list(fitted.select(request.messages, lc.HumanMessage)))
            finally:  # not before: a saved question would be found as an answer to itself
                self._save(owner, request.state["messages"])
        return request

    def _save_answer(self, request: _Request, response: _Response) -> None:
        with log_errors("an answer is not saved yet"):
            # A message without an id gets one from the state, and is saved with the next request.
            messages = [*request.state["messages"], *(m for m in response.result if m.id)]
            self._save(self._owner(request.runtime), messages)

    def _owner(self, runtime: Any) -> Owner:
        return Owner(self._memory, self._user_of(runtime), _find_session_id(runtime))

    def _save(self, owner: Owner, messages: Sequence[lc.BaseMessage]) -> None:
        if owner.session_id == _SUBGRAPH:  # no thread
            return
        counter = self._memory.counter
        with log_errors("messages are not saved yet"):
            # Nobody said the summaries that LangChain makes of other messages.
            originals = [m for m in messages if m.additional_kwargs.get("lc_source") != "summarization"]
            entries = [_to_entry(message, _to_message(message, counter)) for message in originals]
            self._saver.save(owner, entries)


class JiyiRetriever(BaseRetriever):
    """Finds what a memory holds: messages, episodes, knowledge and facts, best first.

    A `Document` has the record's id and words; its metadata is that of `describe_hit`, and ``score``.

    Raises `BadQuery`: an empty query, a filter that is impossible.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: MemoryManager
    k: int = Field(default=4, ge=1)
    """How many documents at most; ``invoke(query, k=...)`` overrides it."""
    kinds: Sequence[Kind] = SEARCHABLE
    filters: Mapping[str, Any] | None = None
    """As in `MemoryManager.search`."""
    min_score: float = 0.0
    """From 0 to 1: documents with less ``relevance`` are left out."""
    session_id: str | None = None
    user_id: str | None = None

    def _get_relevant_documents(self, query: str, *, k: int | None = None, **_: Any) -> list[Document]:
        hits = self.memory.search(
            query,
            limit=self.k if k is None else k,
            kinds=self.kinds,
            filters=self.filters,
            min_score=self.min_score,
            session_id=self.session_id,
            user_id=self.user_id,
        )
        described = [(hit, {"score": hit.score, **describe_hit(hit, hits)}) for hit in hits]
        return [Document(id=hit.id, page_content=hit.wordings[0], metadata=data) for hit, data in described]


def _find_session_id(runtime: Any) -> str:
    """Return the thread of a run, with the path to the agent if that is part of another graph."""
    execution = runtime.execution_info
    if execution is None or not execution.thread_id:
        return _SUBGRAPH
    # The last part is the model's own node; the ids after ":" differ from run to run.
    path = [part.partition(":")[0] for part in execution.checkpoint_ns.split("|")[:-1]]
    return f"{execution.thread_id}{_SUBGRAPH}{'|'.join(path)}" if path else str(execution.thread_id)


def _find_user(runtime: Any) -> Any:
    user, server = find_user_id(runtime.context), runtime.server_info
    return server.user.identity if user is None and server and server.user else user


_ROLES = {"human": "user", "system": "system", "tool": "tool"}
_COUNTED_PARTS = ("text", "tool_use", "tool_call", "function_call")  # counted as text and calls


def _to_message(message: lc.BaseMessage, counter: TokenCounter) -> Message:
    """Return the text and calls of a message, with the tokens of all its parts."""
    body: dict[str, Any] = {"role": _find_role(message), "content": str(message.text)}
    if isinstance(message, lc.ToolMessage):
        body["tool_call_id"] = message.tool_call_id
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, lc.AIMessage) else []
    if calls:
        body["tool_calls"] = [
            tool_call(call["id"] or f"without-id-{index}", call["name"] or "", call["args"])
            for index, call in enumerate(calls)
        ]
    return with_tokens(Message.from_openai(body), _find_other_parts(message), counter)


def _to_entry(message: lc.BaseMessage, converted: Message) -> Entry:
    """Return a message as it is saved: complete, except for an artifact that is not JSON."""
    raw = json.dumps(message.model_dump(), ensure_ascii=False, skipkeys=True, default=repr)
    return Entry(message.id or hash_text(raw), raw, converted)


def _to_langchain(message: Message) -> lc.BaseMessage:
    """Return a stored message as LangChain's; one that was saved by other means is converted."""
    raw = raw_of(message)
    if isinstance(raw, Mapping) and "type" in raw:
        return lc.messages_from_dict([{"type": raw["type"], "data": raw}])[0]
    return lc.convert_to_messages([message.to_openai()])[0]


def _describe_tools(request: _Request) -> list[dict[str, Any]]:
    """Return the tools of a request and the schema of its output."""
    tools = [_describe_tool(tool) for tool in request.tools]
    output = request.response_format
    if output is not None and not isinstance(output, ToolStrategy | ProviderStrategy):
        output = ToolStrategy(getattr(output, "schema", output))
    specs: Sequence[Any] = getattr(output, "schema_specs", ())
    if isinstance(output, ProviderStrategy):
        specs = [output.schema_spec]
    return [*tools, *(describe_function(spec.name, spec.description, spec.json_schema) for spec in specs)]


def _find_role(message: lc.BaseMessage) -> str:
    if isinstance(message, lc.ChatMessage):
        return message.role if message.role in ("user", "system") else "assistant"
    return _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "assistant")


def _find_other_parts(message: lc.BaseMessage) -> list[dict[str, Any]]:
    """Return images, thoughts and other parts that are neither text nor calls."""
    parts = [part for part in message.content if isinstance(part, dict)]
    others = [part for part in parts if part.get("type") not in _COUNTED_PARTS]
    if not others:
        return []
    try:
        body = lc.convert_to_openai_messages([message.model_copy(update={"content": others})])[0]
        return [part for part in body["content"] if isinstance(part, dict)]
    except (ValueError, KeyError, TypeError):  # parts of another provider
        return others


def _describe_tool(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except ValueError:  # a provider's own tool
        return dict(tool)
