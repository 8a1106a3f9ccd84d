"""What is asked of every adapter, and which of them can be asked here."""

import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict

from jiyi import MemoryManager
from jiyi.errors import MissingExtra
from jiyi.records import Message
from jiyi.text import TokenCounter

HERE = Path(__file__).parent

Promise = Literal["history", "recall", "delete", "window"]


@dataclass(frozen=True, kw_only=True)
class Recall:
    """What a framework is given of other conversations."""

    texts: list[str]
    nothing_relevant: float | None = None  # probability that the memory holds no answer
    why: list[str]  # for each text


def recalled(found: Any, texts: list[str] | None = None) -> Recall:
    """Return what a `Recalled` shows, as these texts or as its own."""
    why = "; ".join(item.reason for item in found.why)
    texts = [found.text] * bool(found.text) if texts is None else texts
    return Recall(texts=texts, nothing_relevant=found.nothing_relevant, why=[why for _ in texts])


class Request(TypedDict):
    """What the model's server was sent."""

    system: str
    tools: list[dict[str, Any]]
    messages: list[dict[str, Any]]  # as Chat Completions write them


def asked_in_chat(asked: Mapping[str, Any]) -> Request:
    """Return what an endpoint of Chat Completions was sent."""
    system, *messages = asked["messages"]
    messages = [{**message, "content": message.get("content") or ""} for message in messages]
    tools = functions(one["function"] for one in asked["tools"])
    return {"system": system["content"], "tools": tools, "messages": messages}


def functions(described: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tools as Chat Completions write them."""
    parts = ("name", "description", "parameters")
    return [{"type": "function", "function": {part: one[part] for part in parts}} for one in described]


class Adapter(Protocol):
    """One framework with the memory in it, driven the framework's own way.

    What goes with a promise that does not apply to it, it need not have.
    """

    name: str
    keeps: frozenset[Promise]  # the promises that apply to it

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        """Save what the user says."""

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        """Return what the user said, as the framework gives it back."""

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        """Return what is found from a session that has said nothing yet."""

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        """Delete the conversation with all that was derived from it."""

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        """Run one turn and return what the model was sent; "use the tool" in the text makes it call one."""


def adapters() -> dict[str, Adapter]:
    """Return the adapters whose framework is installed."""
    found = {}
    for file in sorted(HERE.glob("*/promised_*.py")):
        sys.path.insert(0, str(file.parent))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except MissingExtra:
            continue
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in ("jiyi", "promises"):
                raise
            continue
        finally:
            sys.path.remove(str(file.parent))
        adapter = module.Promised()
        found[adapter.name] = adapter
    return found


def recalled_in(request: Request, said: Sequence[str]) -> list[int]:
    """Return the places of user messages that no user said."""
    messages = enumerate(request["messages"])
    return [i for i, one in messages if one["role"] == "user" and one["content"] not in said]


def without_partner(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the ids of calls without a result and of results without their call before them."""
    waiting: dict[str, int] = {}
    alone = []
    for message in messages:
        if message["role"] == "tool":
            if waiting.pop(message["tool_call_id"], None) is None:
                alone.append(message["tool_call_id"])
            continue
        alone.extend(waiting)
        waiting = {call["id"]: 1 for call in message.get("tool_calls") or ()}
    return [*alone, *waiting]


def tokens_of(request: Request, counter: TokenCounter) -> int:
    """Return the tokens of a request, counted as windows are."""
    system = [Message(role="system", content=request["system"])] if request["system"] else []
    talk = [Message.from_openai(json.loads(json.dumps(m))) for m in request["messages"]]
    return counter.count_all([*system, *talk]) + counter.count_tools(request["tools"])
