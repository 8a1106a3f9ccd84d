"""Records to plain JSON values and back: the lines of an export.

A value holds everything a record says except its user, vectors and counts of tokens; the last two are
computed again. Reading checks every type, so that a line somebody edited is either a sound record or an
`InputError` that says what is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass, replace
from datetime import datetime
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from jiyi.errors import InputError
from jiyi.records import Episode, Fact, Item, Kind, Knowledge, Message, Record, Scope, Step, Summary, Task
from jiyi.records.checks import check_id
from jiyi.records.fits import misfit
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
    whose = {name: _read(str | None, data.pop(name, None), name) for name in ("agent_id", "session_id")}
    scope = Scope(user_id=user_id, **whose)
    if kind == "message":
        return _message(data, scope)
    if kind in ("task", "episode"):
        steps, task_id = data.get("steps", []), data.get("id" if kind == "task" else "task_id") or ""
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise InputError("steps must be a list of objects")
        data["steps"] = [_build(Step, step, scope=scope, task_id=task_id) for step in steps]
    record = cast("Record", _build(EXPORTED[kind], data, scope=scope))
    # The id of an item names the user, who may be another one.
    return replace(record, id="") if isinstance(record, Item) else record


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


def _build(of: type[Any], data: Mapping[str, Any], **given: Any) -> Any:
    allowed = [f for f in fields(of) if f.name not in given]
    values = _checked(of, data, [f.name for f in allowed])
    for f in allowed:
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{f.name} is missing")
    return of(**given, **values)


def _checked(of: type[Any], data: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    out = dict[str, Any]()
    for name, value in data.items():
        if name not in allowed:
            raise InputError(f"there is no field {name!r}")
        out[name] = _read(_HINTS[of][name], value, name)
        if name in _IDS and value is not None:
            check_id(name, value)
    if "id" not in out:
        raise InputError("id is missing")
    return out


def _read(hint: Any, value: Any, name: str) -> Any:
    """Return a JSON value as a field of this type has it."""
    wanted = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if type(value) is int and float in wanted and abs(value) < _LARGEST:
        value = float(value)
    elif isinstance(value, str) and datetime in wanted:
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InputError(f"{name} {value[:80]!r} is no ISO 8601 date") from error
    elif isinstance(value, list) and any(get_origin(one) is tuple for one in wanted):
        value = tuple(value)
    elif isinstance(value, int | float) and not (0 if type(value) is int else -_LARGEST) <= value < _LARGEST:
        raise InputError(f"{name} cannot be {str(value)[:80]}")
    if type(value) not in wanted and (said := misfit(value, hint, name)):
        raise InputError(said)
    return value
