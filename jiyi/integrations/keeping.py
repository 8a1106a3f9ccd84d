"""A framework's own items as messages of a conversation, and back as they were."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from jiyi.records import Listing, Message

__all__ = ["RAW", "every", "kept", "kept_as", "pages", "raw_of", "settled", "warned"]

RAW = "raw"
"""The field of `Message.extra` that has a framework's item; no window shows it."""

_T = TypeVar("_T")

_log = logging.getLogger("jiyi.integrations")


def kept(raw: object, message: Mapping[str, Any], **fields: Any) -> Message:
    """Return the message that says what an item says, with the item itself.

    Raises:
        BadMessage: the item is no JSON.
    """
    return Message.from_openai({**message, RAW: raw}, **fields)


def kept_as(raw: object, bodies: Sequence[Mapping[str, Any]], **fields: Any) -> list[Message]:
    """Return the messages that together say what an item says; the first has the item itself.

    Raises:
        BadMessage: the item is no JSON, or what it says is no message.
    """
    parts = [raw, *[None] * (len(bodies) - 1)]
    return [kept(part, body, **fields) for part, body in zip(parts, bodies, strict=True)]


def raw_of(message: Message) -> Any:
    """Return the item that a message was made of; None where it was saved by other means."""
    return message.to_dict().get(RAW)


def pages(read: Callable[[str | None], Listing[_T]]) -> Iterator[Listing[_T]]:
    """Give all pages of a list, which a verb reads by the `next` of the one before."""
    after: str | None = None
    while True:
        page = read(after)
        yield page
        after = page.next
        if after is None:
            return


def every(read: Callable[[str | None], Listing[_T]]) -> Iterator[_T]:
    """Give all that a list has, page after page."""
    return chain.from_iterable(pages(read))


@contextmanager
def warned(what: str) -> Iterator[None]:
    """Log what goes wrong, whatever it is: the conversation goes on."""
    try:
        yield
    except Exception as error:
        _log.warning("%s: %s: %s", what, type(error).__name__, error)


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
