"""A memory on a server: the verbs of `MemoryManager` and `AsyncMemoryManager` over HTTP."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client.asking import Steps
from jiyi.client.files import exported, imported
from jiyi.client.http import AsyncConnections, Connections
from jiyi.client.verbs import asked
from jiyi.endpoint import Endpoint
from jiyi.errors import WrongState
from jiyi.manager import MemoryManager
from jiyi.settings import load_settings
from jiyi.text import counter_for
from jiyi.verbs.base import Parts
from jiyi.verbs.door import guard
from jiyi.wire import ROUTES

__all__ = ["AsyncRemoteMemory", "RemoteMemory"]


_OF_FILES = {"export": exported, "import_": imported}


class RemoteMemory(MemoryManager):
    """The verbs of a memory that is on a server; made by `jiyi.connect`.

    Same arguments, results and errors. `zone` and `counter` are those of the settings here;
    `monitor` is None: what a server watches is in its own figures.
    """

    def __init__(self, there: Endpoint, *, user_id: str | None = None, agent_id: str | None = None) -> None:
        self._there = there
        self._whose = {"user_id": user_id, "agent_id": agent_id}
        self._settings = load_settings()
        self._counter = counter_for(self._settings.model)
        self._monitor = None
        self._connections = Connections(there)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._there.shown!r})"

    def _steps(self, verb: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        if verb in _OF_FILES:
            return _OF_FILES[verb](self._there, self._whose, *args, **kwargs)
        return asked(verb, self._there, self._whose, *args, **kwargs)

    @property
    def parts(self) -> Parts:
        """Not here: they are on the server."""
        raise WrongState("the parts of this memory are on the server; this program has its verbs only")

    def close(self) -> None:
        """Close the connections; the memory on the server stays open."""
        self._connections.close()


class AsyncRemoteMemory(AsyncMemoryManager):
    """The same to be awaited; made by `jiyi.connect_async`.

    Requests are asyncio's own; only a verb that calls another one, such as `search_episodes`, takes a thread.
    """

    def __init__(self, memory: RemoteMemory) -> None:
        super().__init__(memory)
        self._remote = memory
        self._connections = AsyncConnections(memory._there)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._remote._there.shown!r})"

    async def close(self) -> None:
        """Close the connections of this loop; the memory on the server stays open."""
        self._remote.close()
        await self._connections.close()


def _verb(name: str) -> Callable[..., Any]:
    @wraps(getattr(MemoryManager, name))
    def verb(self: RemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return self._connections.run(self._steps(name, *args, **kwargs))

    return verb


def _awaited(name: str) -> Callable[..., Any]:
    @wraps(getattr(MemoryManager, name))
    async def verb(self: AsyncRemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return await self._connections.run(self._remote._steps(name, *args, **kwargs))

    return verb


for _name in (*(route.verb for route in ROUTES), *_OF_FILES):
    setattr(RemoteMemory, _name, guard(_verb(_name)))
    setattr(AsyncRemoteMemory, _name, _awaited(_name))
