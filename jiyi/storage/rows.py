"""Records to rows and back: the same columns on every backend.

Free text lives in one JSON ``body``; what is searched or sorted by has a column of its
own. JSON escapes what a database's text cannot hold (NUL, lone surrogates), so any
Python string comes back as it went in; only two halves of a surrogate pair side by side
come back as the one character they make.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from jiyi.clock import to_micros, utc_from_micros
from jiyi.errors import DatabaseDamaged, InputError
from jiyi.records import (
    Episode,
    Fact,
    Item,
    Kind,
    Knowledge,
    Message,
    Record,
    Scope,
    Session,
    Step,
    Summary,
    Task,
    path_of,
)
from jiyi.records.checks import check_id
from jiyi.text.keys import entity_key, predicate_key

__all__ = [
    "CLASSES",
    "FORMATS",
    "NO_RECORD",
    "SEALED",
    "TABLES",
    "Row",
    "decode",
    "decode_whole",
    "dump",
    "encode",
    "encode_whole",
    "is_storable",
    "kind_of",
    "seal",
]

_SAID = {"role", "content", "name"}  # the keys of a message that is only said

Row = dict[str, Any]

TABLES: Mapping[str, str] = {
    "message": "messages",
    "episode": "episodes",
    "knowledge": "knowledge",
    "fact": "facts",
    "item": "items",
    "task": "tasks",
    "step": "steps",
    "summary": "summaries",
    "trash": "trash",
}
"""Where each kind of record lies, and what was taken out."""

NO_RECORD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""What decoding raises where bytes are damaged."""

_WHOSE = ("user_id", "agent_id", "session_id", "id")
SEALED: Mapping[str, tuple[str, ...]] = {
    "message": (*_WHOSE, "seq", "created_at"),
    "episode": (*_WHOSE, "created_at", "task_id", "outcome"),
    "knowledge": (*_WHOSE, "created_at", "updated_at"),
    "fact": (*(*_WHOSE, "created_at", "status", "valid_from", "valid_to"), *("supersedes", "superseded_by")),
    "item": (*_WHOSE, "created_at", "updated_at"),
    "task": (*_WHOSE, "status", "started_at", "updated_at", "completed_at"),
    "step": ("user_id", "task_id", "id", "status"),
    "summary": (*_WHOSE, "version", "upto_seq", "created_at"),
    "trash": (*_WHOSE, "kind", "discarded_at", "reason"),
}
"""The columns that a checksum covers besides the body, by the kind of row."""


# A step inside its episode.
_STEP = ("description", "tool_name", "args", "result", "id", "status", "seq", "started_at", "completed_at")
_TUPLES = {"tags", "key_points", "source_episodes", "sources", "covers", "namespace", "former"}


def seal(kind: str, row: Mapping[str, Any]) -> int:
    """Return the checksum of a row: of whose and which it is, when, its place, and all it says.

    Left out is what changes by itself: pins, importance, confidence, counts of tokens and of use, when
    an item ends. It guards against accidents, not against forgery.
    """
    said = "\0".join([str(row.get(name)) for name in SEALED[kind]])
    return zlib.crc32(row["body"].encode(), zlib.crc32(said.encode()))


def kind_of(record: Record | type[Any]) -> Kind:
    """Return what a record is, or what the records of a class are."""
    return _KINDS[record if isinstance(record, type) else type(record)]


def is_storable(id_: object) -> bool:
    """Say whether a stored record can have this id."""
    try:
        check_id("id", id_)
    except InputError:
        return False
    return True


def encode(record: Record) -> Row:
    """Return the columns of a record."""
    scope = record.scope
    assert scope is not None, "only records with a scope are stored"
    row = {"user_id": scope.user_id, "agent_id": scope.agent_id, "session_id": scope.session_id}
    row |= _message_row(record) if isinstance(record, Message) else _columns(record)
    for name in ("id", "task_id", "supersedes", "superseded_by"):
        if row.get(name) is not None:
            check_id(name, row[name])
    return row


def decode(kind: Kind, row: Mapping[str, Any], steps: tuple[Step, ...] = ()) -> Record:
    """Return the record of a row; ``steps`` are a task's.

    Raises:
        DatabaseDamaged: the row is not as it was written.
    """
    try:
        if "crc" in row and row["crc"] != seal(kind, row):
            raise DatabaseDamaged("its checksum is another")
        scope = _scope(row["user_id"], row.get("agent_id"), row.get("session_id"))
        record = _DECODERS[kind](row, scope) if kind in _DECODERS else _made(kind, row, scope)
    except NO_RECORD as error:
        raise DatabaseDamaged(f"its row cannot be read: {type(error).__name__}") from error
    return replace(record, steps=steps) if isinstance(record, Task) and steps else record


@lru_cache(maxsize=4_096)
def _scope(user_id: str, agent_id: str | None, session_id: str | None) -> Scope:
    """Return a scope; many rows share one."""
    return Scope(user_id=user_id, agent_id=agent_id, session_id=session_id)


def encode_whole(record: Record) -> str:
    """Return a record as one JSON text, with everything that belongs to it; a session has none."""
    whole = encode(record)
    if isinstance(record, Message | Step):
        whole["seq"] = record.seq
    if isinstance(record, Task):
        whole["steps"] = [_columns(step) | {"seq": step.seq} for step in record.steps]
    return dump(whole)


def decode_whole(kind: Kind, text: str) -> Record:
    """Return the record that `encode_whole` wrote; raises as `decode` does."""
    try:
        whole = json.loads(text)
        scope = Scope(user_id=whole["user_id"], agent_id=whole["agent_id"], session_id=whole["session_id"])
        steps = tuple(_step(row, scope) for row in whole.pop("steps", ()))
    except NO_RECORD as error:
        raise DatabaseDamaged(f"its text cannot be read: {type(error).__name__}") from error
    whole.pop("crc", None)
    return decode(kind, whole, steps)


def _message_row(m: Message) -> Row:
    return {
        "id": m.id,
        "role": m.role,
        "created_at": _said_at(m),
        "pinned": int(m.pinned),
        "body": dump(m.to_dict()),
        "importance": m.importance,
        "tokens": m.tokens,
        "tokens_by": m.tokens_by,
    }


def _message(row: Mapping[str, Any], scope: Scope) -> Message:
    body = json.loads(row["body"])
    fields = {
        "id": row["id"],
        "scope": scope,
        "seq": row["seq"],
        "importance": row["importance"],
        "pinned": bool(row["pinned"]),
        "created_at": utc_from_micros(row["created_at"]),
        "tokens": row["tokens"],
        "tokens_by": row["tokens_by"],
    }
    said = isinstance(body.get("content"), str) and isinstance(body.get("name", ""), str)
    if said and body.keys() <= _SAID and body["role"] != "developer":  # most are; half the time
        return Message(role=body["role"], content=body["content"], name=body.get("name"), **fields)
    return Message.from_openai(body, **fields)


def _columns(record: Record) -> Row:
    """Return the columns of a record of `FORMATS`, those derived from its fields too."""
    form = FORMATS[kind_of(record)]
    row: Row = {}
    for name, codec in form.columns.items():
        value = getattr(record, name)
        row[name] = value if codec is None or value is None else codec[0](value)
    steps = {"steps": [_values(step, _STEP) for step in record.steps]} if isinstance(record, Episode) else {}
    return row | {"body": _body(record, form.body, **steps)} | form.derived(record)


def _fields(kind: Kind, row: Mapping[str, Any]) -> Row:
    """Return what `_columns` stored, as the record's fields."""
    stored = {
        name: row[name] if codec is None or row[name] is None else codec[1](row[name])
        for name, codec in FORMATS[kind].columns.items()
    }
    return stored | _loaded(json.loads(row["body"]))


def _made(kind: Kind, row: Mapping[str, Any], scope: Scope) -> Record:
    return cast("Record", CLASSES[kind](scope=scope, **_fields(kind, row)))


def _episode(row: Mapping[str, Any], scope: Scope) -> Episode:
    values = _fields("episode", row)
    of: Row = {"scope": scope, "task_id": row["task_id"] or ""}
    values["steps"] = tuple(Step(**of, **_loaded(step)) for step in values["steps"])
    return Episode(scope=scope, **values)


def _said_at(record: Message | Summary) -> int:
    if record.created_at is None:
        done = "said" if isinstance(record, Message) else "written"
        raise InputError(f"a {kind_of(record)} needs created_at to be stored; say when it was {done}")
    return to_micros(record.created_at)


def _storable(ids: Iterable[str]) -> list[str]:
    return [id_ for id_ in ids if is_storable(id_)]


def _step(row: Mapping[str, Any], scope: Scope) -> Step:
    return Step(scope=scope, **_fields("step", row) | {"seq": row["seq"]})


def _session(row: Mapping[str, Any], scope: Scope) -> Session:
    moments = {name: utc_from_micros(row[name]) for name in ("started_at", "last_active_at")}
    return Session(scope=scope, messages=row["messages"], next_seq=row["next_seq"], **moments)


_Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]] | None
"""How a field's value becomes its column's, and back; None: unchanged. A value None is never changed."""


def _codec(name: str) -> _Codec:
    if name in ("pinned", "consolidated"):
        return int, bool
    return (to_micros, utc_from_micros) if name.endswith("_at") or name.startswith("valid_") else None


class _Format:
    """Where the fields of a record are stored: ``columns`` of their own, or the JSON ``body``."""

    def __init__(self, columns: str, body: str, derived: Callable[[Any], Row] = lambda _: {}) -> None:
        self.columns = {name: _codec(name) for name in columns.split()}
        self.body = tuple(body.split())
        self.derived = derived  # columns made of other fields


FORMATS: Mapping[Kind, _Format] = {
    "episode": _Format(
        "id created_at pinned access_count last_accessed_at task_id outcome importance consolidated",
        "trigger_type trigger_summary outcome_summary target tags",
        lambda e: {"role": None, "target_key": entity_key(e.target or "")},
    ),
    "knowledge": _Format(
        "id created_at pinned access_count last_accessed_at updated_at confidence",
        "topic content key_points source_episodes metadata",
        lambda k: {"role": None, "sources": _storable(k.source_episodes)},
    ),
    "fact": _Format(
        "id created_at pinned access_count last_accessed_at status valid_from valid_to confidence "
        "supersedes superseded_by",
        "category subject predicate object text speaker sources method metadata",
        lambda f: {
            "role": None,
            "subject_key": entity_key(f.subject),
            "predicate_key": predicate_key(f.predicate),
            "object_key": entity_key(f.object),
            "sources": _storable(f.sources),
        },
    ),
    "item": _Format(
        "id created_at pinned updated_at expires_at",
        "namespace key value text version ttl former",
        lambda i: {"role": None, "path": path_of(i.namespace)},
    ),
    "task": _Format(
        "id status started_at updated_at completed_at",
        "request outcome summary target trigger_type tags context",
    ),
    "step": _Format("task_id id status", "description tool_name args result seq started_at completed_at"),
    "summary": _Format(
        "id version upto_seq created_at",
        "text method language tokens previous covers",
        lambda s: {"created_at": _said_at(s), "covers": dump(s.covers)},
    ),
}
CLASSES: Mapping[Kind, type[Any]] = {
    "message": Message,
    "episode": Episode,
    "knowledge": Knowledge,
    "fact": Fact,
    "item": Item,
    "task": Task,
    "step": Step,
    "session": Session,
    "summary": Summary,
}
_KINDS: Mapping[type, Kind] = {made: kind for kind, made in CLASSES.items()}
_DECODERS: Mapping[Kind, Callable[[Mapping[str, Any], Scope], Record]] = {
    "message": _message,
    "episode": _episode,
    "step": _step,
    "session": _session,
}


def _body(record: Record, names: tuple[str, ...], **more: Any) -> str:
    values = _values(record, names)
    if values.get("metadata") == {}:  # most have none
        del values["metadata"]
    return dump({**values, **more})


def _values(record: Record, names: Iterable[str]) -> Row:
    return {name: _jsonable(getattr(record, name)) for name in names}


def _loaded(values: Row) -> Row:
    """Return fields from the values that `_jsonable` made of them."""
    return {
        name: utc_from_micros(value)
        if value is not None and name.endswith("_at")
        else tuple(value)
        if name in _TUPLES
        else value
        for name, value in values.items()
    }


def dump(value: object) -> str:
    """Return a value as JSON that UTF-8 can hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be stored as JSON: {error}; use text, numbers, lists and dicts") from error
    return text


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_micros(value)
    return dict(value) if isinstance(value, Mapping) else value
