"""A memory on a server: the verbs of `MemoryManager` and `AsyncMemoryManager` over HTTP."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import IO, Any, cast

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client.calls import Request, Steps, decode, run_job, send
from jiyi.client.http import AsyncConnections, Connections
from jiyi.client.verbs import PREFIX, Owner, bind, to_query, verb_steps
from jiyi.endpoint import Endpoint
from jiyi.errors import InputError, WrongState
from jiyi.importers.run import is_remote_source
from jiyi.manager import MemoryManager
from jiyi.records import Kind
from jiyi.settings import load_settings
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.storage.transfer.files import atomic_file, path_to_read, unreadable
from jiyi.text import counter_for
from jiyi.verbs.argument_guard import guard_arguments
from jiyi.verbs.base import Parts, as_path
from jiyi.wire import ROUTES

__all__ = ["AsyncRemoteMemory", "RemoteMemory", "export_steps", "import_steps"]


def export_steps(endpoint: Endpoint, owner: Owner, *args: Any, **kwargs: Any) -> Steps[ExportReceipt]:
    """Return the steps of `MemoryManager.export`; the file appears when it is complete."""
    arguments = bind("export", owner, args, kwargs)
    path, progress = as_path(arguments.pop("path")), arguments.pop("progress", None)
    with atomic_file(path) as file:
        query, sink = to_query(arguments), _FileSink(file)
        request = Request(method="GET", path=f"{PREFIX}/export", query=query, sink=sink)
        response = yield from send(request, endpoint)
        size = file.tell()
    counts = decode(Mapping[Kind, int], response.headers.get("x-jiyi-counts", "").encode(), endpoint)
    if progress is not None:
        progress(sum(counts.values()))
    return ExportReceipt(path=path, counts=counts, bytes=size)


def import_steps(endpoint: Endpoint, owner: Owner, *args: Any, **kwargs: Any) -> Steps[ImportReceipt]:
    """Return the steps of `MemoryManager.import_`: the file is uploaded and imported by a job."""
    arguments = bind("import_", owner, args, kwargs)
    if is_remote_source(source := arguments.pop("path")):
        raise InputError("a memory on a server imports files only: run this where the memory is")
    path, progress = path_to_read(as_path(source)), arguments.pop("progress", None)
    # Messages without a session get the name of the file, which is another one on the server.
    query = {"session_id": path.stem, **to_query(arguments), "name": path.name}
    headers = {"content-type": "application/octet-stream"}
    request = Request(method="POST", path=f"{PREFIX}/import", query=query, body=path, headers=headers)
    try:
        result = yield from run_job(request, endpoint, progress)
    except OSError as error:
        raise unreadable(path, error) from error
    return cast("ImportReceipt", decode(ImportReceipt, result, endpoint))


class _FileSink:
    """Writes a response into a file, from its beginning at each attempt."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)


_FILE_VERBS = {"export": export_steps, "import_": import_steps}


class RemoteMemory(MemoryManager):
    """The verbs of a memory on a server; made by `jiyi.connect`.

    Same arguments, results and errors. `zone` and `counter` follow the local settings; `monitor` is None.
    """

    def __init__(
        self, endpoint: Endpoint, *, user_id: str | None = None, agent_id: str | None = None
    ) -> None:
        self._endpoint = endpoint
        self._owner = {"user_id": user_id, "agent_id": agent_id}
        self._settings = load_settings()
        self._counter = counter_for(self._settings.model)
        self._monitor = None
        self._connections = Connections(endpoint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint.shown!r})"

    def _steps(self, verb: str, *args: Any, **kwargs: Any) -> Steps[Any]:
        steps: Callable[..., Steps[Any]] = _FILE_VERBS.get(verb) or partial(verb_steps, verb)
        return steps(self._endpoint, self._owner, *args, **kwargs)

    @property
    def parts(self) -> Parts:
        """Raise `WrongState`: they are on the server."""
        raise WrongState(
            "the parts of this memory and its settings are on the server: open the memory itself with "
            "jiyi.open, or give what was left to a setting, such as budget="
        )

    def close(self) -> None:
        """Close the connections; the memory on the server stays open."""
        self._connections.close()


class AsyncRemoteMemory(AsyncMemoryManager):
    """The async verbs of a memory on a server; made by `jiyi.connect_async`.

    Requests run in asyncio; only a verb that calls another one, such as `search_episodes`, takes a thread.
    """

    def __init__(self, memory: RemoteMemory) -> None:
        super().__init__(memory)
        self._remote = memory
        self._connections = AsyncConnections(memory._endpoint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._remote._endpoint.shown!r})"

    async def close(self) -> None:
        """Close the connections of this loop; the memory on the server stays open."""
        self._remote.close()
        await self._connections.close()


def _sync_verb(name: str) -> Callable[..., Any]:
    @wraps(getattr(MemoryManager, name))
    def verb(self: RemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return self._connections.run(self._steps(name, *args, **kwargs))

    return verb


def _async_verb(name: str) -> Callable[..., Any]:
    @wraps(getattr(MemoryManager, name))
    async def verb(self: AsyncRemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return await self._connections.run(self._remote._steps(name, *args, **kwargs))

    return verb


for _name in (*(route.verb for route in ROUTES), *_FILE_VERBS):
    setattr(RemoteMemory, _name, guard_arguments(_sync_verb(_name)))
    setattr(AsyncRemoteMemory, _name, _async_verb(_name))
