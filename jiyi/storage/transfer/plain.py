"""Records to plain JSON values and back: the lines of an export.

A value holds everything a record says except its user, vectors and counts of tokens; the last two are
computed again. Reading checks every type, so that a line somebody edited is either a sound record or an
`InputError` that says what is wrong.
"""

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from jiyi.errors import InputError
from jiyi.records import Episode, Fact, Item, Kind, Knowledge, Message, Record, Scope, Step, Summary, Task
from jiyi.records.checks import check_id, plain
from jiyi.storage.rows import kind_of

__all__ = ["EXPORTED", "from_plain", "to_plain"]

EXPORTED: Mapping[Kind, type[Any]] = {
    "message": Message,
    "task": Task,
    "episode": Episode,
    "knowledge": Knowledge,
    "fact": Fact,
    "item": Item,
    "summary": Summary,
}
"""What an export holds, in its order."""

_WHOSE = ("agent_id", "session_id")
_MESSAGE = ("seq", "created_at", "pinned", "importance")
_IDS = ("id", "task_id", "supersedes", "superseded_by", "previous")
_LARGEST = 2**53
_HINTS = {of: get_type_hints(of) for of in (*EXPORTED.values(), Step)}


def to_plain(record: Record) -> dict[str, Any]:
    """Return a record as JSON values, with its kind."""
    kind, scope = kind_of(record), record.scope
    assert scope is not None
    head = {"kind": kind, "id": record.id, "agent_id": scope.agent_id, "session_id": scope.session_id}
    if isinstance(record, Message):
        body = {name: _written(getattr(record, name)) for name in _MESSAGE}
        return {**head, **body, "message": record.to_dict()}
    return {**head, **_fields_of(record)}


def from_plain(value: object, user_id: str) -> Record:
    """Return the record of a user that `to_plain` wrote.

    Raises:
        InputError: it is none, or something in it is of a wrong type.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"a record is an object, not {type(value).__name__}")
    data = dict(value)
    kind = data.pop("kind", None)
    if kind not in EXPORTED:
        raise InputError(f"kind {kind!r} is not one of {', '.join(EXPORTED)}")
    whose = {name: _read(str | None, data.pop(name, None), name) for name in _WHOSE}
    scope = Scope(user_id=user_id, **whose)
    if kind == "message":
        return _message(data, scope)
    record = cast("Record", _build(EXPORTED[kind], data, scope=scope))
    if isinstance(record, Item):  # its id names the user, who may be another one
        return replace(record, id="")
    if isinstance(record, Task | Episode):
        task_id = record.id if isinstance(record, Task) else record.task_id or ""
        return replace(record, steps=tuple(replace(step, task_id=task_id) for step in record.steps))
    return record


def _fields_of(record: Any) -> dict[str, Any]:
    left_out = ("scope", "task_id") if isinstance(record, Step) else ("scope", "id")
    return {f.name: _written(getattr(record, f.name)) for f in fields(record) if f.name not in left_out}


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_fields_of(item) if is_dataclass(item) else item for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _message(data: dict[str, Any], scope: Scope) -> Message:
    body = data.pop("message", None)
    if not isinstance(body, Mapping):
        raise InputError("message must be an object with role and content")
    if scope.session_id is None:
        raise InputError("session_id is missing; a message belongs to a session")
    values = _checked(Message, data, ("id", *_MESSAGE))
    if values.get("created_at") is None:
        raise InputError("created_at is missing")
    return Message.from_openai(body, scope=scope, **values)


def _build(of: type[Any], data: Mapping[str, Any], scope: Scope) -> object:
    given_apart = ("scope", "task_id") if of is Step else ("scope",)
    allowed = [f for f in fields(of) if f.name not in given_apart]
    values = _checked(of, data, [f.name for f in allowed])
    for f in allowed:
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{f.name} is missing")
    if "steps" in values:
        values["steps"] = tuple(_build(Step, step, scope) for step in values["steps"])
    if of is Step:
        values["task_id"] = "?"  # `from_plain` puts in the task's
    return of(scope=scope, **values)


def _checked(of: type[Any], data: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    hints, out = _HINTS[of], dict[str, Any]()
    for name, value in data.items():
        if name not in allowed:
            raise InputError(f"there is no field {name!r}")
        out[name] = _steps(value) if name == "steps" else _read(hints[name], value, name)
    for name in _IDS:
        if out.get(name) is not None:
            check_id(name, out[name])
    if "id" not in out:
        raise InputError("id is missing")
    return out


def _steps(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(step, Mapping) for step in value):
        raise InputError("steps must be a list of objects")
    return value


def _read(hint: Any, value: Any, where: str) -> Any:
    """Return a JSON value as a type wants it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not types.NoneType]
        if value is None and len(members) < len(get_args(hint)):
            return None
        return _read(members[0], value, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise InputError(f"{where} {value!r} is not one of {', '.join(map(str, get_args(hint)))}")
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_read(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return plain(value, where)
    if hint is datetime and isinstance(value, str):
        return _moment(value, where)
    if hint in (str, bool) and isinstance(value, hint):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and number and math.isfinite(value) and abs(value) < _LARGEST:
        return float(value)
    if hint is int and number and isinstance(value, int) and 0 <= value < _LARGEST:
        return value
    raise InputError(f"{where} cannot be {str(value)[:80]!r}")


def _moment(value: str, where: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except ValueError as error:
        raise InputError(f"{where} {value[:80]!r} is no ISO 8601 date") from error
