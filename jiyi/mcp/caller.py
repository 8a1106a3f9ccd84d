"""Whose memory a call is about, and what it may do; whoever runs the tools decides it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from jiyi.errors import Forbidden

if TYPE_CHECKING:  # loaded when the memory is opened, after the handshake
    from jiyi.manager import MemoryManager

__all__ = ["REQUEST", "Caller", "House", "Right", "calling"]

Right = Literal["read", "write", "forget"]
"""What a tool does; forgetting is apart from writing."""

REQUEST: ContextVar[Any] = ContextVar("request", default=None)
"""The request of HTTP that brought the call in hand, None where it came by a pipe."""

_ALL: frozenset[Right] = frozenset({"read", "write", "forget"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls."""

    user_id: str  # as it is stored
    agent_id: str | None = None
    rights: frozenset[Right] = field(default=_ALL)
    shown: Callable[[str], str] = str  # a message as this caller may read it

    def scope(self, right: Right) -> dict[str, Any]:
        """Return the arguments that say whose memory a verb is to use.

        Raises:
            Forbidden: the caller has not this right.
        """
        if right not in self.rights:
            raise Forbidden(f"this key may not {right}; it may {', '.join(sorted(self.rights)) or 'nothing'}")
        return {"user_id": self.user_id, "agent_id": self.agent_id}


class House(Protocol):
    """Where the memory is, and who calls."""

    @property
    def memory(self) -> "MemoryManager":
        """The memory; it is opened when it is first asked for."""

    def caller(self, request: Any) -> Caller:
        """Return who sent a request of HTTP, or who is at the other end of the pipe where it is None."""

    def forgetting(self) -> AbstractContextManager[Any]:
        """Return a context in which something is forgotten, to write it down where that is kept."""

    def restoring(self, at: datetime) -> str:
        """Return how to bring back what was forgotten then, such as a command."""


def calling(house: House) -> Caller:
    """Return who sent the call in hand."""
    return house.caller(REQUEST.get())
