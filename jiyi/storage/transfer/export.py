"""A memory as JSON lines: a header, then one record a line. Written and read back.

A line holds everything a record says except its user, vectors and counts of tokens; the last two are
computed again. Reading checks every type, so that a line somebody edited is either a sound record or an
`InputError` that says what is wrong.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from jiyi.errors import ImportFailed, InputError
from jiyi.records import Item, Kind, Message, Query, Record, Scope, Step
from jiyi.records.argument_errors import explain_mismatch
from jiyi.records.checks import check_id
from jiyi.storage.pages import all_messages, all_records, all_sessions
from jiyi.storage.rows import CLASSES, dump_json, kind_of
from jiyi.storage.store import Store
from jiyi.storage.transfer.files import open_to_read, whole_file
from jiyi.storage.transfer.lines import NOT_JSON, Found, Rejected, json_lines

__all__ = ["ExportReceipt", "export_lines", "is_export", "read_export", "write_export"]

_FORMAT = 1  # version of the lines; a file of a newer one is refused
_MARK = "jiyi_export"
_PIECE = 1_000  # records read at once
_TOLD = 1_000  # records between two calls of progress
_WIDEST = 10**12  # a count that every header has room for
_LONGEST_HEADER = 65_536

_EXPORTED: tuple[Kind, ...] = ("message", "task", "episode", "knowledge", "fact", "item", "summary")
"""What an export holds, in its order."""

_MESSAGE = ("seq", "created_at", "pinned", "importance")
_IDS = ("id", "task_id", "supersedes", "superseded_by", "previous")
_LARGEST = 2**53
_HINTS = {kind: get_type_hints(CLASSES[kind]) for kind in (*_EXPORTED, "step")}

_Counts = Mapping[Kind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """What an export wrote."""

    path: Path  # the file
    counts: Mapping[Kind, int]  # records in it, by kind
    bytes: int  # its size
    damaged: int = 0  # records that were left out because their bytes are damaged

    @property
    def total(self) -> int:
        """How many records are in it."""
        return sum(self.counts.values())


def export_lines(
    store: Store,
    scope: Scope,
    path: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> ExportReceipt:
    """Write what a scope holds as JSON lines: a header, then one record a line.

    Messages come by session in their order, then tasks with their steps, episodes, knowledge,
    facts, and all versions of summaries. Vectors and the messages' counts of tokens are left
    out: an import computes them again. The file appears under its name when it is whole, in place
    of one that was there; memory holds 1,000 records at a time. What others write meanwhile may be
    in it or not.

    Args:
        store: the records.
        scope: a user, or one agent or session of theirs.
        path: the file; its folder must exist.
        progress: called with the number of records written so far.

    Raises:
        StorageError: the database cannot be read, or the file cannot be written (`DiskFull`
            where there is no room); nothing is left of it.
    """
    lines = ((kind_of(record), _line(_to_plain(record))) for record in _records(store, scope))
    return write_export(path, lines, header=lambda counts: _header(scope, counts), progress=progress)


def write_export(
    path: Path,
    pieces: Iterable[tuple[Kind | None, bytes]],
    *,
    header: Callable[[_Counts], bytes],
    progress: Callable[[int], None] | None,
) -> ExportReceipt:
    """Write a file that takes its name when it is whole.

    Args:
        path: the file.
        pieces: what it holds, each with the kind of the record it shows, if it shows one.
        header: its beginning by the counts of records, as long for any counts.
        progress: called with the number of records written so far.

    Raises:
        StorageError: it cannot be written; `DiskFull` where there is no room.
    """
    counts: dict[Kind, int] = dict.fromkeys(_EXPORTED, 0)
    written = 0
    with whole_file(path) as file:
        file.write(header(counts))
        for kind, piece in pieces:
            file.write(piece)
            if kind is None:
                continue
            counts[kind] += 1
            written += 1
            if progress and written % _TOLD == 0:
                progress(written)
        size = file.tell()
        file.seek(0)
        file.write(header(counts))
    if progress:
        progress(written)
    return ExportReceipt(path=path, counts=counts, bytes=size)


def is_export(path: Path) -> bool:
    """Say whether a file begins as an export of any version.

    Raises:
        ImportFailed: the file cannot be read.
    """
    return _read_header(path) is not None


def read_export(path: Path, user_id: str) -> Iterator[Found | Rejected]:
    """Yield the records of an export as those of a user, and what is wrong with the other lines.

    In the end it is told where there are fewer lines of a kind than the header says: the file
    was cut off, or changed.

    Raises:
        ImportFailed: the file cannot be read, is no export, or was written by a newer jiyi.
    """
    header = _read_header(path)
    if header is None:
        raise ImportFailed(f"{path} is no export of jiyi: its first line lacks {_MARK!r}")
    version = header[_MARK]
    if type(version) is not int or version > _FORMAT:
        raise ImportFailed(
            f"{path} is an export of version {str(version)[:20]}, this jiyi knows {_FORMAT}; "
            "upgrade with: pip install --upgrade jiyi"
        )
    seen: dict[Kind, int] = dict.fromkeys(_EXPORTED, 0)
    lines = json_lines(path, strict=True)
    next(lines)
    for where, value in lines:
        if isinstance(value, Rejected):
            yield value
            continue
        try:
            if isinstance(value, Mapping) and value.get("kind") in _EXPORTED:
                seen[value["kind"]] += 1
            record = _from_plain(value, user_id)
        except (*NOT_JSON, TypeError) as error:
            yield Rejected.because(where, error)
        else:
            yield Found(where=where, record=record)
    yield from _missing(path.name, header.get("counts"), seen)


def _records(store: Store, scope: Scope) -> Iterator[Record]:
    if scope.session_id is not None:
        yield from all_messages(store, scope, _PIECE)
    else:
        for session_id in sorted(all_sessions(store, scope)):
            yield from all_messages(store, scope.in_session(session_id), _PIECE)
    for kind in _EXPORTED:
        if kind != "message":
            yield from all_records(store, Query(scope=scope, kinds=(kind,), limit=_PIECE))


def _header(scope: Scope, counts: _Counts) -> bytes:
    """Return the first line, padded so that it is as long for any counts."""

    def line(counts: _Counts) -> bytes:
        whose = {"user_id": scope.user_id, "agent_id": scope.agent_id, "session_id": scope.session_id}
        return _line({_MARK: _FORMAT, **whose, "counts": counts})

    widest = len(line(dict.fromkeys(counts, _WIDEST)))
    return line(counts)[:-1].ljust(widest - 1) + b"\n"


def _line(value: Mapping[str, Any]) -> bytes:
    return dump_json(value).encode() + b"\n"


def _read_header(path: Path) -> Mapping[str, Any] | None:
    with open_to_read(path) as file:
        first = file.readline(_LONGEST_HEADER)
    try:
        header = json.loads(first.decode("utf-8-sig"))
    except NOT_JSON:
        return None
    return header if isinstance(header, Mapping) and _MARK in header else None


def _missing(name: str, promised: object, seen: _Counts) -> Iterator[Rejected]:
    if not isinstance(promised, Mapping):
        yield Rejected(where=f"{name}:1", reason="the header does not say how many records there are")
        return
    short = [kind for kind in seen if seen[kind] != promised.get(kind, 0)]
    if short:
        told = ", ".join(f"{promised.get(kind, 0)} of kind {kind}, found {seen[kind]}" for kind in short)
        yield Rejected.because(f"{name}:1", f"the header says {told}: the file was cut off or changed")


def _to_plain(record: Record) -> dict[str, Any]:
    """Return a record as JSON values, with its kind."""
    kind, scope = kind_of(record), record.scope
    assert scope is not None
    head = {"kind": kind, "id": record.id, "agent_id": scope.agent_id, "session_id": scope.session_id}
    if isinstance(record, Message):
        body = {name: _value_of(getattr(record, name)) for name in _MESSAGE}
        return {**head, **body, "message": record.to_dict()}
    return {**head, **_fields_of(record)}


def _from_plain(value: object, user_id: str) -> Record:
    """Return the record of a user that `_to_plain` wrote.

    Raises:
        InputError: it is none, or something in it is of a wrong type.
    """
    if not isinstance(value, Mapping):
        raise InputError(f"a record is an object, not {type(value).__name__}")
    data = dict(value)
    kind = data.pop("kind", None)
    if kind not in _EXPORTED:
        raise InputError(f"kind {kind!r} is not one of {', '.join(_EXPORTED)}")
    whose = {name: _value(str | None, data.pop(name, None), name) for name in ("agent_id", "session_id")}
    scope = Scope(user_id=user_id, **whose)
    if kind == "message":
        return _message(data, scope)
    if kind in ("task", "episode"):
        steps, task_id = data.get("steps", []), data.get("id" if kind == "task" else "task_id") or ""
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise InputError("steps must be a list of objects")
        data["steps"] = [_build("step", step, scope=scope, task_id=task_id) for step in steps]
    record = cast("Record", _build(kind, data, scope=scope))
    # The id of an item names the user, who may be another one.
    return replace(record, id="") if isinstance(record, Item) else record


def _fields_of(record: Any) -> dict[str, Any]:
    left_out = ("scope", "task_id") if isinstance(record, Step) else ("scope", "id")
    return {f.name: _value_of(getattr(record, f.name)) for f in fields(record) if f.name not in left_out}


def _value_of(value: Any) -> Any:
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
    values = _checked("message", data, ("id", *_MESSAGE))
    if values.get("created_at") is None:
        raise InputError("created_at is missing")
    return Message.from_openai(body, scope=scope, **values)


def _build(kind: Kind, data: Mapping[str, Any], **given: Any) -> Any:
    allowed = [f for f in fields(CLASSES[kind]) if f.name not in given]
    values = _checked(kind, data, [f.name for f in allowed])
    for f in allowed:
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{f.name} is missing")
    return CLASSES[kind](**given, **values)


def _checked(kind: Kind, data: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    out = dict[str, Any]()
    for name, value in data.items():
        if name not in allowed:
            raise InputError(f"there is no field {name!r}")
        out[name] = _value(_HINTS[kind][name], value, name)
        if name in _IDS and value is not None:
            check_id(name, value)
    if "id" not in out:
        raise InputError("id is missing")
    return out


def _value(hint: Any, value: Any, name: str) -> Any:
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
    if type(value) not in wanted and (said := explain_mismatch(value, hint, name)):
        raise InputError(said)
    return value
