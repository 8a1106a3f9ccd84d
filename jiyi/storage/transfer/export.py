"""Writing and reading a memory as JSON lines: a header, then one record per line.

A line holds a whole record except its user, vectors and token counts; the last two are computed
again. Reading checks every type: an edited line is a valid record or an `InputError` that says why not.
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
from jiyi.records.checks import check_id, explain_mismatch
from jiyi.storage.rows import CLASSES, dump_json, kind_of
from jiyi.storage.store import Store, all_messages, all_records, all_sessions
from jiyi.storage.transfer.files import NOT_JSON, Found, Rejected, atomic_file, json_lines, open_to_read

__all__ = ["ExportReceipt", "export_lines", "is_export", "read_export", "write_export"]

_VERSION = 1  # of the format; a file of a newer one is refused
_VERSION_KEY = "jiyi_export"
_BATCH_SIZE = 1_000  # records read at once
_PROGRESS_STEP = 1_000  # records between two calls of progress
_MAX_RECORDS = 10**12  # the header has space for counts up to this
_MAX_HEADER_BYTES = 65_536

_EXPORTED: tuple[Kind, ...] = ("message", "task", "episode", "knowledge", "fact", "item", "summary")
"""The kinds in an export, in its order; messages come by session."""

_MESSAGE = ("seq", "created_at", "pinned", "importance")
_IDS = ("id", "task_id", "supersedes", "superseded_by", "previous")
_LIMIT = 2**53
_HINTS = {kind: get_type_hints(CLASSES[kind]) for kind in (*_EXPORTED, "step")}

_Counts = Mapping[Kind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """What an export wrote."""

    path: Path  # the file
    counts: Mapping[Kind, int]  # records in it, by kind
    bytes: int  # its size
    damaged: int = 0  # records that were left out because they are damaged

    @property
    def total(self) -> int:
        """How many records are in it."""
        return sum(self.counts.values())


def export_lines(
    store: Store, scope: Scope, path: Path, *, progress: Callable[[int], None] | None = None
) -> ExportReceipt:
    """Write the records of a scope as JSON lines: a header, then one record per line.

    Messages come by session in their order, then tasks with their steps, episodes, knowledge, facts, and
    all versions of summaries. Vectors and token counts of messages are left out: an import computes them
    again. The file, whose folder must exist, gets its name when it is complete and replaces an older one;
    1,000 records are in memory at a time. What others write meanwhile may be in it or not. ``progress``
    is called with the number of records written so far.

    Raises `StorageError` if the database cannot be read or the file not be written (`DiskFull` if there
    is no space); nothing is left of it.
    """
    lines = ((kind_of(record), _line(_to_json(record))) for record in _records(store, scope))
    return write_export(path, lines, header=lambda counts: _header(scope, counts), progress=progress)


def write_export(
    path: Path,
    pieces: Iterable[tuple[Kind | None, bytes]],
    *,
    header: Callable[[_Counts], bytes],
    progress: Callable[[int], None] | None,
) -> ExportReceipt:
    """Write a file that gets its name when it is complete; raises as `atomic_file` does.

    ``pieces`` are its content, each with the kind of its record, if it is one. ``header`` returns its
    beginning by the counts of records, with the same length for any counts. ``progress`` is called with
    the number of records written so far.
    """
    counts: dict[Kind, int] = dict.fromkeys(_EXPORTED, 0)
    written = 0
    with atomic_file(path) as file:
        file.write(header(counts))
        for kind, piece in pieces:
            file.write(piece)
            if kind is None:
                continue
            counts[kind] += 1
            written += 1
            if progress and written % _PROGRESS_STEP == 0:
                progress(written)
        size = file.tell()
        file.seek(0)
        file.write(header(counts))
    if progress:
        progress(written)
    return ExportReceipt(path=path, counts=counts, bytes=size)


def is_export(path: Path) -> bool:
    """Return whether a file begins as an export of any version; raise `ImportFailed` if it cannot be read."""
    return _read_header(path) is not None


def read_export(path: Path, user_id: str) -> Iterator[Found | Rejected]:
    """Yield the records of an export as those of a user, and a `Rejected` for every other line.

    If the counts differ from those of the header, because the file was cut off or changed, a `Rejected`
    at the end says so. Raises `ImportFailed` if the file cannot be read, is no export, or was written by
    a newer jiyi.
    """
    header = _read_header(path)
    if header is None:
        raise ImportFailed(f"{path} is no export of jiyi: its first line lacks {_VERSION_KEY!r}")
    version = header[_VERSION_KEY]
    if type(version) is not int or version > _VERSION:
        problem = f"{path} is an export of version {str(version)[:20]}, this jiyi knows {_VERSION}"
        raise ImportFailed(f"{problem}; upgrade with: pip install --upgrade jiyi")
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
            record = _from_json(value, user_id)
        except (*NOT_JSON, TypeError) as error:
            yield Rejected.because(where, error)
        else:
            yield Found(where=where, record=record)
    yield from _missing_records(path.name, header.get("counts"), seen)


def _records(store: Store, scope: Scope) -> Iterator[Record]:
    for session_id in sorted(all_sessions(store, scope)):
        yield from all_messages(store, scope.in_session(session_id), _BATCH_SIZE)
    for kind in _EXPORTED[1:]:
        yield from all_records(store, Query(scope=scope, kinds=(kind,), limit=_BATCH_SIZE))


def _header(scope: Scope, counts: _Counts) -> bytes:
    """Return the first line, padded to the same length for any counts."""

    def line(counts: _Counts) -> bytes:
        whose = {"user_id": scope.user_id, "agent_id": scope.agent_id, "session_id": scope.session_id}
        return _line({_VERSION_KEY: _VERSION, **whose, "counts": counts})

    widest = len(line(dict.fromkeys(counts, _MAX_RECORDS)))
    return line(counts)[:-1].ljust(widest - 1) + b"\n"


def _line(value: Mapping[str, Any]) -> bytes:
    return dump_json(value).encode() + b"\n"


def _read_header(path: Path) -> Mapping[str, Any] | None:
    with open_to_read(path) as file:
        first = file.readline(_MAX_HEADER_BYTES)
    try:
        header = json.loads(first.decode("utf-8-sig"))
    except NOT_JSON:
        return None
    return header if isinstance(header, Mapping) and _VERSION_KEY in header else None


def _missing_records(name: str, promised: object, seen: _Counts) -> Iterator[Rejected]:
    if not isinstance(promised, Mapping):
        yield Rejected(where=f"{name}:1", reason="the header does not say how many records there are")
        return
    if short := [kind for kind in seen if seen[kind] != promised.get(kind, 0)]:
        counts = ", ".join(f"{promised.get(kind, 0)} of kind {kind}, found {seen[kind]}" for kind in short)
        yield Rejected.because(f"{name}:1", f"the header says {counts}: the file was cut off or changed")


def _to_json(record: Record) -> dict[str, Any]:
    kind, scope = kind_of(record), record.scope
    assert scope is not None
    head = {"kind": kind, "id": record.id, "agent_id": scope.agent_id, "session_id": scope.session_id}
    if isinstance(record, Message):
        body = {name: _json_value(getattr(record, name)) for name in _MESSAGE}
        return {**head, **body, "message": record.to_dict()}
    return {**head, **_json_fields(record)}


def _from_json(value: object, user_id: str) -> Record:
    """Return the record of a user that `_to_json` wrote; raise `InputError` if it is none."""
    if not isinstance(value, Mapping):
        raise InputError(f"a record is an object, not {type(value).__name__}")
    data = dict(value)
    kind = data.pop("kind", None)
    if kind not in _EXPORTED:
        raise InputError(f"kind {kind!r} is not one of {', '.join(_EXPORTED)}")
    names = ("agent_id", "session_id")
    scope = Scope(user_id=user_id, **{n: _field_value(str | None, data.pop(n, None), n) for n in names})
    if kind == "message":
        return _message(data, scope)
    if kind in ("task", "episode"):
        steps, task_id = data.get("steps", []), data.get("id" if kind == "task" else "task_id") or ""
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise InputError("steps must be a list of objects")
        data["steps"] = [_build("step", step, scope=scope, task_id=task_id) for step in steps]
    record = cast("Record", _build(kind, data, scope=scope))
    # The id of an item depends on the user, which may be another one.
    return replace(record, id="") if isinstance(record, Item) else record


def _json_fields(record: Any) -> dict[str, Any]:
    left_out = ("scope", "task_id") if isinstance(record, Step) else ("scope", "id")
    return {f.name: _json_value(getattr(record, f.name)) for f in fields(record) if f.name not in left_out}


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [_json_fields(item) if is_dataclass(item) else item for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _message(data: dict[str, Any], scope: Scope) -> Message:
    body = data.pop("message", None)
    if not isinstance(body, Mapping):
        raise InputError("message must be an object with role and content")
    if scope.session_id is None:
        raise InputError("session_id is missing; a message belongs to a session")
    values = _checked_fields("message", data, ("id", *_MESSAGE))
    if values.get("created_at") is None:
        raise InputError("created_at is missing")
    return Message.from_openai(body, scope=scope, **values)


def _build(kind: Kind, data: Mapping[str, Any], **given: Any) -> Any:
    allowed = [f for f in fields(CLASSES[kind]) if f.name not in given]
    values = _checked_fields(kind, data, [f.name for f in allowed])
    for f in allowed:
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise InputError(f"{f.name} is missing")
    return CLASSES[kind](**given, **values)


def _checked_fields(kind: Kind, data: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    out = dict[str, Any]()
    for name, value in data.items():
        if name not in allowed:
            raise InputError(f"there is no field {name!r}")
        out[name] = _field_value(_HINTS[kind][name], value, name)
        if name in _IDS and value is not None:
            check_id(name, value)
    if "id" not in out:
        raise InputError("id is missing")
    return out


def _field_value(hint: Any, value: Any, name: str) -> Any:
    wanted = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if type(value) is int and float in wanted and abs(value) < _LIMIT:
        value = float(value)
    elif isinstance(value, str) and datetime in wanted:
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InputError(f"{name} {value[:80]!r} is no ISO 8601 date") from error
    elif isinstance(value, list) and any(get_origin(type_) is tuple for type_ in wanted):
        value = tuple(value)
    elif isinstance(value, int | float) and not (0 if type(value) is int else -_LIMIT) <= value < _LIMIT:
        raise InputError(f"{name} cannot be {str(value)[:80]}")
    if type(value) not in wanted and (mismatch := explain_mismatch(value, hint, name)):
        raise InputError(mismatch)
    return value
