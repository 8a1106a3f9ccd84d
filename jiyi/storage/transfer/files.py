"""Files that are written completely or not at all, and files to read; neither may be a device."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from jiyi.errors import DiskFull, ImportFailed, InputError, StorageError
from jiyi.storage.sqlite.file import DISK_FULL, is_database

try:
    import fcntl
except ImportError:  # on Windows an open file cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "atomic_file",
    "open_to_read",
    "path_to_read",
    "path_to_write",
    "refuse_device",
    "remove_leftovers",
    "unreadable",
]

_PREFIX, _SUFFIX = ".jiyi-", ".part"


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
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}; name a file in a folder that can"
        ) from error
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
