"""LangChain: a middleware that gives an agent memory, and a retriever.

``pip install "jiyi[langchain]"``. The middleware works with ``create_agent`` and deepagents.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jiyi.importers.entries import tool_call
from jiyi.integrations import tools as verbs
from jiyi.integrations.common import find_user_id, log_errors, raw_of, read_all, require_framework
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Entry, Owner, Saver, describe_hit, hash_text, read_conversation
from jiyi.integrations.tools import describe_function
from jiyi.manager import MemoryManager
from jiyi.records import SEARCHABLE, Kind, Message
from jiyi.text import TokenCounter

__all__ = ["JiyiMemoryMiddleware", "JiyiRetriever", "UserOf"]

with require_framework("LangChain", "langchain"):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
    from langchain.tools import ToolRuntime
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        ChatMessage,
        HumanMessage,
        ToolMessage,
        convert_to_messages,
        convert_to_openai_messages,
        messages_from_dict,
    )
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from pydantic import ConfigDict, Field


UserOf = Callable[[Any], str | None]
"""Says whose a run is, by the ``Runtime`` of LangGraph."""

_INNER = "|graph:"  # between a thread and the path to an agent inside its graph


class JiyiMemoryMiddleware(AgentMiddleware[Any, Any, Any]):
    """Saves what an agent's threads say, and shows the model what fits with what the memory recalls.

    - A message of the state is saved once, by its id; one that was changed takes the place of what
      was saved. A summary that LangChain made is not saved. A thread is the session of its
      ``thread_id``; what a subagent says is in another, ``thread_id|graph:tools``. Without a
      ``thread_id`` nothing is saved.
    - The model is shown LangChain's own message objects, or not; none is changed, and neither is the
      state. What is recalled is one message directly before the newest question.
    - System prompt, tools and output schema count, as this middleware is given them: what one that
      stands after it adds does not.
    - If recalling fails or takes longer than its time, the model is asked without it; messages that
      cannot be saved are saved with the next request.

    Args:
        memory: stays open.
        budget: input tokens; the settings' by default.
        user_id: whose; by default ``user_id`` of the run's context, then the user whom a LangGraph
            server let in, then whom the memory was opened for.
        user_of: says whose, by the runtime; goes before ``user_id``.
        recall_tokens: most that is recalled; a quarter of the budget by default.
        seconds: that recalling may take.
        tools: whether the model gets ``remember``, ``recall`` and ``forget``.
        name: of the middleware; "SummarizationMiddleware" takes the place of deepagents' own.

    Attributes:
        last: what was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``.
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
        self.tools: Sequence[Any] = self._tools() if tools else ()
        self._memory = memory
        self._user_of = user_of or (lambda runtime: user_id if user_id is not None else _user(runtime))
        self._fitting = Fitting.of(memory, budget, recall_tokens, seconds)
        self._saver = Saver()
        self._name = name

    @property
    def name(self) -> str:
        """The name by which agents know it."""
        return self._name

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Save, ask the model with what fits and what is recalled, save the answer."""
        response = handler(self._shown(request))
        self._answered(request, response)
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do what `wrap_model_call` does; the event loop goes on meanwhile."""
        response = await handler(await asyncio.to_thread(self._shown, request))
        await asyncio.to_thread(self._answered, request, response)
        return response

    def history(self, thread_id: str, *, user_id: str | None = None) -> list[BaseMessage]:
        """Return all messages of a thread as they were, also those that the state has no more."""
        return [_given_of(message) for message in read_conversation(Owner(self._memory, user_id, thread_id))]

    def forget_thread(self, thread_id: str, *, user_id: str | None = None) -> int:
        """Forget a thread and its subagents' with all that came of them; return how many records.

        `MemoryManager.restore` brings it back. The checkpointer has a copy of its own.
        """
        found = read_all(lambda after: self._memory.sessions(1_000, after=after, user_id=user_id))
        ids = [thread_id, *(one.id for one in found if one.id.startswith(f"{thread_id}{_INNER}"))]
        forget = partial(self._memory.forget, user_id=user_id, reason="thread deleted")
        return sum(forget(session_id=id_).total for id_ in ids)

    def _shown(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        with log_errors("the request passes without memory"):
            owner = self._owner(request.runtime)
            try:
                return self._fitted(owner, request)
            finally:  # not before: a question that is saved would be found as an answer to itself
                self._save(owner, request.state["messages"])
        return request

    def _answered(self, request: ModelRequest[Any], response: ModelResponse[Any]) -> None:
        with log_errors("an answer is not saved yet"):
            # One without an id gets it from the state, and is saved with the next request.
            known = [*request.state["messages"], *(m for m in response.result if m.id)]
            self._save(self._owner(request.runtime), known)

    def _tools(self) -> list[StructuredTool]:
        def remember(text: str, runtime: ToolRuntime[Any, Any]) -> str:
            return verbs.remember(self._owner(runtime), text)

        def recall(query: str, runtime: ToolRuntime[Any, Any]) -> str:
            return verbs.recall(self._owner(runtime), query)

        def forget(ids: list[str], runtime: ToolRuntime[Any, Any]) -> str:
            return verbs.forget(self._owner(runtime), ids)

        tools: dict[str, Callable[..., str]] = {"remember": remember, "recall": recall, "forget": forget}
        return [
            StructuredTool.from_function(tool, name=name, description=verbs.TOOL_DESCRIPTIONS[name])
            for name, tool in tools.items()
        ]

    def _owner(self, runtime: Any) -> Owner:
        return Owner(self._memory, self._user_of(runtime), _session(runtime))

    def _save(self, owner: Owner, messages: Sequence[BaseMessage]) -> None:
        if owner.session_id == _INNER:  # no thread
            return
        counter = self._memory.counter
        with log_errors("messages are not saved yet"):
            # What LangChain made out of others nobody said.
            said = [m for m in messages if m.additional_kwargs.get("lc_source") != "summarization"]
            entries = [_entry_of(message, _message_of(message, counter)) for message in said]
            self._saver.save(owner, entries)

    def _fitted(self, owner: Owner, request: ModelRequest[Any]) -> ModelRequest[Any]:
        talk = [_message_of(message, self._memory.counter) for message in request.messages]
        fitted = self._fitting.fit(owner, talk, system=request.system_prompt or "", tools=_tools_of(request))
        self.last = fitted
        return request.override(messages=list(fitted.select(request.messages, HumanMessage)))


class JiyiRetriever(BaseRetriever):
    """Finds what a memory holds: messages, episodes, knowledge and facts, best first.

    A `Document` has the record's id and words. Its metadata: ``kind``, ``score``, ``relevance``,
    ``created_at`` (ISO 8601), ``session_id``, ``why`` (share of the score by feature), and
    ``nothing_relevant``, the probability that the memory holds no answer, the same in all of them.

    Raises:
        BadQuery: an empty query, a filter that is impossible.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: MemoryManager
    k: int = Field(default=4, ge=1)
    """How many documents at most; ``invoke(query, k=...)`` goes before it."""
    kinds: Sequence[Kind] = SEARCHABLE
    filters: Mapping[str, Any] | None = None
    """As in `MemoryManager.search`."""
    min_score: float = 0.0
    """From 0 to 1: documents of less ``relevance`` are left out."""
    session_id: str | None = None
    user_id: str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: Any,  # noqa: ARG002 - LangChain gives it
        k: int | None = None,
    ) -> list[Document]:
        hits = self.memory.search(
            query,
            limit=self.k if k is None else k,
            kinds=self.kinds,
            filters=self.filters,
            min_score=self.min_score,
            session_id=self.session_id,
            user_id=self.user_id,
        )
        return [
            Document(
                id=hit.id,
                page_content=hit.wordings[0],
                metadata={"score": hit.score, **describe_hit(hit, hits)},
            )
            for hit in hits
        ]


def _session(runtime: Any) -> str:
    """Return the thread of a run, with the path to the agent where that is part of another graph."""
    run = runtime.execution_info
    if run is None or not run.thread_id:
        return _INNER
    # The last part is the model's own node; numbers after ":" differ from run to run.
    path = [part.partition(":")[0] for part in run.checkpoint_ns.split("|")[:-1]]
    return f"{run.thread_id}{_INNER}{'|'.join(path)}" if path else str(run.thread_id)


def _user(runtime: Any) -> Any:
    user = find_user_id(runtime.context)
    if user is None and runtime.server_info is not None and runtime.server_info.user is not None:
        user = runtime.server_info.user.identity
    return user


_ROLES = {"human": "user", "system": "system", "tool": "tool"}
_BESIDE = ("text", "tool_use", "tool_call", "function_call")  # parts that words and calls have already


def _message_of(message: BaseMessage, counter: TokenCounter) -> Message:
    """Return what a message says, counted with what it has besides words and calls."""
    body: dict[str, Any] = {"role": _role(message), "content": str(message.text)}
    if isinstance(message, ToolMessage):
        body["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        calls = [*message.tool_calls, *message.invalid_tool_calls]
        body["tool_calls"] = [
            tool_call(call["id"] or f"without-id-{place}", call["name"] or "", call["args"])
            for place, call in enumerate(calls)
        ]
    said = Message.from_openai({name: value for name, value in body.items() if value != []})
    return replace(said, tokens=counter.count(said) + _beside(message, counter), tokens_by=counter.name)


def _entry_of(message: BaseMessage, said: Message) -> Entry:
    """Return a message as it is saved: whole, but for an artifact that is no JSON."""
    raw = json.dumps(message.model_dump(), ensure_ascii=False, skipkeys=True, default=repr)
    return Entry(message.id or hash_text(raw), raw, said)


def _given_of(message: Message) -> BaseMessage:
    """Return the message that was saved; what was saved by other means, as LangChain writes it."""
    raw = raw_of(message)
    if isinstance(raw, Mapping) and "type" in raw:
        return messages_from_dict([{"type": raw["type"], "data": raw}])[0]
    return convert_to_messages([message.to_openai()])[0]


def _tools_of(request: ModelRequest[Any]) -> list[dict[str, Any]]:
    """Return what a request sends of tools and of the schema of its output."""
    given = [_tool(tool) for tool in request.tools]
    output = request.response_format
    if isinstance(output, ToolStrategy):
        specs: Sequence[Any] = output.schema_specs
    elif isinstance(output, ProviderStrategy):
        specs = [output.schema_spec]
    else:
        specs = ToolStrategy(getattr(output, "schema", output)).schema_specs if output is not None else []
    return [*given, *(describe_function(spec.name, spec.description, spec.json_schema) for spec in specs)]


def _role(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role if message.role in ("user", "system") else "assistant"
    return _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "assistant")


def _beside(message: BaseMessage, counter: TokenCounter) -> int:
    """Return the tokens of pictures, thoughts and other parts that are neither words nor calls."""
    if isinstance(message.content, str):
        return 0
    parts = [p for p in message.content if isinstance(p, dict) and p.get("type") not in _BESIDE]
    if not parts:
        return 0
    try:
        body = convert_to_openai_messages([message.model_copy(update={"content": parts})])[0]
        odd = [part for part in body["content"] if isinstance(part, dict)]
    except (ValueError, KeyError, TypeError):  # parts of another provider
        odd = parts
    return sum(counter.count(Message.from_openai({"role": "user", "content": [p]})) for p in odd)


def _tool(tool: Any) -> dict[str, Any]:
    try:
        return convert_to_openai_tool(tool)
    except ValueError:  # a provider's own tool
        return dict(tool)
