"""The database file in the file system: whether it is jiyi's, its mode, and whether it was replaced."""

import errno
import os
import threading
from pathlib import Path
from stat import S_ISDIR, S_ISREG

import apsw

from jiyi.errors import DatabaseMoved, DatabaseReadOnly, DiskFull, ForeignDatabase, StorageError
from jiyi.forks import quiet

APPLICATION_ID = 0x6A697969  # "jiyi" in ASCII
_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_COMPANIONS = ("-wal", "-shm")
DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))

_Identity = tuple[int, int] | None

_refused: set[_Identity] = set()  # files that this process cannot use


def is_database(path: Path) -> bool:
    """Return whether a path is a SQLite file or a companion of one."""
    main = path.with_name(path.name[:-4]) if path.name.endswith(_COMPANIONS) else path
    try:
        return _header(main).startswith(_MAGIC)
    except (OSError, ValueError, apsw.Error):
        return False


def refuse_foreign(path: Path) -> None:
    """Refuse an existing file that is not jiyi's, reading only its first bytes.

    Raises `ForeignDatabase` for another program's file, `StorageError` for a folder, a device or what
    cannot be opened.
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
        raise StorageError(f"{path} is a folder; name a file in it, such as {path / 'agent.db'}") from error
    except (OSError, ValueError, apsw.Error) as error:
        raise StorageError(f"{path} cannot be opened ({error}); name another file") from error
    if _identity(str(path))[0] in _refused:
        problem = f"{path}: this process was forked while it was written to or read, and cannot use it"
        raise StorageError(f"{problem}; fork outside of calls, or start it by spawning")
    if not header:
        return
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise ForeignDatabase(f"{path} is not a database of jiyi (no SQLite header); name another file")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ForeignDatabase(f"{path} is a SQLite file of another program; name another file")


def make_file(path: Path) -> None:
    """Create a file that only its owner may read, unless it exists; SQLite's companions get its mode.

    Raises `StorageError` if it cannot be created, `DiskFull` if there is no space.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno in DISK_FULL:
            raise DiskFull(f"no space left for {path}; free some space and try again") from error
        problem = f"{path} cannot be made ({error.strerror})"
        raise DatabaseReadOnly(f"{problem}; mend the permissions of its folder") from error


class OpenFile:
    """An open file, which notices if it was moved, deleted or replaced.

    The same holds for its log and shared memory. Content copied over it is noticed if it is older
    than at the last check, by SQLite's change counter in the first page. It is ``overwritten`` then:
    its log belongs to the old content.
    """

    def __init__(self, path: Path) -> None:
        """Remember the identities of the files."""
        self._path = path
        self._names = [os.path.abspath(f"{path}{end}") for end in ("", *_COMPANIONS)]
        self._known = [_identity(name)[0] for name in self._names]
        self._changed_at, self._counter = 0, 0
        self.overwritten = False
        self._check_lock = threading.Lock()
        self.check()

    def refuse_in_process(self) -> None:
        """Refuse to open the file in this process from now on."""
        _refused.add(self._known[0])

    def check(self, *, written: bool = False) -> None:
        """Raise `DatabaseMoved` if the files are not the same; takes about ten microseconds.

        After a commit (``written``) only the file itself is checked, and the error says where the
        last change is.
        """
        with self._check_lock:
            problem = self._find_problem(written)
        if problem:
            done = "the last change is in the one that was open" if written else "nothing was written"
            raise DatabaseMoved(f"{self._path} {problem}; {done}")

    def _find_problem(self, written: bool) -> str | None:
        found, changed_at = _identity(self._names[0])
        if found != self._known[0]:
            what = "was moved or deleted" if found is None else "is another file by now"
            return f"{what}; put back the one that was open, or open this one again"
        if changed_at != self._changed_at and self._read_change_counter():
            self._changed_at = changed_at
        if self.overwritten:
            advice = "close all that have it open, remove those named like it with -wal and -shm"
            return f"had an older file copied over it; {advice}, and copy it again"
        for name, known in zip(self._names[1:], self._known[1:], strict=True):
            if not written and _identity(name)[0] != known:
                return f"lost {name}; close it, which keeps what was saved, and open it again"
        return None

    def _read_change_counter(self) -> bool:
        """Compare the change counter, which only grows; return whether it could be read."""
        try:
            header = _header(Path(self._names[0]))
        except (OSError, apsw.Error):
            return False
        counter = int.from_bytes(header[24:28], "big") if header.startswith(_MAGIC) else -1
        self.overwritten = self.overwritten or counter < self._counter
        self._counter = max(counter, self._counter)
        return True


def _identity(name: str) -> tuple[_Identity, int]:
    """Return device and inode of a file, None if it does not exist, and when it was last written to."""
    try:
        found = os.stat(name)
    except OSError:
        return None, 0
    return (found.st_dev, found.st_ino), found.st_mtime_ns


def _header(path: Path) -> bytes:
    """Return the first bytes of a file, read through SQLite.

    Closing any other handle would drop this process's locks if it has the file open as a database.
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
            # Trailing zeros of a short file are missing from the result.
            return file.xRead(_HEADER, 0).ljust(min(found.st_size, _HEADER), b"\0")
        finally:
            file.xClose()
