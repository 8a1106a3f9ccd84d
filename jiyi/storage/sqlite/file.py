"""The file itself, as the system has it: whose it is, who may read it, and whether it is still there."""

import errno
import os
import threading
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import apsw

from jiyi.errors import DatabaseMoved, DatabaseReadOnly, DiskFull, ForeignDatabase, StorageError
from jiyi.forks import quiet

__all__ = ["APPLICATION_ID", "FULL", "OpenFile", "is_database", "make_file", "refuse_foreign"]

APPLICATION_ID = 0x6A697969  # "jiyi" in ASCII
_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_BESIDE = ("-wal", "-shm")
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))

_Identity = tuple[int, int] | None

_given_up: set[_Identity] = set()  # files that this process cannot use


def is_database(path: Path) -> bool:
    """Say whether there is a file of SQLite, or one that SQLite keeps beside such a file."""
    main = path.with_name(path.name[:-4]) if path.name.endswith(_BESIDE) else path
    try:
        return _header(main).startswith(_MAGIC)
    except (OSError, ValueError, apsw.Error):
        return False


def refuse_foreign(path: Path) -> None:
    """Refuse what is there and not jiyi's, reading only its first bytes.

    Raises:
        ForeignDatabase: another program's file.
        StorageError: a folder or a device, or what cannot be opened.
    """
    try:
        header = _header(path)
    except FileNotFoundError as error:
        if path.parent.exists():
            return
        raise StorageError(f"the folder {path.parent} does not exist; make it first") from error
    except PermissionError as error:
        raise DatabaseReadOnly(f"{path} may not be read by this user; mend its permissions") from error
    except IsADirectoryError as error:
        inside = path / "agent.db"
        raise StorageError(f"{path} is a folder; name a file in it, such as {inside}") from error
    except (OSError, ValueError, apsw.Error) as error:
        raise StorageError(f"{path} cannot be opened ({error}); name another file") from error
    if _identity(str(path))[0] in _given_up:
        raise StorageError(
            f"{path}: this process was forked while it was written to or read, and cannot use it; "
            "fork outside of calls, or start it by spawning"
        )
    if not header:
        return
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise ForeignDatabase(f"{path} is not a database of jiyi (no SQLite header); name another file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignDatabase(f"{path} is a SQLite file of another program; name another file")


def make_file(path: Path) -> None:
    """Make a file that only its owner may read, where there is none; SQLite's own beside it have its mode.

    Raises:
        StorageError: it cannot be made; `DiskFull` where there is no room.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(f"no space left for {path}; free some space and try again") from error
        raise DatabaseReadOnly(
            f"{path} cannot be made ({error.strerror}); mend the permissions of its folder"
        ) from error


class OpenFile:
    """A file that is open here: notices where another one, or none, has its name by now.

    Its log and the memory that readers share count as well. Content that was copied over it is
    noticed where it is older than what was here when it was looked at last: SQLite counts in the
    first page what it writes there. It is ``spoilt`` then: its log belongs to what is gone.
    """

    def __init__(self, path: Path) -> None:
        """Remember what is there."""
        self._path = path
        self._names = [os.path.abspath(f"{path}{end}") for end in ("", *_BESIDE)]
        self._known = [_identity(name)[0] for name in self._names]
        self._changed_at, self._counter = 0, 0
        self.spoilt = False
        self._looking = threading.Lock()
        self.check()

    def give_up(self) -> None:
        """Have it refused in this process from now on."""
        _given_up.add(self._known[0])

    def check(self, *, written: bool = False) -> None:
        """Look whether all is as it was; takes some ten microseconds.

        Args:
            written: look at the file alone, and say that the last change is in the one that was open.

        Raises:
            DatabaseMoved: it is not.
        """
        with self._looking:
            found, changed_at = _identity(self._names[0])
            if found != self._known[0]:
                what = "was moved or deleted" if found is None else "is another file by now"
                raise self._moved(f"{what}; put back the one that was open, or open this one again", written)
            if changed_at != self._changed_at and self._looked_inside():
                self._changed_at = changed_at
            if self.spoilt:
                raise self._moved(
                    "had an older file copied over it; close all that have it open, remove those named "
                    "like it with -wal and -shm, and copy it again",
                    written,
                )
            for name, known in zip(self._names[1:], self._known[1:], strict=True):
                if not written and _identity(name)[0] != known:
                    raise self._moved(
                        f"lost {name}; close it, which keeps what was saved, and open it again", written
                    )

    def _looked_inside(self) -> bool:
        """Compare the counter of changes, which only grows; say whether it could be read."""
        try:
            header = _header(Path(self._names[0]))
        except (OSError, apsw.Error):
            return False
        counter = int.from_bytes(header[24:28], "big") if header.startswith(_MAGIC) else -1
        self.spoilt = self.spoilt or counter < self._counter
        self._counter = max(counter, self._counter)
        return True

    def _moved(self, what: str, written: bool) -> DatabaseMoved:
        done = "the last change is in the one that was open" if written else "nothing was written"
        return DatabaseMoved(f"{self._path} {what}; {done}")


def _identity(name: str) -> tuple[_Identity, int]:
    """Return what tells a file from others, and when it was last written to."""
    try:
        found = os.stat(name)
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_mtime_ns


def _header(path: Path) -> bytes:
    """Return the first bytes of a file, by way of SQLite.

    Where this process has the file open as a database, closing it in another way would drop all
    its locks on it.
    """
    found = os.stat(path)
    if S_ISDIR(found.st_mode):
        raise IsADirectoryError(path)
    if not S_ISREG(found.st_mode):
        raise OSError("no regular file")
    if not os.access(path, os.R_OK):
        raise PermissionError(path)
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    with quiet:
        file = apsw.VFSFile("", os.path.abspath(path), [flags, 0])
        try:
            # Zeros at the end of a short file are taken for what is not there.
            return file.xRead(_HEADER, 0).ljust(min(found.st_size, _HEADER), b"\0")
        finally:
            file.xClose()
