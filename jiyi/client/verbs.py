"""Convert the verbs of a memory to requests by the table of routes, and their responses to results."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from os import PathLike, fspath
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from jiyi.client.calls import Request, Steps, decode, run_job, send
from jiyi.clock import read_moment
from jiyi.endpoint import Endpoint
from jiyi.errors import BadMessage, BadQuery, BadScope, InputError
from jiyi.manager import MemoryManager
from jiyi.records import Message, as_mapping, check_metadata
from jiyi.records.checks import copy_json
from jiyi.wire import ROUTES, adapter, call_of

__all__ = ["PREFIX", "Owner", "bind", "to_query", "verb_steps"]

PREFIX = "/v1"

_ROUTES = {route.verb: route for route in ROUTES}

Owner = Mapping[str, str | None]
"""The user and agent of verbs, unless a call names others."""


def verb_steps(verb: str, endpoint: Endpoint, owner: Owner, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Return the steps of a verb that has a route."""
    route = _ROUTES[verb]
    call = call_of(route)
    arguments = bind(verb, owner, args, kwargs)
    progress = arguments.pop("progress", None)
    for name in call.left_out:
        if arguments.pop(name, None) is not None:
            raise InputError(
                f"{name}= is code, and cannot travel to a server: leave it out, "
                "or open the memory itself with jiyi.open"
            )
    path = PREFIX + route.path.format(**{name: _quote(name, arguments.pop(name)) for name in call.in_path})
    headers = {"idempotency-key": uuid4().hex} if route.writes else {}
    if route.method in ("GET", "DELETE"):
        request = Request(method=route.method, path=path, query=to_query(arguments), headers=headers)
    else:
        headers["content-type"] = "application/json"
        request = Request(method=route.method, path=path, body=_body(arguments), headers=headers)
    if route.how == "job":
        result = yield from run_job(request, endpoint, progress)
        return decode(call.result, result, endpoint)
    response = yield from send(request, endpoint)
    return decode(call.result, response.body, endpoint)


@cache
def _signature(verb: str) -> inspect.Signature:
    return inspect.signature(getattr(MemoryManager, verb))


def bind(verb: str, owner: Owner, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults, by name; messages and dates are validated."""
    signature = _signature(verb)
    bound = signature.bind(None, *args, **kwargs).arguments
    del bound["self"]
    parameters = signature.parameters
    arguments = {name: value for name, value in bound.items() if value is not parameters[name].default}
    for name, value in owner.items():
        if value is not None and name in parameters:
            arguments.setdefault(name, value)
    return {name: _CONVERT[name](value) if name in _CONVERT else value for name, value in arguments.items()}


def _prepare_message(message: Any) -> Any:
    if isinstance(message, Message):
        return message
    body = dict(as_mapping(message))
    dates = {name: body.pop(name) for name in ("created_at", "timestamp") if body.get(name) is not None}
    parsed = {name: read_moment(date) if isinstance(date, float) else date for name, date in dates.items()}
    return {**copy_json(body, "message", BadMessage), **parsed}


def _prepare_messages(given: Iterable[Any]) -> list[Any]:
    return [_prepare_message(message) for message in given]


_CONVERT: Mapping[str, Callable[[Any], Any]] = {  # so that their errors are those of a local memory
    "message": _prepare_message,
    "messages": _prepare_messages,
    "scratch": _prepare_messages,
    "created_at": read_moment,
    "metadata": check_metadata,
}


def _quote(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        error = BadScope if name == "session_id" else BadQuery
        raise error(f"{name} must be non-empty text, not {value!r}")
    return quote(value, safe="") if value.strip(".") else value.replace(".", "%2E")  # keeps ".." a name


def to_query(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as parameters of a URL: lists as repeated parameters, dicts as JSON."""
    return {name: _query_value(name, value) for name, value in arguments.items()}


def _query_value(name: str, value: object) -> Any:
    if value is None:
        raise BadQuery(f"{name}=None says nothing; leave it out")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Mapping):
        return _body(value).decode()
    if isinstance(value, Iterable):
        return [_query_value(name, item) for item in value]
    raise BadQuery(f"{name} cannot be of type {type(value).__name__}")


def _body(arguments: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(arguments, default=_json_default, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"an argument cannot be written as JSON: {error}") from error


def _json_default(value: Any) -> Any:
    """Convert a value that JSON cannot represent into one that it can."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return adapter(type(value)).dump_python(value, mode="json")
    if callable(getattr(value, "model_dump", None)):
        return as_mapping(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise InputError(f"a value of type {type(value).__name__} cannot be written as JSON")
