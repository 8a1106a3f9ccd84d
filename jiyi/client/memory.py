"""A memory on a server: the verbs of `MemoryManager` and `AsyncMemoryManager` over HTTP."""

import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import wraps
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

from jiyi.async_manager import AsyncMemoryManager
from jiyi.client.calls import AsyncConnections, Connections, Request, decode, run_job, send
from jiyi.clock import read_moment
from jiyi.endpoint import Endpoint
from jiyi.errors import BadMessage, BadQuery, BadScope, ImportFailed, InputError, WrongState
from jiyi.importers.run import is_remote_source
from jiyi.manager import MemoryManager
from jiyi.records import Kind, Message, as_mapping, check_metadata
from jiyi.records.checks import copy_json
from jiyi.settings import load_settings
from jiyi.storage import ExportReceipt, ImportReceipt
from jiyi.storage.rows import dump_json
from jiyi.storage.transfer.files import atomic_file, refuse_device, unreadable
from jiyi.text import counter_for
from jiyi.verbs.base import Parts
from jiyi.verbs.checks import as_path, guard_arguments
from jiyi.wire import PREFIX, ROUTES, adapter, call_of

_AnyConnections = Connections | AsyncConnections
_ROUTES = {route.verb: route for route in ROUTES}


async def _call_verb(connections: _AnyConnections, verb: str, arguments: dict[str, Any]) -> Any:
    """Call a verb by its route; ``arguments`` are those that differ from their defaults."""
    route = _ROUTES[verb]
    call = call_of(route)
    progress = arguments.pop("progress", None)
    for name in call.left_out:
        if arguments.pop(name, None) is not None:
            hint = "leave it out, or open the memory itself with jiyi.open"
            raise InputError(f"{name}= is code, and cannot travel to a server: {hint}")
    path = PREFIX + route.path.format(**{name: _quote(name, arguments.pop(name)) for name in call.in_path})
    headers = {"idempotency-key": uuid4().hex} if route.writes else {}
    if route.method in ("GET", "DELETE"):
        request = Request(method=route.method, path=path, query=_to_query(arguments), headers=headers)
    else:
        headers["content-type"] = "application/json"
        request = Request(method=route.method, path=path, body=_to_json(arguments), headers=headers)
    if route.how == "job":
        result = await run_job(request, connections, progress)
    else:
        result = (await send(request, connections)).content
    return decode(call.result, result, connections.endpoint)


async def _export(connections: _AnyConnections, _: str, arguments: dict[str, Any]) -> ExportReceipt:
    """Call `MemoryManager.export`; the file appears when it is complete."""
    path, progress = as_path(arguments.pop("path")), arguments.pop("progress", None)
    with atomic_file(path) as file:

        def begin_again() -> Callable[[bytes], int]:
            file.seek(0)
            file.truncate()
            return file.write

        request = Request(method="GET", path=f"{PREFIX}/export", query=_to_query(arguments), sink=begin_again)
        response = await send(request, connections)
        size = file.tell()
    header = response.headers.get("x-jiyi-counts", "")
    counts = decode(Mapping[Kind, int], header.encode(), connections.endpoint)
    if progress is not None:
        progress(sum(counts.values()))
    return ExportReceipt(path=path, counts=counts, bytes=size)


async def _import(connections: _AnyConnections, _: str, arguments: dict[str, Any]) -> ImportReceipt:
    """Call `MemoryManager.import_`: the file is uploaded and imported by a job."""
    if is_remote_source(source := arguments.pop("path")):
        raise InputError("a memory on a server imports files only: run this where the memory is")
    path, progress = as_path(source), arguments.pop("progress", None)
    refuse_device(path)
    if path.is_dir():
        raise ImportFailed(f"{path} cannot be read: it is a folder, and a server imports files; zip it")
    # Messages without a session get the name of the file, which is another one on the server.
    query = {"session_id": path.stem, **_to_query(arguments), "name": path.name}
    headers = {"content-type": "application/octet-stream"}
    request = Request(method="POST", path=f"{PREFIX}/import", query=query, body=path, headers=headers)
    try:
        result = await run_job(request, connections, progress)
    except OSError as error:
        raise unreadable(path, error) from error
    return cast("ImportReceipt", decode(ImportReceipt, result, connections.endpoint))


_FILE_VERBS: Mapping[str, Callable[..., Coroutine[Any, Any, Any]]] = {"export": _export, "import_": _import}


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

    async def _call(self, connections: _AnyConnections, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call a verb with the user and agent of this memory, unless the call names others."""
        signature = inspect.signature(getattr(MemoryManager, verb))
        bound = signature.bind(None, *args, **kwargs).arguments
        parameters = signature.parameters
        given = {n: v for n, v in bound.items() if n != "self" and v is not parameters[n].default}
        owner = {name: id_ for name, id_ in self._owner.items() if id_ is not None and name in parameters}
        arguments = {n: _CONVERT[n](v) if n in _CONVERT else v for n, v in (owner | given).items()}
        return await (_FILE_VERBS.get(verb) or _call_verb)(connections, verb, arguments)

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


def _add_verb(name: str) -> None:
    """Give both classes a verb."""
    local = getattr(MemoryManager, name)

    @wraps(local)
    def verb(self: RemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return self._connections.run(self._call(self._connections, name, *args, **kwargs))

    @wraps(local)
    async def async_verb(self: AsyncRemoteMemory, *args: Any, **kwargs: Any) -> Any:
        return await self._remote._call(self._connections, name, *args, **kwargs)

    setattr(RemoteMemory, name, guard_arguments(verb))
    setattr(AsyncRemoteMemory, name, async_verb)


for _name in (*_ROUTES, *_FILE_VERBS):
    _add_verb(_name)


def _prepare_message(message: Any) -> Any:
    if isinstance(message, Message):
        return message
    body = dict(as_mapping(message))
    dates = {name: body.pop(name) for name in ("created_at", "timestamp") if body.get(name) is not None}
    parsed = {name: read_moment(date) if isinstance(date, float) else date for name, date in dates.items()}
    return {**copy_json(body, "message", BadMessage), **parsed}


_CONVERT: Mapping[str, Callable[[Any], Any]] = {  # so that their errors are those of a local memory
    "message": _prepare_message,
    "messages": lambda messages: [_prepare_message(message) for message in messages],
    "scratch": lambda messages: [_prepare_message(message) for message in messages],
    "created_at": read_moment,
    "metadata": check_metadata,
    "items": lambda items: [{**item, "value": copy_json(item.get("value"), "value")} for item in items],
    "value": lambda value: copy_json(value, "value"),
    **dict.fromkeys(("context", "args"), lambda value: json.loads(dump_json(value))),
}


def _quote(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        error = BadScope if name == "session_id" else BadQuery
        raise error(f"{name} must be non-empty text, not {value!r}")
    return quote(value, safe="") if value.strip(".") else value.replace(".", "%2E")  # keeps ".." a name


def _to_query(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as parameters of a URL: lists as repeated parameters, dicts as JSON."""
    return {name: _query_value(name, value) for name, value in arguments.items()}


def _query_value(name: str, value: object) -> Any:
    if value is None:
        raise BadQuery(f"{name}=None says nothing; leave it out")
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return _to_json(value).decode()
    if isinstance(value, Iterable):
        return [_query_value(name, item) for item in value]
    raise BadQuery(f"{name} cannot be of type {type(value).__name__}")


def _to_json(arguments: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(arguments, default=_json_default, allow_nan=False).encode()
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"an argument cannot be written as JSON: {error}") from error


def _json_default(value: Any) -> Any:
    """Convert a value that JSON cannot represent into one that it can."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping) or callable(getattr(value, "model_dump", None)):
        return dict(as_mapping(value))
    if is_dataclass(value) and not isinstance(value, type):
        return adapter(type(value)).dump_python(value, mode="json")
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise InputError(f"a value of type {type(value).__name__} cannot be written as JSON")
