"""What the adapters share: framework items as messages and back, pages, errors, coroutines, a cache."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from itertools import chain
from typing import Any, Generic, TypeVar

from jiyi.errors import MissingExtra
from jiyi.manager import MemoryManager
from jiyi.records import Listing, Message
from jiyi.storage.store import read_pages

RAW = "raw"
"""The field of `Message.extra` with the framework's own item; no window shows it."""

_PAGE_SIZE = 10_000

_T = TypeVar("_T")
_Key = TypeVar("_Key")

_log = logging.getLogger("jiyi.integrations")


@contextmanager
def require_framework(framework: str, extra: str) -> Iterator[None]:
    """Say how to install a framework that cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(f'{framework} is missing: pip install "jiyi[{extra}]"') from error


def build_message(raw: object, message: Mapping[str, Any], **fields: Any) -> Message:
    """Return a message with the text and calls of a framework's item, and the item itself, which is JSON."""
    return Message.from_openai({**message, RAW: raw}, **fields)


def raw_of(message: Message) -> Any:
    """Return the item that a message was built from; None if it was saved by other means."""
    return message.to_dict().get(RAW)


def get_by_path(value: Any, path: str) -> Any:
    """Return the value at a dotted path in a JSON value; None where there is none."""
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def read_all(verb: Callable[..., Listing[_T]], *args: Any, **kwargs: Any) -> Iterator[_T]:
    """Yield all entries of a list that a verb of the memory returns page by page."""
    return chain.from_iterable(read_pages(partial(verb, *args, **kwargs)))


def find_sessions(memory: MemoryManager, prefix: str, user_id: str | None) -> list[str]:
    """Return the ids of the sessions that begin with a prefix."""
    sessions = read_all(memory.sessions, _PAGE_SIZE, user_id=user_id)
    return [session.id for session in sessions if session.id.startswith(prefix)]


def find_user_id(context: Any) -> Any:
    """Return the ``user_id`` of the context that an app gives a run; None where there is none.

    It is not converted to text: a wrong type must be refused, not read as another user.
    """
    return context.get("user_id") if isinstance(context, Mapping) else getattr(context, "user_id", None)


@contextmanager
def log_errors(consequence: str) -> Iterator[None]:
    """Log any error instead of raising it: the conversation goes on."""
    try:
        yield
    except Exception as error:
        _log.warning("%s: %s: %s", consequence, type(error).__name__, error)


async def finish(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Wait until a coroutine is done, even if the caller is cancelled meanwhile; only then raise that."""
    task = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # marks it as retrieved: the caller gets the cancellation
        raise cancelled
    return task.result()


def make_async(method: Callable[..., _T]) -> Callable[..., Coroutine[Any, Any, _T]]:
    """Return the method as a coroutine that runs it in a thread and, even if cancelled, to its end."""

    @wraps(method)
    async def run(*args: Any, **kwargs: Any) -> _T:
        return await finish(asyncio.to_thread(method, *args, **kwargs))

    return run


class RecentEntries(Generic[_Key, _T]):
    """The values that were used last, by key, of at most a total size; several threads may use it."""

    def __init__(self, max_size: int, measure: Callable[[_T], int] = lambda _: 1) -> None:
        self._max_size = max_size
        self._measure = measure
        self._size = 0
        self._values: dict[_Key, _T] = {}
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _T | None:
        """Return a value; None if there is none or it was dropped."""
        with self._lock:
            if key in self._values:
                self._values[key] = self._values.pop(key)
            return self._values.get(key)

    def put(self, key: _Key, value: _T) -> None:
        """Set a value, and drop the oldest ones if they are too many."""
        with self._lock:
            if key in self._values:
                self._size -= self._measure(self._values.pop(key))
            self._values[key] = value
            self._size += self._measure(value)
            while self._size > self._max_size:
                self._size -= self._measure(self._values.pop(next(iter(self._values))))
