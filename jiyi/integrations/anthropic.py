"""Anthropic's SDK: its memory tool, and requests of the Messages API with what the memory recalls.

``pip install "jiyi[anthropic]"``.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jiyi.integrations.anthropic_blocks import Part, parts_of, plain, summed_up, tools_of, whole
from jiyi.integrations.anthropic_memory import JiyiAsyncMemoryTool, JiyiMemoryTool
from jiyi.integrations.fitting import Fitted, Fitting
from jiyi.integrations.recalling import Owner, Recaller
from jiyi.manager import MemoryManager

__all__ = ["JiyiAsyncMemoryTool", "JiyiMemoryTool", "JiyiMessages"]

_Request = dict[str, Any]

_log = logging.getLogger("jiyi.integrations")


class JiyiMessages:
    """A conversation by the Messages API: each request gets its window, each answer is kept.

    The caller keeps the list of messages, as the API wants it, or begins again with `history`.

    - Blocks pass as they are or are left out: thoughts, calls and results, pictures, compactions,
      marks of the cache. System prompt and tools pass whole, and count.
    - What the memory recalls is a user message directly before the newest one; the messages before
      stay the same from turn to turn.
    - What stands before a compaction passes and is not counted: the API leaves it out itself.
    - If the memory fails or takes longer than its time, the request passes as it came.

    Args:
        session_id: the conversation.
        memory: where it is kept; it stays open.
        user_id: whose; by default whom the memory was opened for.
        budget: input tokens; the settings' by default.
        recall_tokens: most that is recalled; a quarter of the budget by default.
        seconds: that the memory may take for a request.

    Attributes:
        last: what was shown last, with ``last.recalled.nothing_relevant`` and ``last.recalled.why``.
    """

    def __init__(
        self,
        session_id: str,
        memory: MemoryManager,
        *,
        user_id: str | None = None,
        budget: int | None = None,
        recall_tokens: int | None = None,
        seconds: float = 3.0,
    ) -> None:
        self.last: Fitted | None = None
        self._owner = Owner(memory, user_id, session_id)
        self._fitting = Fitting.of(memory, budget, recall_tokens, seconds)
        self._talk = Recaller(tokens=self._fitting.recaller.tokens)

    def create(self, client: Any, **request: Any) -> Any:
        """Ask ``client.messages.create`` with a window for this request, keep both, return the answer.

        Give ``Anthropic().beta`` as client for requests of the beta. A stream is not kept: `save` its
        final message. That something could not be kept is logged.
        """
        answer = client.messages.create(**self.window(**request))
        self._kept(request, answer)
        return answer

    async def acreate(self, client: Any, **request: Any) -> Any:
        """As `create`, with ``AsyncAnthropic()``."""
        answer = await client.messages.create(**await asyncio.to_thread(self.window, **request))
        await asyncio.to_thread(self._kept, request, answer)
        return answer

    def window(self, **request: Any) -> _Request:
        """Return the arguments of ``client.messages.create`` with the messages that the model is shown."""
        try:
            messages = list(request["messages"])
            return {**request, "messages": self._shown(messages, request)}
        except Exception as error:
            _log.warning("a request passes without memory: %s: %s", type(error).__name__, error)
            return request

    def save(self, messages: Sequence[Any], answer: object = None) -> int:
        """Keep what is new in a request's messages, then the answer; return how many records that were.

        New is what comes after the last message that is known; before the model's last turn nothing is
        looked for, so that what was forgotten stays forgotten.

        Raises:
            BadMessage: one of them is none of the API's; nothing was kept.
            StorageError: the database cannot take it; nothing was kept.
        """
        said = [part.message for part in parts_of([plain(message) for message in messages])]
        reply = [] if answer is None else [{"role": "assistant", "content": plain(answer).get("content")}]
        told = [part.message for part in parts_of(reply)]
        return self._talk.keep(self._owner, said, told, whole=True)

    def history(self) -> list[dict[str, Any]]:
        """Return the messages that were kept, to go on with; of a very long conversation the newest."""
        owner = self._owner
        return whole(owner.memory.session_messages(owner.session_id, user_id=owner.user_id))

    def _kept(self, request: Mapping[str, Any], answer: object) -> None:
        if request.get("stream"):
            return
        try:
            self.save(request["messages"], answer)
        except Exception as error:
            _log.warning("a conversation is not kept: %s: %s", type(error).__name__, error)

    def _shown(self, messages: list[Any], request: Mapping[str, Any]) -> list[Any]:
        given = [plain(message) for message in messages]
        first = summed_up(given)
        parts = parts_of(given[first:])
        counter = self._owner.memory.counter
        talk = [part.counted(counter) for part in parts]
        system, tools = _words(request.get("system")), tools_of(request.get("tools") or ())
        self.last = self._fitting.fit(self._owner, talk, system=system, tools=tools)
        return [*messages[:first], *_put_together(messages[first:], parts, self.last)]


def _put_together(messages: Sequence[Any], parts: Sequence[Part], fitted: Fitted) -> Iterator[Any]:
    """Give the messages of the parts that stay, with what is recalled."""
    sizes = Counter(part.place for part in parts)
    for place, kept in groupby(fitted.kept, lambda i: parts[i].place):
        stay = list(kept)
        before = [i for i in stay if fitted.at is not None and i < fitted.at]
        recalled = fitted.recalled.text if fitted.at in stay else ""
        if recalled and not before:
            # A user message: what was said once has no more authority now than it had then.
            yield {"role": "user", "content": recalled}
            recalled = ""
        if len(stay) == sizes[place] and not recalled:
            yield messages[place]
            continue
        message = plain(messages[place])
        blocks = [message["content"][i] for part in stay for i in parts[part].blocks]
        if recalled:  # results of tools stand first in their message
            at = sum(len(parts[i].blocks) for i in before)
            blocks.insert(at, {"type": "text", "text": recalled})
        yield {**message, "content": blocks}


def _words(system: object) -> str:
    if isinstance(system, str):
        return system
    blocks = system if isinstance(system, list) else []
    return "\n".join(str(plain(block).get("text") or "") for block in blocks)
