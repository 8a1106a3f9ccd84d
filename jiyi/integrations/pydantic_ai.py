"""pydantic-ai: a capability that gives an agent memory.

``pip install "jiyi[pydantic-ai]"``.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from jiyi.importers.entries import tool_call
from jiyi.integrations import tools as verbs
from jiyi.integrations.common import find_user_id, log_errors, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Entry, Owner, Saver, read_conversation
from jiyi.integrations.tools import describe_function
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.text import TokenCounter

__all__ = ["JiyiMemory", "UserOf"]

with require_framework("pydantic-ai", "pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.messages import (
        BaseToolReturnPart,
        BinaryContent,
        ImageUrl,
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextContent,
        TextPart,
        ToolCallPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.run import AgentRunResult


UserOf = Callable[[Any], str | None]
"""Says whose a run is, by its ``RunContext``."""


@dataclass(eq=False, repr=False)
class JiyiMemory(AbstractCapability[Any]):
    """Saves an agent's conversations, and shows the model what fits with what the memory recalls.

    - A conversation is the session of its ``conversation_id``; each message is saved once.
    - The model is shown the messages as they are, or requests without the parts that do not fit;
      ``message_history`` stays whole. What is recalled is a user's part directly before the newest
      question.
    - Instructions, tools and output schema count.
    - If recalling fails or takes longer than its time, the model is asked without it; messages that
      cannot be saved are saved with the next request.
    """

    memory: MemoryManager  # stays open
    budget: int | None = None  # input tokens; the settings' by default
    _: KW_ONLY
    user_id: str | None = None  # whose; by default of the run's ``deps``, then whom the memory was opened for
    user_of: UserOf | None = None  # says whose, by the run's context; goes before ``user_id``
    recall_tokens: int | None = None  # most that is recalled; a quarter of the budget by default
    seconds: float = 3.0  # that recalling may take
    tools: bool = False  # whether the model gets ``remember``, ``recall`` and ``forget``
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    def __post_init__(self) -> None:
        self._fitting = Fitting.of(self.memory, self.budget, self.recall_tokens, self.seconds)
        self._saver = Saver()
        self._toolset = self._tools() if self.tools else None

    def get_ordering(self) -> CapabilityOrdering:
        """Stand last, so that what others add is counted."""
        return CapabilityOrdering(position="innermost")

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return ``remember``, ``recall`` and ``forget``, where they were asked for."""
        return self._toolset

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Save what is new; leave out what does not fit and put in what is recalled."""
        with log_errors("the request passes without memory"):
            owner = self._owner(ctx)
            try:
                return await asyncio.to_thread(self._fitted, owner, request_context)
            finally:  # not before: a question that is saved would be found as an answer to itself
                await asyncio.to_thread(self._save, owner, list(ctx.messages))
        return request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Save the rest of the conversation."""
        with log_errors("a run is not saved"):
            await asyncio.to_thread(self._save, self._owner(ctx), result.all_messages())
        return result

    def history(self, conversation_id: str, *, user_id: str | None = None) -> list[ModelMessage]:
        """Return a conversation as it was, for ``message_history``."""
        return _given_of(read_conversation(Owner(self.memory, user_id, conversation_id)))

    def _fitted(self, owner: Owner, request: ModelRequestContext) -> ModelRequestContext:
        messages = request.messages
        pieces = _pieces_of(messages, self.memory.counter)
        fitted = self._fitting.fit(
            owner,
            [piece.said for piece in pieces],
            system=_system_of(request.model_request_parameters, messages),
            tools=_tools_of(request.model_request_parameters),
        )
        self.last = fitted
        shown = _without(messages, pieces, fitted.kept, fitted.recalled.text, fitted.at)
        return replace(request, messages=shown)

    def _save(self, owner: Owner, messages: Sequence[ModelMessage]) -> None:
        with log_errors("messages are not saved yet"):
            self._saver.save(owner, _entries_of(messages, _pieces_of(messages, self.memory.counter)))

    def _owner(self, ctx: RunContext[Any]) -> Owner:
        if self.user_of is not None:
            user = self.user_of(ctx)
        else:
            user = find_user_id(ctx.deps) if self.user_id is None else self.user_id
        return Owner(self.memory, user, ctx.conversation_id or ctx.run_id or "")

    def _tools(self) -> FunctionToolset[Any]:
        async def remember(ctx: RunContext[Any], text: str) -> str:
            return await asyncio.to_thread(verbs.remember, self._owner(ctx), text)

        async def recall(ctx: RunContext[Any], query: str) -> str:
            return await asyncio.to_thread(verbs.recall, self._owner(ctx), query)

        async def forget(ctx: RunContext[Any], ids: list[str]) -> str:
            return await asyncio.to_thread(verbs.forget, self._owner(ctx), ids)

        made = [
            Tool(one, description=verbs.TOOL_DESCRIPTIONS[one.__name__]) for one in (remember, recall, forget)
        ]
        return FunctionToolset(made, id="jiyi-memory")


_PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": ""}}  # counted without looking into it


@dataclass(frozen=True, slots=True)
class _Piece:
    """What stays or leaves as one: a part of a request, or a whole response."""

    place: int  # of the message
    part: int | None  # of a request; None for a whole message
    said: Message


def _pieces_of(messages: Sequence[ModelMessage], counter: TokenCounter) -> list[_Piece]:
    """Return the pieces of a conversation, counted with what they have besides words and calls."""
    out: list[_Piece] = []
    for place, message in enumerate(messages):
        if isinstance(message, ModelRequest):
            out += [_Piece(place, i, _asked(part, counter)) for i, part in enumerate(message.parts)]
        else:
            out.append(_Piece(place, None, _answered(message, counter)))
    return out


def _entries_of(messages: Sequence[ModelMessage], pieces: Iterable[_Piece]) -> list[Entry]:
    """Return the pieces as they are saved, each with its message, less the other parts of that."""
    dumped = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    seen: Counter[str] = Counter()
    keys = []
    for message in messages:
        key = _key(message)
        seen[key] += 1
        keys.append(f"{key}#{seen[key]}")
    out = []
    for piece in pieces:
        body, key = dumped[piece.place], keys[piece.place]
        if piece.part is not None:
            body = {**body, "parts": [body["parts"][piece.part]]}
        raw = json.dumps({"of": key, "message": body}, ensure_ascii=False)
        out.append(Entry(f"{key}/{piece.part}", raw, piece.said))
    return out


def _given_of(stored: Iterable[Message]) -> list[ModelMessage]:
    """Return the messages that were saved; what was saved by other means is left out."""
    out: list[dict[str, Any]] = []
    last = None
    for message in stored:
        raw = raw_of(message)
        if not isinstance(raw, Mapping) or "of" not in raw:
            continue
        if raw["of"] == last:
            out[-1]["parts"] += raw["message"]["parts"]
        else:
            out.append(raw["message"])
        last = raw["of"]
    return list(ModelMessagesTypeAdapter.validate_python(out))


def _without(
    messages: Sequence[ModelMessage],
    pieces: Sequence[_Piece],
    kept: Iterable[int],
    recalled: str,
    at: int | None,
) -> list[ModelMessage]:
    """Return what is shown of messages: the same objects, or copies of requests with fewer or more parts.

    ``recalled`` is put before the piece at place ``at``.
    """
    parts: dict[int, list[Any]] = {}
    for place in kept:
        piece = pieces[place]
        shown = parts.setdefault(piece.place, [])
        if piece.part is not None:
            if place == at and recalled:
                # A user's part: what was said once has no more authority now than it had then.
                shown.append(UserPromptPart(recalled))
            shown.append(messages[piece.place].parts[piece.part])
    out = []
    for place, message in enumerate(messages):
        shown = parts.get(place, [])
        if isinstance(message, ModelResponse) or not message.parts or shown == list(message.parts):
            if place in parts or not message.parts:
                out.append(message)
        elif shown:
            out.append(replace(message, parts=shown))
    return out


def _system_of(parameters: ModelRequestParameters, messages: Sequence[ModelMessage]) -> str:
    """Return the instructions of a request."""
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return (requests[-1].instructions or "") if requests else ""


def _tools_of(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """Return what a request sends of tools and of the schema of its output."""
    given = [*parameters.function_tools, *parameters.output_tools]
    tools = [describe_function(tool.name, tool.description, tool.parameters_json_schema) for tool in given]
    output = parameters.output_object
    if output is not None and parameters.output_mode in ("native", "prompted"):
        tools.append(describe_function(output.name or "", output.description, output.json_schema))
    return [*tools, *({"type": tool.kind} for tool in parameters.native_tools)]


def _asked(part: Any, counter: TokenCounter) -> Message:
    """Return what a part of a request says; one of the framework's own is counted, and stays."""
    beside: list[dict[str, Any]] = []
    if isinstance(part, UserPromptPart):
        words, beside = _words([part.content] if isinstance(part.content, str) else part.content)
        said = Message(role="user", content=words, created_at=part.timestamp)
    elif isinstance(part, BaseToolReturnPart):
        _, beside = _words(part.files)
        words = part.model_response_str()
        said = Message(role="tool", content=words, tool_call_id=part.tool_call_id, created_at=part.timestamp)
    elif part.part_kind == "system-prompt":
        said = Message(role="system", content=part.content, created_at=part.timestamp)
    elif part.part_kind == "retry-prompt" and part.tool_name:
        said = Message(role="tool", content=part.model_response(), tool_call_id=part.tool_call_id)
    else:
        # Feedback on an answer leaves with the turn of that answer.
        said = Message(role="assistant" if part.part_kind.startswith("retry") else "system", content="")
        beside = [{"type": part.part_kind, "said": repr(part)}]
    return _counted(said, beside, counter)


def _answered(message: ModelResponse, counter: TokenCounter) -> Message:
    calls, odd = [], []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            calls.append(tool_call(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif part.part_kind == "file":
            odd.append(_PICTURE)
        elif not isinstance(part, TextPart):
            odd.append({"type": part.part_kind, "said": str(getattr(part, "content", None) or repr(part))})
    said = Message.from_openai(
        {"role": "assistant", "content": message.text or ""} | ({"tool_calls": calls} if calls else {}),
        created_at=message.timestamp,
    )
    return _counted(said, odd, counter)


def _counted(said: Message, beside: Sequence[dict[str, Any]], counter: TokenCounter) -> Message:
    # One by one: a part counts the same wherever it stands.
    extra = sum(counter.count(Message(role="user", content=(part,))) for part in beside)
    return replace(said, tokens=counter.count(said) + extra, tokens_by=counter.name)


def _words(content: Sequence[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the words of what a user sends, and the rest as parts that can be counted."""
    words: list[str] = []
    rest: list[dict[str, Any]] = []
    for item in content:
        if isinstance(item, str | TextContent):
            words.append(item if isinstance(item, str) else str(item.content))
        elif isinstance(item, BinaryContent) and not item.is_image:
            rest.append({"type": "file", "file": {"file_data": item.base64}})
        elif isinstance(item, ImageUrl | BinaryContent):
            rest.append(_PICTURE)
        elif getattr(item, "kind", "") != "cache-point":
            rest.append({"type": "other", "said": repr(item)})
    return "\n".join(words), rest


def _key(message: ModelMessage) -> str:
    """Return what a message is known by: its kind, when it was made, and the call that it answers."""
    if isinstance(message, ModelResponse):
        return f"response {message.timestamp.isoformat()}"
    for part in message.parts:
        made = getattr(part, "timestamp", None)
        if made is not None:
            return f"request {made.isoformat()} {getattr(part, 'tool_call_id', '')}"
    return f"request {message.timestamp.isoformat() if message.timestamp else ''}"
