"""pydantic-ai: a capability that gives an agent memory.

``pip install "jiyi[pydantic-ai]"``.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jiyi.errors import MissingExtra
from jiyi.integrations import tools as verbs
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Owner, whole
from jiyi.integrations.saving import Saver
from jiyi.manager import MemoryManager

try:
    from pydantic_ai import FunctionToolset, RunContext, Tool
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from jiyi.integrations.pydantic_messages import (
        entries_of,
        given_of,
        pieces_of,
        system_of,
        tools_of,
        without,
    )
except ImportError as error:
    raise MissingExtra('pydantic-ai is missing: pip install "jiyi[pydantic-ai]"') from error

__all__ = ["JiyiMemory", "UserOf"]

UserOf = Callable[[Any], str | None]
"""Says whose a run is, by its ``RunContext``."""

_log = logging.getLogger("jiyi.integrations")


class JiyiMemory(AbstractCapability[Any]):
    """Saves an agent's conversations, and shows the model what fits with what the memory recalls.

    - A conversation is the session of its ``conversation_id``; each message is saved once.
    - The model is shown the messages as they are, or requests without the parts that do not fit;
      ``message_history`` stays whole. What is recalled is a user's part directly before the newest
      question.
    - Instructions, tools and output schema count.
    - If recalling fails or takes longer than its time, the model is asked without it; messages that
      cannot be saved are saved with the next request.

    Args:
        memory: stays open.
        budget: input tokens; the settings' by default.
        user_id: whose; by default ``user_id`` of the run's ``deps``, then whom the memory was opened for.
        user_of: says whose, by the run's context; goes before ``user_id``.
        recall_tokens: most that is recalled; a quarter of the budget by default.
        seconds: that recalling may take.
        tools: whether the model gets ``remember``, ``recall`` and ``forget``.

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
    ) -> None:
        self.last: Fitted | None = None
        self._memory = memory
        self._user_of = user_of or (lambda ctx: user_id if user_id is not None else _user(ctx.deps))
        self._fitting = Fitting.of(memory, budget, recall_tokens, seconds)
        self._saver = Saver()
        self._toolset = self._tools() if tools else None

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
        try:
            owner = self._owner(ctx)
            try:
                return await asyncio.to_thread(self._fitted, owner, request_context)
            finally:  # not before: a question that is saved would be found as an answer to itself
                await asyncio.to_thread(self._save, owner, list(ctx.messages))
        except Exception as error:
            _log.warning("the request passes without memory: %s: %s", type(error).__name__, error)
            return request_context

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Save the rest of the conversation."""
        try:
            await asyncio.to_thread(self._save, self._owner(ctx), result.all_messages())
        except Exception as error:
            _log.warning("a run is not saved: %s: %s", type(error).__name__, error)
        return result

    def history(self, conversation_id: str, *, user_id: str | None = None) -> list[ModelMessage]:
        """Return a conversation as it was, for ``message_history``."""
        return given_of(whole(Owner(self._memory, user_id, conversation_id)))

    def _fitted(self, owner: Owner, request: ModelRequestContext) -> ModelRequestContext:
        messages = request.messages
        pieces = pieces_of(messages, self._memory.counter)
        fitted = self._fitting.fit(
            owner,
            [piece.said for piece in pieces],
            system=system_of(request.model_request_parameters, messages),
            tools=tools_of(request.model_request_parameters),
        )
        self.last = fitted
        shown = without(messages, pieces, fitted.kept, fitted.recalled.text, fitted.at)
        return replace(request, messages=shown)

    def _save(self, owner: Owner, messages: Sequence[ModelMessage]) -> None:
        try:
            entries = entries_of(messages, pieces_of(messages, self._memory.counter))
            self._saver.save(owner, entries)
        except Exception as error:
            _log.warning("messages are not saved yet: %s: %s", type(error).__name__, error)

    def _owner(self, ctx: RunContext[Any]) -> Owner:
        return Owner(self._memory, self._user_of(ctx), ctx.conversation_id or ctx.run_id or "")

    def _tools(self) -> FunctionToolset[Any]:
        async def remember(ctx: RunContext[Any], text: str) -> str:
            return await asyncio.to_thread(verbs.remember, self._owner(ctx), text)

        async def recall(ctx: RunContext[Any], query: str) -> str:
            return await asyncio.to_thread(verbs.recall, self._owner(ctx), query)

        async def forget(ctx: RunContext[Any], ids: list[str]) -> str:
            return await asyncio.to_thread(verbs.forget, self._owner(ctx), ids)

        made = [Tool(one, description=verbs.TOLD[one.__name__]) for one in (remember, recall, forget)]
        return FunctionToolset(made, id="jiyi-memory")


def _user(deps: Any) -> Any:
    # Whatever it is: what is no text must not become somebody else's memory.
    return deps.get("user_id") if isinstance(deps, Mapping) else getattr(deps, "user_id", None)
