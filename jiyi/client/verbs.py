"""Each verb as requests: its arguments written as the table of routes says, its result read back."""

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

from jiyi.client.asking import Ask, Steps, answered, job_done, read_as
from jiyi.clock import read_moment
from jiyi.endpoint import Endpoint
from jiyi.errors import BadMessage, BadQuery, BadScope, InputError
from jiyi.manager import MemoryManager
from jiyi.records import Message, as_mapping, check_metadata
from jiyi.records.checks import copy_json
from jiyi.wire import ROUTES, adapter, call_of

__all__ = ["PREFIX", "Whose", "asked", "given_to", "in_query"]

PREFIX = "/v1"

_BY_VERB = {route.verb: route for route in ROUTES}
_OF_SESSION = "session_id"

Whose = Mapping[str, str | None]
"""The user and the agent that verbs are about where a call does not say."""


def asked(verb: str, there: Endpoint, whose: Whose, *args: Any, **kwargs: Any) -> Steps[Any]:
    """Return the steps of a verb that has a route."""
    route = _BY_VERB[verb]
    call = call_of(route)
    given = given_to(verb, whose, args, kwargs)
    progress = given.pop("progress", None)
    for name in call.left_out:
        if given.pop(name, None) is not None:
            raise InputError(
                f"{name}= is code, and cannot travel to a server: leave it out, "
                "or open the memory itself with jiyi.open"
            )
    path = PREFIX + route.path.format(**{name: _in_path(name, given.pop(name)) for name in call.in_path})
    headers = {"idempotency-key": uuid4().hex} if route.writes else {}
    if route.method in ("GET", "DELETE"):
        ask = Ask(method=route.method, path=path, query=in_query(given), headers=headers)
    else:
        headers["content-type"] = "application/json"
        ask = Ask(method=route.method, path=path, body=_body(given), headers=headers)
    if route.how == "job":
        done = yield from job_done(ask, there, progress)
        return read_as(call.result, done, there)
    answer = yield from answered(ask, there)
    return read_as(call.result, answer.body, there)


@cache
def _signature(verb: str) -> inspect.Signature:
    return inspect.signature(getattr(MemoryManager, verb))


def given_to(verb: str, whose: Whose, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that say something, by name; those of messages as the records want them."""
    signature = _signature(verb)
    bound = signature.bind(None, *args, **kwargs).arguments
    del bound["self"]
    parameters = signature.parameters
    given = {name: value for name, value in bound.items() if value is not parameters[name].default}
    for name, value in whose.items():
        if value is not None and name in parameters:
            given.setdefault(name, value)
    return {name: _READ[name](value) if name in _READ else value for name, value in given.items()}


def _message(given: Any) -> Any:
    if isinstance(given, Message):
        return given
    body = dict(as_mapping(given))
    dates = {name: body.pop(name) for name in ("created_at", "timestamp") if body.get(name) is not None}
    read = {name: read_moment(at) if isinstance(at, float) else at for name, at in dates.items()}
    return {**copy_json(body, "message", BadMessage), **read}


def _messages(given: Iterable[Any]) -> list[Any]:
    return [_message(one) for one in given]


_READ: Mapping[str, Callable[[Any], Any]] = {  # so that errors of these are those of a memory here
    "message": _message,
    "messages": _messages,
    "scratch": _messages,
    "created_at": read_moment,
    "metadata": check_metadata,
}


def _in_path(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        error = BadScope if name == _OF_SESSION else BadQuery
        raise error(f"{name} must be non-empty text, not {value!r}")
    return quote(value, safe="") if value.strip(".") else value.replace(".", "%2E")  # no step upwards


def in_query(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as they stand in a URL; a list is its name several times, a dict is JSON."""
    return {name: _in_query(name, value) for name, value in given.items()}


def _in_query(name: str, value: object) -> Any:
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
        return [_in_query(name, one) for one in value]
    raise BadQuery(f"{name} cannot be of type {type(value).__name__}")


def _body(given: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(given, default=_plain, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"an argument cannot be written as JSON: {error}") from error


def _plain(value: Any) -> Any:
    """Return what JSON has no form for in one that it has."""
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
