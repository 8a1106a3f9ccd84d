"""The same verbs for asyncio programs."""

import asyncio
from types import TracebackType
from typing import Any, Self

from jiyi.manager import MemoryManager

__all__ = ["AsyncMemoryManager"]


class AsyncMemoryManager:
    """The same verbs to be awaited: each runs its `MemoryManager` method in a worker thread.

    ``await memory.save_message(...)``; ``async with`` closes it. What is a property there, such as
    ``memory.monitor``, is one here and not awaited.
    """

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and isinstance(getattr(MemoryManager, name, None), property):
            return getattr(self._memory, name)
        method = None if name.startswith("_") else getattr(self._memory, name, None)
        if not callable(method):
            raise AttributeError(f"AsyncMemoryManager has no verb {name!r}")

        async def verb(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return verb

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._memory.close)
