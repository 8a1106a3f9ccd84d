"""Files that are written completely or not at all, and files to read, with what reading found."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from jiyi.errors import DiskFull, ImportFailed, InputError, StorageError
from jiyi.records import Kind, Record
from jiyi.storage.sqlite.file import DISK_FULL, is_database
from jiyi.text import first_words

try:
    import fcntl
except ImportError:  # on Windows an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "NOT_JSON", "Found", "ImportReceipt", "Rejected", "atomic_file", "json_lines", "open_to_read",
    "path_to_read", "path_to_write", "refuse_device", "remove_leftovers", "unreadable",
]  # fmt: skip

_PREFIX, _SUFFIX = ".jiyi-", ".part"

NOT_JSON = (ValueError, RecursionError)
"""What `json.loads` raises for bad syntax, very long numbers, or deep nesting."""

_MAX_LINE_BYTES = 64 * 1024 * 1024
_MAX_REASON = 500  # characters; a reason may quote a value of any length


def path_to_write(path: Path) -> Path:
    """Return the file that a path leads to, following links, if it may be created or overwritten.

    Raises `InputError` for a database, most likely the memory itself, and for a device or pipe;
    `StorageError` for a folder.
    """
    target = Path(os.path.realpath(path))
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'memory.jsonl'}")
    if target.is_symlink() or (path.exists() and not path.is_file()):  # a link that leads to itself
        raise InputError(f"{path} is no regular file, and would be replaced by one; name a file")
    if is_database(target):
        raise InputError(f"{path} is a database and would be lost; name another file")
    return target


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Return a context with a file to write, which gets its name if the block succeeds and else is removed.

    Only its owner may read it, unless it replaces a file with another mode. Files that killed processes
    left in the folder are removed. Raises `StorageError` if it cannot be written, `DiskFull` if there is
    no space, and as `path_to_write` does.
    """
    part: Path | None = None
    try:
        target = path_to_write(path)
        remove_leftovers(target.parent)
        handle, part = _create_locked(target.parent)
        with os.fdopen(handle, "wb") as file:
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked, so that no process takes it for a leftover
                part.replace(target)
        if fcntl is None:
            part.replace(target)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DiskFull(f"no space left for {path}; free some space and export again") from error
        problem = f"{path} cannot be written: {error.strerror or error}"
        raise StorageError(f"{problem}; name a file in a folder that can") from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove files that killed processes left half-written in a folder, but not those in use."""
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            handle = os.open(part, os.O_RDWR)
            try:
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()
            finally:
                os.close(handle)
            if fcntl is None:
                part.unlink()


def _create_locked(folder: Path) -> tuple[int, Path]:
    """Create a file in a folder and lock it to mark it as in use."""
    while True:
        handle, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        if fcntl is not None:
            with suppress(OSError):  # on a file system without locks nothing is removed either
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # otherwise it was removed before it was locked
            return handle, Path(name)
        os.close(handle)


def path_to_read(path: Path) -> Path:
    """Return the path of a file to import; raise `ImportFailed` for a database, a device or a pipe."""
    refuse_device(path)
    if is_database(path):
        raise ImportFailed(f"{path} is a database: copy one into another with `jiyi copy`")
    return path


def refuse_device(path: Path) -> None:
    """Raise `ImportFailed` for a device or a pipe, which may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ImportFailed(f"{path} is no regular file; write what it gives into one, and import that")


@contextmanager
def open_to_read(path: Path) -> Iterator[IO[bytes]]:
    """Return a context with a file to read; raise `ImportFailed` if it cannot be, and as `path_to_read`."""
    try:
        file = path_to_read(path).open("rb")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    with file:
        yield file


def unreadable(path: Path, error: Exception) -> ImportFailed:
    """Return the error for a file that cannot be read."""
    return ImportFailed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record and its place in a file."""

    where: str  # file and line, or file and place in the JSON
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A line or entry that cannot be a record."""

    where: str  # file and line, or file and place in the JSON
    reason: str

    @classmethod
    def because(cls, where: str, reason: object) -> "Rejected":
        """Return a rejection with its reason on one line, cut to a readable length."""
        return cls(where=where, reason=first_words(str(reason), _MAX_REASON))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What an import did."""

    added: int  # new records
    known: int  # records that the memory had already
    rejected: tuple[Rejected, ...]  # what could not be stored, and why
    counts: Mapping[Kind, int] = field(default_factory=dict)  # new records by kind
    left_out: Mapping[str, int] = field(default_factory=dict)  # what is not imported, such as hidden messages


def json_lines(path: Path, *, strict: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield place and value of each line that is not blank; the value is a `Rejected` if it is not JSON.

    ``strict`` rejects NaN and infinities, which Python accepts but JSON does not have. Raises
    `ImportFailed` if the file cannot be read, or a line is longer than 64 MiB.
    """
    options: Mapping[str, Any] = {"parse_constant": _reject_constant} if strict else {}
    with open_to_read(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES + 1), b""), 1):
            where = f"{path.name}:{number}"
            if len(raw) > _MAX_LINE_BYTES:
                raise ImportFailed(f"{where} is longer than 64 MiB, which no record is; mend the file")
            if not raw.strip():
                continue
            try:
                yield where, json.loads(raw.decode("utf-8-sig"), **options)
            except UnicodeDecodeError as error:
                yield where, Rejected(where=where, reason=f"not UTF-8 (byte {error.start} of the line)")
            except NOT_JSON as error:
                yield where, Rejected.because(where, f"not JSON: {error}")


def _reject_constant(constant: str) -> object:
    raise ValueError(constant)
