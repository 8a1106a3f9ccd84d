"""A framework's own items as messages of a conversation, and back as they were."""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from jiyi.async_manager import AsyncMemoryManager
from jiyi.records import Message

__all__ = ["RAW", "all_of", "kept", "raw_of", "settled"]

RAW = "raw"
"""The field of `Message.extra` that has a framework's item; no window shows it."""

_PIECE = 10_000

_T = TypeVar("_T")


def kept(raw: object, message: Mapping[str, Any], **fields: Any) -> Message:
    """Return the message that says what an item says, with the item itself.

    Raises:
        BadMessage: the item is no JSON.
    """
    return Message.from_openai({**message, RAW: raw}, **fields)


def raw_of(message: Message) -> Any:
    """Return the item that a message was made of; None where it was saved by other means."""
    return message.to_dict().get(RAW)


async def all_of(memory: AsyncMemoryManager, session_id: str, user_id: str | None = None) -> list[Message]:
    """Return a whole conversation as stored, oldest first."""
    out: list[Message] = []
    after: str | None = None
    while True:
        found = await memory.session_messages(session_id, _PIECE, after=after, user_id=user_id)
        out[:0] = found
        after = found.next
        if after is None:
            return out


async def settled(change: Coroutine[Any, Any, _T]) -> _T:
    """Wait until a change is whole, also where the caller is cancelled meanwhile; then say so."""
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # it is known, and the caller is told of the cancelling
        raise cancelled
    return task.result()
