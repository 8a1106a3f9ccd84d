"""Conversion of records to rows and back, with the same columns on every backend.

Free text is stored in one JSON ``body``; what is searched or sorted by has a column of its own.
JSON escapes what a database's text cannot hold (NUL, lone surrogates), so any Python string is
read back unchanged, except that two adjacent halves of a surrogate pair become one character.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, cast, get_args

from jiyi.clock import to_micros, utc_from_micros
from jiyi.errors import DatabaseDamaged, InputError
from jiyi.records import Episode, Kind, Message, Record, Scope, Session, Step, Summary, Task, path_of
from jiyi.records.checks import check_id
from jiyi.text.keys import entity_key, predicate_key

__all__ = [
    "CHECKSUM_COLUMNS", "CLASSES", "FORMATS", "TABLES", "Row", "decode", "decode_discarded", "decode_json",
    "dump_json", "encode", "encode_json", "is_storable", "kind_of", "row_checksum",
]  # fmt: skip

_cached_scope = lru_cache(maxsize=4_096)(Scope)  # many rows share one
_PLAIN_MESSAGE_KEYS = {"role", "content", "name"}  # of a message that holds nothing but text

Row = dict[str, Any]

# What decoding damaged bytes may raise.
_DECODE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)

_IDENTITY = ("user_id", "agent_id", "session_id", "id")
CHECKSUM_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "message": (*_IDENTITY, "seq", "created_at"),
    "episode": (*_IDENTITY, "created_at", "task_id", "outcome"),
    "knowledge": (*_IDENTITY, "created_at", "updated_at"),
    "fact": (*_IDENTITY, "created_at", "status", *("valid_from", "valid_to", "supersedes", "superseded_by")),
    "item": (*_IDENTITY, "created_at", "updated_at"),
    "task": (*_IDENTITY, "status", "started_at", "updated_at", "completed_at"),
    "step": ("user_id", "task_id", "id", "status"),
    "summary": (*_IDENTITY, "version", "upto_seq", "created_at"),
    "trash": (*_IDENTITY, "kind", "discarded_at", "reason"),
}
"""The columns that a checksum covers besides the body, by the kind of row."""

TABLES: Mapping[str, str] = {
    **{kind: f"{kind}s" for kind in CHECKSUM_COLUMNS},
    **{"knowledge": "knowledge", "summary": "summaries", "trash": "trash"},
}
"""The table of each kind of record, and of the trash."""

_TIME_FIELDS = {"started_at", "completed_at"}  # of those in a body
_TUPLE_FIELDS = {"tags", "key_points", "source_episodes", "sources", "covers", "namespace", "former"}


def row_checksum(kind: str, row: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a row's owner, id, times, place in its session and content.

    It leaves out what is amended in place: pins, importance, confidence, token counts, access counts
    and the expiry of items. It guards against accidents, not against forgery.
    """
    columns = "\0".join([str(row.get(name)) for name in CHECKSUM_COLUMNS[kind]])
    return zlib.crc32(row["body"].encode(), zlib.crc32(columns.encode()))


def kind_of(record: Record | type[Any]) -> Kind:
    """Return the kind of a record or of a record class."""
    return _KIND_BY_CLASS[record if isinstance(record, type) else type(record)]


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
    row |= _encode_message(record) if isinstance(record, Message) else _encode_columns(record)
    for name in ("id", "task_id", "supersedes", "superseded_by"):
        if row.get(name) is not None:
            check_id(name, row[name])
    return row


def decode(kind: Kind, row: Mapping[str, Any], steps: tuple[Step, ...] = ()) -> Record:
    """Return the record of a row, a task with its ``steps``; raise `DatabaseDamaged` if it was changed."""
    try:
        _check(kind, row)
        scope = _cached_scope(
            user_id=row["user_id"], agent_id=row.get("agent_id"), session_id=row.get("session_id")
        )
        if kind in _DECODERS:
            record = _DECODERS[kind](row, scope)
        else:
            record = CLASSES[kind](scope=scope, **_decode_fields(kind, row))
    except _DECODE_ERRORS as error:
        raise DatabaseDamaged(f"its row cannot be read: {type(error).__name__}") from error
    return replace(record, steps=steps) if isinstance(record, Task) and steps else record


def encode_json(record: Record) -> str:
    """Return a record other than a session as one JSON text, a task with its steps."""
    row = encode(record)
    if isinstance(record, Message | Step):
        row["seq"] = record.seq
    if isinstance(record, Task):
        row["steps"] = [_encode_columns(step) | {"seq": step.seq} for step in record.steps]
    return dump_json(row)


def decode_json(kind: Kind, text: str) -> Record:
    """Return the record that `encode_json` wrote; raises as `decode` does."""
    try:
        row = json.loads(text)
        scope = Scope(user_id=row["user_id"], agent_id=row["agent_id"], session_id=row["session_id"])
        steps = tuple(_decode_step(step, scope) for step in row.pop("steps", ()))
    except _DECODE_ERRORS as error:
        raise DatabaseDamaged(f"its text cannot be read: {type(error).__name__}") from error
    row.pop("crc", None)
    return decode(kind, row, steps)


def decode_discarded(row: Mapping[str, Any]) -> tuple[Record, datetime]:
    """Return the record of a row of the trash, and when it was removed; raises as `decode` does."""
    try:
        _check("trash", row)
        return decode_json(row["kind"], row["body"]), utc_from_micros(row["discarded_at"])
    except _DECODE_ERRORS as error:
        raise DatabaseDamaged(f"its row cannot be read: {type(error).__name__}") from error


def _check(kind: str, row: Mapping[str, Any]) -> None:
    if "crc" in row and row["crc"] != row_checksum(kind, row):
        raise DatabaseDamaged("its checksum does not match")


def _encode_message(message: Message) -> Row:
    return {
        "id": message.id,
        "role": message.role,
        "created_at": _created_micros(message),
        "pinned": int(message.pinned),
        "body": dump_json(message.to_dict()),
        "importance": message.importance,
        "tokens": message.tokens,
        "tokens_by": message.tokens_by,
    }


def _decode_message(row: Mapping[str, Any], scope: Scope) -> Message:
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
    plain = isinstance(body.get("content"), str) and isinstance(body.get("name", ""), str)
    if plain and body.keys() <= _PLAIN_MESSAGE_KEYS and body["role"] != "developer":  # twice as fast
        return Message(role=body["role"], content=body["content"], name=body.get("name"), **fields)
    return Message.from_openai(body, **fields)


def _encode_columns(record: Record) -> Row:
    """Return the columns of a record of `FORMATS`, including those derived from its fields."""
    form = FORMATS[kind_of(record)]
    row: Row = {}
    for name, codec in form.columns.items():
        value = getattr(record, name)
        row[name] = value if codec is None or value is None else codec[0](value)
    body = _jsonable_fields(record, form.body)
    for name, usual in (("metadata", {}), ("version_of", None)):
        if name in body and body[name] == usual:
            del body[name]
    if isinstance(record, Episode):
        body["steps"] = [_jsonable_fields(step, _STEP_FIELDS) for step in record.steps]
    return row | {"body": dump_json(body)} | form.derived(record)


def _decode_fields(kind: Kind, row: Mapping[str, Any]) -> Row:
    """Return the record's fields from the columns that `_encode_columns` wrote."""
    stored = {
        name: row[name] if codec is None or row[name] is None else codec[1](row[name])
        for name, codec in FORMATS[kind].columns.items()
    }
    return stored | _from_jsonable(json.loads(row["body"]))


def _decode_episode(row: Mapping[str, Any], scope: Scope) -> Episode:
    values = _decode_fields("episode", row)
    task_id = row["task_id"] or ""
    steps = [Step(scope=scope, task_id=task_id, **_from_jsonable(step)) for step in values.pop("steps")]
    return Episode(scope=scope, steps=tuple(steps), **values)


def _created_micros(record: Message | Summary) -> int:
    if record.created_at is None:
        done = "said" if isinstance(record, Message) else "written"
        raise InputError(f"a {kind_of(record)} needs created_at to be stored; say when it was {done}")
    return to_micros(record.created_at)


def _decode_step(row: Mapping[str, Any], scope: Scope) -> Step:
    return Step(scope=scope, **_decode_fields("step", row) | {"seq": row["seq"]})


def _decode_session(row: Mapping[str, Any], scope: Scope) -> Session:
    times = {name: utc_from_micros(row[name]) for name in ("started_at", "last_active_at")}
    return Session(scope=scope, messages=row["messages"], next_seq=row["next_seq"], **times)


_Codec = tuple[Callable[[Any], Any], Callable[[Any], Any]] | None
"""Functions that encode a field's value for its column and decode it; None leaves values unchanged."""


def _codec(name: str) -> _Codec:
    if name in ("pinned", "consolidated"):
        return int, bool
    return (to_micros, utc_from_micros) if name.endswith("_at") or name.startswith("valid_") else None


class _Format:
    """Where the fields of a record are stored: in ``columns`` of their own or in the JSON ``body``."""

    def __init__(self, columns: str, body: str, derived: Callable[[Any], Row] = lambda _: {}) -> None:
        self.columns = {name: _codec(name) for name in columns.split()}
        self.body = tuple(body.split())
        self.derived = derived  # returns the columns computed from other fields


FORMATS: Mapping[Kind, _Format] = {
    "episode": _Format(
        "id created_at pinned access_count last_accessed_at task_id outcome importance consolidated",
        "trigger_type trigger_summary outcome_summary target tags",
        lambda e: {"target_key": entity_key(e.target or "")},
    ),
    "knowledge": _Format(
        "id created_at pinned access_count last_accessed_at updated_at confidence",
        "topic content key_points source_episodes metadata",
        lambda k: {"sources": list(filter(is_storable, k.source_episodes))},
    ),
    "fact": _Format(
        "id created_at pinned access_count last_accessed_at status valid_from valid_to confidence "
        "supersedes superseded_by",
        "category subject predicate object text speaker sources method metadata version_of",
        lambda f: {
            "subject_key": entity_key(f.subject),
            "predicate_key": predicate_key(f.predicate),
            "object_key": entity_key(f.object),
            "sources": list(filter(is_storable, f.sources)),
        },
    ),
    "item": _Format(
        "id created_at pinned updated_at expires_at",
        "namespace key value text version ttl former",
        lambda i: {"path": path_of(i.namespace)},
    ),
    "task": _Format(
        "id status started_at updated_at completed_at",
        "request outcome summary target trigger_type tags context",
    ),
    "step": _Format("task_id id status", "description tool_name args result seq started_at completed_at"),
    "summary": _Format(
        "id version upto_seq created_at",
        "text method language tokens previous covers",
        lambda s: {"created_at": _created_micros(s), "covers": dump_json(s.covers)},
    ),
}
CLASSES: Mapping[Kind, type[Any]] = {cast("Kind", made.__name__.lower()): made for made in get_args(Record)}
_STEP_FIELDS = (*FORMATS["step"].body, "id", "status")  # in the body of an episode
_KIND_BY_CLASS: Mapping[type, Kind] = {made: kind for kind, made in CLASSES.items()}
_DECODERS: Mapping[Kind, Callable[[Mapping[str, Any], Scope], Record]] = {
    "message": _decode_message,
    "episode": _decode_episode,
    "step": _decode_step,
    "session": _decode_session,
}


def _jsonable_fields(record: Record, names: Iterable[str]) -> Row:
    return {name: _to_jsonable(getattr(record, name)) for name in names}


def _from_jsonable(values: Row) -> Row:
    for name in _TUPLE_FIELDS & values.keys():
        values[name] = tuple(values[name])
    for name in _TIME_FIELDS & values.keys():
        values[name] = values[name] if values[name] is None else utc_from_micros(values[name])
    return values


def dump_json(value: object) -> str:
    """Return a value as JSON that UTF-8 can hold."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be stored as JSON: {error}; use text, numbers, lists and dicts") from error
    return text


def _to_jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_micros(value)
    return dict(value) if isinstance(value, Mapping) else value
