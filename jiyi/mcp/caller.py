"""The user whose memory a call is about, what the call may do, who provides the memory, and the texts."""

import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, Protocol

from jiyi.errors import Forbidden

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager

Right = Literal["read", "write", "forget"]
"""What a tool may do; forgetting is separate from writing."""

CURRENT_REQUEST: ContextVar[Any] = ContextVar("request", default=None)
"""The HTTP request of the current call, None for a call through a pipe."""

_ALL_RIGHTS: frozenset[Right] = frozenset({"read", "write", "forget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The user of a call, and its rights."""

    user_id: str  # as it is stored
    agent_id: str | None = None
    rights: frozenset[Right] = field(default=_ALL_RIGHTS)
    public_text: Callable[[str], str] = str  # an error message without what this caller may not see

    def scope(self, right: Right) -> dict[str, Any]:
        """Return the arguments of a verb that name user and agent; `Forbidden` without this right."""
        if right not in self.rights:
            raise Forbidden(f"this key may not {right}; it may {', '.join(sorted(self.rights)) or 'nothing'}")
        return {"user_id": self.user_id, "agent_id": self.agent_id}


class MemoryHost(Protocol):
    """Provides the tools with a memory and the caller."""

    @property
    def memory(self) -> "MemoryManager":
        """The memory, opened on first access."""

    def caller(self, request: Any) -> Caller:
        """Return the caller of an HTTP request, or of the pipe if it is None."""

    def forget_context(self) -> AbstractContextManager[Any]:
        """Return a context to forget records in, which may write an audit log."""

    def restore_hint(self, at: datetime) -> str:
        """Return how to restore what was forgotten at that time, such as a command."""


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language, each part by name."""

    instructions: str  # for the model: when to use the memory
    titles: Mapping[str, str]  # of tools, resources and the prompt, for people
    about: Mapping[str, str]  # what these do, for the model
    arguments: Mapping[str, str]  # of tools, "tool.argument" or "argument", if its name does not say enough
    notes: Mapping[str, str]  # sentences of answers, some of them format strings


@cache
def load_words(language: str) -> Words:
    """Load the texts of a language, "zh" or "en"."""
    tables = tomllib.loads(files("jiyi.mcp").joinpath("words.toml").read_text("utf-8"))
    return Words(**tables[language])


class Hosted:
    """Tools or resources: each method is one, and an object is for one call by a caller who has a right."""

    def __init__(self, host: MemoryHost, words: Words, right: Right) -> None:
        self._host = host
        self._words = words
        self._scope = host.caller(CURRENT_REQUEST.get()).scope(right)
        self._memory = host.memory
