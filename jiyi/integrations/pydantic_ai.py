"""pydantic-ai: a capability that gives an agent memory."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import groupby
from typing import Any

from jiyi.importers.entries import tool_call
from jiyi.integrations.common import find_user_id, log_errors, raw_of, require_framework
from jiyi.integrations.fitting import Fitted, Fitting, with_tokens
from jiyi.integrations.recalling import Entry, Owner, Saver, read_conversation
from jiyi.integrations.tools import build_tools, describe_function
from jiyi.manager import MemoryManager
from jiyi.records import Message
from jiyi.text import TokenCounter

with require_framework("pydantic-ai", "pydantic-ai"):
    from pydantic_ai import FunctionToolset, RunContext
    from pydantic_ai import messages as ai
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
    from pydantic_ai.run import AgentRunResult

UserOf = Callable[[Any], str | None]
"""Returns the user of a run, from its ``RunContext``."""


@dataclass(eq=False, repr=False)
class JiyiMemory(AbstractCapability[Any]):
    """Saves an agent's conversations, and shows the model what fits with what the memory recalls.

    - A conversation is the session of its ``conversation_id``; each message is saved once.
    - The model gets the messages unchanged, or requests without the parts that do not fit;
      ``message_history`` stays complete. Instructions, tools and output schema count.
    - If recalling fails or takes longer than its time, the model is asked without it; messages that
      cannot be saved are saved with the next request.
    """

    memory: MemoryManager  # stays open
    budget: int | None = None  # input tokens; the settings' by default
    _: KW_ONLY
    user_id: str | None = None  # whose; by default of the run's ``deps``, then whom the memory was opened for
    user_of: UserOf | None = None  # returns the user, from the run's context; overrides ``user_id``
    recall_tokens: int | None = None  # most that is recalled; a quarter of the budget by default
    seconds: float = 3.0  # that recalling may take
    tools: bool = False  # whether the model gets ``remember``, ``recall`` and ``forget``
    last: Fitted | None = field(default=None, init=False)
    """What was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``."""

    def __post_init__(self) -> None:
        self._fitting = Fitting(self.memory, self.budget, self.recall_tokens, self.seconds)
        self._saver = Saver()
        own_tools = build_tools(self._owner, RunContext[Any])
        self._toolset = FunctionToolset(own_tools, id="jiyi-memory") if self.tools else None

    def get_ordering(self) -> CapabilityOrdering:
        """Run last, so that additions of other capabilities are counted."""
        return CapabilityOrdering(position="innermost")

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """Return ``remember``, ``recall`` and ``forget`` if ``tools`` is set."""
        return self._toolset

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Save new messages; leave out what does not fit and insert the recalled text."""
        with log_errors("the request passes without memory"):
            owner = self._owner(ctx)
            try:
                return await asyncio.to_thread(self._fit_request, owner, request_context)
            finally:  # not before: a saved question would be found as an answer to itself
                await asyncio.to_thread(self._save, owner, list(ctx.messages))
        return request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Save the rest of the conversation."""
        with log_errors("a run is not saved"):
            await asyncio.to_thread(self._save, self._owner(ctx), result.all_messages())
        return result

    def history(self, conversation_id: str, *, user_id: str | None = None) -> list[ai.ModelMessage]:
        """Return a conversation as it was, for ``message_history``."""
        return _restore_messages(read_conversation(Owner(self.memory, user_id, conversation_id)))

    def _fit_request(self, owner: Owner, request: ModelRequestContext) -> ModelRequestContext:
        messages, parameters = request.messages, request.model_request_parameters
        pieces = _split_messages(messages, self.memory.counter)
        talk = [piece.message for piece in pieces]
        system, tools = _read_instructions(parameters, messages), _describe_tools(parameters)
        self.last = fitted = self._fitting.fit(owner, talk, system=system, tools=tools)
        return replace(request, messages=list(_select_parts(messages, pieces, fitted)))

    def _save(self, owner: Owner, messages: Sequence[ai.ModelMessage]) -> None:
        with log_errors("messages are not saved yet"):
            pieces = _split_messages(messages, self.memory.counter)
            self._saver.save(owner, list(_build_entries(messages, pieces)))

    def _owner(self, ctx: RunContext[Any]) -> Owner:
        if self.user_of is not None:
            user = self.user_of(ctx)
        else:
            user = find_user_id(ctx.deps) if self.user_id is None else self.user_id
        return Owner(self.memory, user, ctx.conversation_id or ctx.run_id or "")


_IMAGE_PART = {"type": "image_url"}  # counted by its kind alone


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is shown or dropped together: a part of a request, or a whole response."""

    message_index: int
    part_index: int | None  # of a request; None for a whole message
    message: Message


def _split_messages(messages: Sequence[ai.ModelMessage], counter: TokenCounter) -> list[_Piece]:
    """Return the pieces of a conversation, with the tokens of all their parts."""
    pieces: list[_Piece] = []
    for index, message in enumerate(messages):
        if isinstance(message, ai.ModelRequest):
            pieces += [_Piece(index, i, _read_part(part, counter)) for i, part in enumerate(message.parts)]
        else:
            pieces.append(_Piece(index, None, _read_response(message, counter)))
    return pieces


def _build_entries(messages: Sequence[ai.ModelMessage], pieces: Iterable[_Piece]) -> Iterator[Entry]:
    """Yield the pieces as they are saved, each with its message without that one's other parts."""
    dumped = ai.ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    key_counts: Counter[str] = Counter()
    for index, group in groupby(pieces, lambda piece: piece.message_index):
        key = _message_key(messages[index])
        key_counts[key] += 1
        key = f"{key}#{key_counts[key]}"
        for piece in group:
            message = dumped[index]
            if piece.part_index is not None:
                message = {**message, "parts": [message["parts"][piece.part_index]]}
            raw = json.dumps({"of": key, "message": message}, ensure_ascii=False)
            yield Entry(f"{key}/{piece.part_index}", raw, piece.message)


def _restore_messages(stored: Iterable[Message]) -> list[ai.ModelMessage]:
    """Return the original messages; those that were saved by other means are left out."""
    messages: list[dict[str, Any]] = []
    last_key = None
    for message in stored:
        raw = raw_of(message)
        if not isinstance(raw, Mapping) or "of" not in raw:
            continue
        if raw["of"] == last_key:
            messages[-1]["parts"] += raw["message"]["parts"]
        else:
            messages.append(raw["message"])
        last_key = raw["of"]
    return list(ai.ModelMessagesTypeAdapter.validate_python(messages))


def _select_parts(
    messages: Sequence[ai.ModelMessage], pieces: Sequence[_Piece], fitted: Fitted
) -> Iterator[ai.ModelMessage]:
    """Yield the messages to show: the same objects, or copies of requests with fewer or more parts."""
    parts_shown: dict[int, list[Any]] = {}
    for index in fitted.kept:
        piece = pieces[index]
        parts = parts_shown.setdefault(piece.message_index, [])
        if index == fitted.at and fitted.recalled.text:
            # A user prompt, so that recalled words have no more authority than when they were said.
            parts.append(ai.UserPromptPart(fitted.recalled.text))
        if piece.part_index is not None:
            parts.append(messages[piece.message_index].parts[piece.part_index])
    for index, message in enumerate(messages):
        parts = parts_shown.get(index, [])
        if isinstance(message, ai.ModelResponse) or parts == list(message.parts):
            if index in parts_shown or not message.parts:
                yield message
        elif parts:
            yield replace(message, parts=parts)


def _read_instructions(parameters: ModelRequestParameters, messages: Sequence[ai.ModelMessage]) -> str:
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    requests = [message for message in messages if isinstance(message, ai.ModelRequest)]
    return (requests[-1].instructions or "") if requests else ""


def _describe_tools(parameters: ModelRequestParameters) -> list[dict[str, Any]]:
    """Return the tools of a request and the schema of its output."""
    definitions = [*parameters.function_tools, *parameters.output_tools]
    tools = [describe_function(d.name, d.description, d.parameters_json_schema) for d in definitions]
    output = parameters.output_object
    if output is not None and parameters.output_mode in ("native", "prompted"):
        tools.append(describe_function(output.name or "", output.description, output.json_schema))
    return [*tools, *({"type": tool.kind} for tool in parameters.native_tools)]


def _read_part(part: Any, counter: TokenCounter) -> Message:
    """Return a part of a request as a message; an unknown one is counted, and always stays."""
    others: list[dict[str, Any]] = []
    if isinstance(part, ai.UserPromptPart):
        text, others = _split_content([part.content] if isinstance(part.content, str) else part.content)
        message = Message(role="user", content=text, created_at=part.timestamp)
    elif isinstance(part, ai.BaseToolReturnPart):
        _, others = _split_content(part.files)
        text = part.model_response_str()
        fields = {"tool_call_id": part.tool_call_id, "created_at": part.timestamp}
        message = Message(role="tool", content=text, **fields)
    elif part.part_kind == "system-prompt":
        message = Message(role="system", content=part.content, created_at=part.timestamp)
    elif part.part_kind == "retry-prompt" and part.tool_name:
        message = Message(role="tool", content=part.model_response(), tool_call_id=part.tool_call_id)
    else:
        # Feedback on an answer is dropped with the turn of that answer.
        message = Message(role="assistant" if part.part_kind.startswith("retry") else "system", content="")
        others = [{"type": part.part_kind, "said": repr(part)}]
    return with_tokens(message, others, counter)


def _read_response(message: ai.ModelResponse, counter: TokenCounter) -> Message:
    calls, others = [], []
    for part in message.parts:
        if isinstance(part, ai.ToolCallPart):
            calls.append(tool_call(part.tool_call_id, part.tool_name, part.args_as_json_str()))
        elif part.part_kind == "file":
            others.append(_IMAGE_PART)
        elif not isinstance(part, ai.TextPart):
            others.append({"type": part.part_kind, "said": str(getattr(part, "content", None) or repr(part))})
    answer = Message.from_openai(
        {"role": "assistant", "content": message.text or ""} | ({"tool_calls": calls} if calls else {}),
        created_at=message.timestamp,
    )
    return with_tokens(answer, others, counter)


def _split_content(content: Sequence[Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a user's content, and the rest as parts that can be counted."""
    texts: list[str] = []
    other_parts: list[dict[str, Any]] = []
    for item in content:
        if isinstance(item, str | ai.TextContent):
            texts.append(item if isinstance(item, str) else str(item.content))
        elif isinstance(item, ai.BinaryContent) and not item.is_image:
            other_parts.append({"type": "file", "file": {"file_data": item.base64}})
        elif isinstance(item, ai.ImageUrl | ai.BinaryContent):
            other_parts.append(_IMAGE_PART)
        elif getattr(item, "kind", "") != "cache-point":
            other_parts.append({"type": "other", "said": repr(item)})
    return "\n".join(texts), other_parts


def _message_key(message: ai.ModelMessage) -> str:
    """Return what identifies a message: its kind, its time, and the call that it answers."""
    if isinstance(message, ai.ModelResponse):
        return f"response {message.timestamp.isoformat()}"
    for part in message.parts:
        timestamp = getattr(part, "timestamp", None)
        if timestamp is not None:
            return f"request {timestamp.isoformat()} {getattr(part, 'tool_call_id', '')}"
    return f"request {message.timestamp.isoformat() if message.timestamp else ''}"
