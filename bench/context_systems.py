"""The systems that context_speed.py compares: each holds one session and makes windows of it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["NEEDS", "SYSTEMS", "Session"]

_KEEP = 20  # messages LangChain's middleware keeps: its default
_SUMMARY = "- what was said before, in one sentence of a scripted model"

Dict = dict[str, Any]


class Session(Protocol):
    """One session that grows; messages are OpenAI dicts."""

    def load(self, messages: Sequence[Dict]) -> None:
        """Take in what was said before."""

    def save(self, message: Dict) -> None:
        """Take in one message; timed."""

    def window(self, question: str) -> int:
        """Make the window for the newest message; return how many messages it has; timed."""

    def between(self) -> None:
        """Do between two turns what a worker does in the background."""

    def close(self) -> None:
        """Release what is held."""


class Jiyi:
    """A memory on disk: recent messages, summary, recall by words and vectors."""

    def __init__(self, folder: Path, budget: int) -> None:
        import jiyi
        from jiyi.testing import HashEmbedder

        self._memory = jiyi.open(
            folder / "memory.db", user_id="ana", embedder=HashEmbedder(), background=False
        )
        self._budget = budget

    def load(self, messages: Sequence[Dict]) -> None:
        self._memory.save_messages("s", messages)
        self._memory.flush()

    def save(self, message: Dict) -> None:
        self._memory.save_message("s", message)

    def window(self, question: str) -> int:  # noqa: ARG002
        return len(self._memory.build_context("s", budget=self._budget).messages)

    def between(self) -> None:
        self._memory.flush()

    def close(self) -> None:
        self._memory.close()


class Trim:
    """LangChain's `trim_messages` over a list."""

    def __init__(self, folder: Path, budget: int) -> None:  # noqa: ARG002
        from langchain_core.messages import convert_to_messages, trim_messages
        from langchain_core.messages.utils import count_tokens_approximately

        self._convert, self._trim = convert_to_messages, trim_messages
        self._count = count_tokens_approximately
        self._budget = budget
        self._messages: list[Any] = []

    def load(self, messages: Sequence[Dict]) -> None:
        self._messages += self._convert(list(messages))

    def save(self, message: Dict) -> None:
        self._messages += self._convert([message])

    def window(self, question: str) -> int:  # noqa: ARG002
        kept = self._trim(
            self._messages,
            max_tokens=self._budget,
            strategy="last",
            token_counter=self._count,
            start_on="human",
            include_system=True,
        )
        return len(kept)

    def between(self) -> None:
        pass

    def close(self) -> None:
        pass


class Summary(Trim):
    """LangChain's `SummarizationMiddleware` over a list, with a model that answers at once."""

    def __init__(self, folder: Path, budget: int) -> None:
        super().__init__(folder, budget)
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_core.language_models import FakeListChatModel
        from langgraph.graph.message import add_messages

        self._add: Callable[..., Any] = add_messages
        self._middleware = SummarizationMiddleware(
            FakeListChatModel(responses=[_SUMMARY]),
            trigger=("tokens", int(0.8 * budget)),
            keep=("messages", _KEEP),
        )

    def window(self, question: str) -> int:  # noqa: ARG002
        update = self._middleware.before_model({"messages": self._messages}, None)  # type: ignore[arg-type]
        if update:
            self._messages = list(self._add(self._messages, update["messages"]))
        return len(self._messages)


class LlamaIndex:
    """LlamaIndex's `Memory` with its defaults, SQLite in memory."""

    def __init__(self, folder: Path, budget: int) -> None:  # noqa: ARG002
        from llama_index.core.base.llms.types import ChatMessage
        from llama_index.core.memory import Memory

        self._message = ChatMessage
        self._loop = asyncio.new_event_loop()
        self._memory = Memory.from_defaults(session_id="s", token_limit=budget)

    def load(self, messages: Sequence[Dict]) -> None:
        self._loop.run_until_complete(self._memory.aput_messages([self._message(**one) for one in messages]))

    def save(self, message: Dict) -> None:
        self._loop.run_until_complete(self._memory.aput(self._message(**message)))

    def window(self, question: str) -> int:
        return len(self._loop.run_until_complete(self._memory.aget(input=question)))

    def between(self) -> None:
        pass

    def close(self) -> None:
        self._loop.run_until_complete(self._memory.sql_store._async_engine.dispose())
        self._loop.close()


SYSTEMS: Mapping[str, Callable[[Path, int], Session]] = {
    "jiyi": Jiyi,
    "trim": Trim,
    "summary": Summary,
    "LlamaIndex": LlamaIndex,
}
"""The systems by name."""

NEEDS: Mapping[str, str] = {
    "jiyi": "",
    "trim": "langchain",
    "summary": "langchain",
    "LlamaIndex": "llama_index",
}
"""The package each needs."""
