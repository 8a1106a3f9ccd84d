"""Files that are written whole or not at all, and files to read, neither of which may be a device."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from jiyi.errors import DiskFull, ImportFailed, InputError, StorageError
from jiyi.storage.sqlite.file import FULL, is_database

try:
    import fcntl
except ImportError:  # on Windows an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "open_to_read",
    "path_to_read",
    "path_to_write",
    "refuse_device",
    "remove_left",
    "unreadable",
    "whole_file",
]

_PREFIX, _SUFFIX = ".jiyi-", ".part"


def path_to_write(path: Path) -> Path:
    """Return the file that a name stands for, which may be made or written over: a link leads to it.

    Raises:
        InputError: there is a database, most likely the memory itself, or a device or pipe.
        StorageError: there is a folder.
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
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write that takes its name when the block ends well, and is gone when it does not.

    Only its owner may read it, unless there was one of the name that others may. What killed
    processes left in the folder is removed.

    Raises:
        StorageError: it cannot be written; `DiskFull` where there is no room.
        InputError: see `path_to_write`.
    """
    part: Path | None = None
    try:
        target = path_to_write(path)
        remove_left(target.parent)
        handle, part = _begun(target.parent)
        with os.fdopen(handle, "wb") as file:
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # held until it has its name, so it is not taken for a killed process's
                part.replace(target)
        if fcntl is None:
            part.replace(target)
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(f"no space left for {path}; free some space and export again") from error
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}; name a file in a folder that can"
        ) from error
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def remove_left(folder: Path) -> None:
    """Remove what processes that were killed left half-written in a folder; never a living one's."""
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


def _begun(folder: Path) -> tuple[int, Path]:
    """Make a new file in a folder and lock it, so that it is known to be in use."""
    while True:
        handle, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks: none is taken, nothing is removed
                fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:  # it was not removed before it was locked
            return handle, Path(name)
        os.close(handle)


def path_to_read(path: Path) -> Path:
    """Return the path of a file to import.

    Raises:
        ImportFailed: it is a device or a pipe, which may never end, or a database.
    """
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
    """Give a file to read.

    Raises:
        ImportFailed: it cannot be read, or see `path_to_read`.
    """
    try:
        file = path_to_read(path).open("rb")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    with file:
        yield file


def unreadable(path: Path, error: Exception) -> ImportFailed:
    """Return the error for a file that the system does not let us read."""
    return ImportFailed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
