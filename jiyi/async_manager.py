"""The same verbs for asyncio programs; ``async_manager.pyi`` beside it tells editors what they take."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial, wraps
from types import TracebackType
from typing import Any, Self

from jiyi.manager import MemoryManager

__all__ = ["AsyncMemoryManager"]

_MOST = 32  # verbs that run at once; others wait their turn


class AsyncMemoryManager:
    """The same verbs as coroutines: each runs its `MemoryManager` method in a worker thread.

    ``await memory.save_message(...)``; ``async with`` closes it. Properties, such as
    ``memory.monitor``, are properties here too and not awaited. A call cancelled while it waits for a
    thread does nothing; one that has started runs to its end, so a write is done completely or not at all.
    """

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


@cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """Return the threads of this process: asyncio's own are few, and it looks up hosts' names in them."""
    return ThreadPoolExecutor(_MOST, thread_name_prefix="jiyi-async")


def _awaited(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def verb(self: AsyncMemoryManager, *args: Any, **kwargs: Any) -> Any:
        call = partial(copy_context().run, getattr(self._memory, name), *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), call)

    verb.__qualname__ = f"AsyncMemoryManager.{name}"
    return verb


def _same(name: str, there: property) -> property:
    return property(lambda self: getattr(self._memory, name), doc=there.__doc__)


for _name in dir(MemoryManager):
    if not _name.startswith("_"):
        _member = getattr(MemoryManager, _name)
        _make = _same if isinstance(_member, property) else _awaited
        setattr(AsyncMemoryManager, _name, _make(_name, _member))
