"""A framework's own items as messages of a conversation, and back as they were."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

from jiyi.errors import MissingExtra
from jiyi.records import Listing, Message

__all__ = ["RAW", "every", "kept", "needed", "pages", "raw_of", "reached", "settled", "user_in", "warned"]

RAW = "raw"
"""The field of `Message.extra` that has a framework's item; no window shows it."""

_T = TypeVar("_T")

_log = logging.getLogger("jiyi.integrations")


@contextmanager
def needed(framework: str, extra: str) -> Iterator[None]:
    """Say how to install a framework that cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(f'{framework} is missing: pip install "jiyi[{extra}]"') from error


def kept(raw: object, message: Mapping[str, Any], **fields: Any) -> Message:
    """Return the message that says what an item says, with the item itself.

    Raises:
        BadMessage: the item is no JSON.
    """
    return Message.from_openai({**message, RAW: raw}, **fields)


def raw_of(message: Message) -> Any:
    """Return the item that a message was made of; None where it was saved by other means."""
    return message.to_dict().get(RAW)


def reached(value: Any, name: str) -> Any:
    """Return what a name leads to in a JSON value, dots into objects; None where nothing is."""
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


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


def user_in(context: Any) -> Any:
    """Return the ``user_id`` of what an app gives a run, whatever it is; None where there is none.

    What is no text must not become somebody else's memory.
    """
    return context.get("user_id") if isinstance(context, Mapping) else getattr(context, "user_id", None)


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
