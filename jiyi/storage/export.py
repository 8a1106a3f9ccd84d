"""A memory to a file: everything as JSON lines, or as a text to read."""

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from jiyi.errors import DiskFull, StorageError
from jiyi.records import Kind, Query, Record, Scope
from jiyi.storage.pages import all_messages, all_records, all_sessions
from jiyi.storage.plain import EXPORTED, to_plain
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.upkeep import Upkeep

__all__ = ["FORMAT", "ExportReceipt", "export_lines", "whole_file"]

FORMAT = 1
"""The version of the lines; a file of a newer one is refused by import."""

_PIECE = 1_000  # records read at once
_TOLD = 1_000  # records between two calls of progress
_WIDEST = 10**12  # a count that every header has room for


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReceipt:
    """What an export wrote."""

    path: Path  # the file
    counts: Mapping[Kind, int]  # records in it, by kind
    bytes: int  # its size

    @property
    def total(self) -> int:
        """How many records are in it."""
        return sum(self.counts.values())


def export_lines(
    store: Store,
    upkeep: Upkeep,
    scope: Scope,
    path: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> ExportReceipt:
    """Write what a scope holds as JSON lines: a header, then one record a line.

    Messages come by session in their order, then tasks with their steps, episodes, knowledge,
    facts, and all versions of summaries. Vectors and the messages' counts of tokens are left
    out: they are made anew. The file appears
    under its name when it is whole, in place of one that was there; memory holds 1,000 records
    at a time. What others write meanwhile may be in it or not.

    Args:
        store, upkeep: of one database.
        scope: a user, or one agent or session of theirs.
        path: the file; its folder must exist.
        progress: called with the number of records written so far.

    Raises:
        StorageError: the database cannot be read, or the file cannot be written (`DiskFull`
            where there is no room); nothing is left of it.
    """
    counts: dict[Kind, int] = dict.fromkeys(EXPORTED, 0)
    with whole_file(path) as file:
        file.write(_header(scope, counts))
        written = 0
        for record in _records(store, upkeep, scope):
            file.write(_line(to_plain(record)))
            counts[kind_of(record)] += 1
            written += 1
            if progress and written % _TOLD == 0:
                progress(written)
        size = file.tell()
        file.seek(0)
        file.write(_header(scope, counts))
    if progress:
        progress(written)
    return ExportReceipt(path=path, counts=counts, bytes=size)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write that takes its name when the block ends well, and is gone when it does not.

    Raises:
        StorageError: it cannot be written; `DiskFull` where there is no room.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.is_dir():
            raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'memory.jsonl'}")
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space left for {path}; free some space and export again") from error
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}; name a file in a folder that can"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _records(store: Store, upkeep: Upkeep, scope: Scope) -> Iterator[Record]:
    if scope.session_id is not None:
        yield from all_messages(store, scope, _PIECE)
    else:
        for session_id in sorted(all_sessions(store, upkeep, scope)):
            yield from all_messages(store, scope.in_session(session_id), _PIECE)
    for kind in EXPORTED:
        if kind != "message":
            yield from all_records(store, upkeep, Query(scope=scope, kinds=(kind,), limit=_PIECE))


def _header(scope: Scope, counts: Mapping[Kind, int]) -> bytes:
    """Return the first line, padded so that it is as long for any counts."""

    def line(counts: Mapping[Kind, int]) -> bytes:
        whose = {"user_id": scope.user_id, "agent_id": scope.agent_id, "session_id": scope.session_id}
        return _line({"jiyi_export": FORMAT, **whose, "counts": counts})

    widest = len(line(dict.fromkeys(counts, _WIDEST)))
    return line(counts)[:-1].ljust(widest - 1) + b"\n"


def _line(value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # halves of characters, which UTF-8 does not know
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"
