"""A memory on a server: the verbs of `MemoryManager` and `AsyncMemoryManager` over HTTP."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import IO, Any, cast

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client.asking import Ask, Steps, answered, job_done, read_as
from jiyi.client.http import AsyncConnections, Connections
from jiyi.client.verbs import PREFIX, Whose, asked, given_to, in_query
from jiyi.endpoint import Endpoint
from jiyi.errors import InputError, WrongState
from jiyi.importers.run import is_remote_source
from jiyi.manager import MemoryManager
from jiyi.records import Kind
from jiyi.settings import load_settings
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.storage.transfer.files import path_to_read, unreadable, whole_file
from jiyi.text import counter_for
from jiyi.verbs.argument_guard import guard_arguments
from jiyi.verbs.base import Parts, as_path
from jiyi.wire import ROUTES

__all__ = ["AsyncRemoteMemory", "RemoteMemory", "exported", "imported"]

_COUNTS = "x-jiyi-counts"


def exported(there: Endpoint, whose: Whose, *args: Any, **kwargs: Any) -> Steps[ExportReceipt]:
    """Return the steps of `MemoryManager.export`; the file takes its name when it is whole."""
    given = given_to("export", whose, args, kwargs)
    path, progress = as_path(given.pop("path")), given.pop("progress", None)
    with whole_file(path) as file:
        ask = Ask(method="GET", path=f"{PREFIX}/export", query=in_query(given), into=_File(file))
        answer = yield from answered(ask, there)
        size = file.tell()
    counts = read_as(Mapping[Kind, int], answer.headers.get(_COUNTS, "").encode(), there)
    if progress is not None:
        progress(sum(counts.values()))
    return ExportReceipt(path=path, counts=counts, bytes=size)


def imported(there: Endpoint, whose: Whose, *args: Any, **kwargs: Any) -> Steps[ImportReceipt]:
    """Return the steps of `MemoryManager.import_`; the file is read here and taken in there, as a job."""
    given = given_to("import_", whose, args, kwargs)
    if is_remote_source(place := given.pop("path")):
        raise InputError("a memory on a server imports files only: run this where the memory is")
    path, progress = path_to_read(as_path(place)), given.pop("progress", None)
    # The server keeps the file under another name, by which messages without a session must not go.
    query = {"session_id": path.stem, **in_query(given), "name": path.name}
    headers = {"content-type": "application/octet-stream"}
    ask = Ask(method="POST", path=f"{PREFIX}/import", query=query, body=path, headers=headers)
    try:
        done = yield from job_done(ask, there, progress)
    except OSError as error:
        raise unreadable(path, error) from error
    return cast("ImportReceipt", read_as(ImportReceipt, done, there))


class _File:
    """A file that an answer is written into, from its beginning at each try."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def begin(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def take(self, piece: bytes) -> None:
        self._file.write(piece)


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
    setattr(RemoteMemory, _name, guard_arguments(_verb(_name)))
    setattr(AsyncRemoteMemory, _name, _awaited(_name))
