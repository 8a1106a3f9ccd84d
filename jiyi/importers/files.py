"""Files of a folder, of a zip, or one alone: opened one by one, within limits, never unpacked."""

import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any

from jiyi.errors import ImportFailed
from jiyi.storage.transfer.files import unreadable
from jiyi.storage.transfer.lines import NOT_JSON, Rejected

__all__ = ["BROKEN", "Files", "opened_files", "values"]

BROKEN = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""What reading a file, or a damaged or locked zip, raises."""

_MOST_FILES = 100_000
_MOST_BYTES = 64 << 30  # of a whole zip, unpacked: they are read in pieces
_MOST_RATIO = 200  # unpacked to packed; exports have 5 to 30
_FREE_BYTES = 10 << 20  # no ratio is asked of smaller ones
_LARGEST = 64 << 20  # characters of one value, such as a conversation
_PIECE = 1 << 16
_BLANK = re.compile(r"\s*")
_NEAR = 12  # so near to the end of what was read, a mistake may be a value that goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files there are, by name with ``/``."""

    root: Path
    names: tuple[str, ...]
    open: Callable[[str], IO[bytes]]
    rejected: list[Rejected] = field(default_factory=list)  # members that are not read, and why

    def named(self, pattern: str) -> list[str]:
        """Return the files whose last part fits a pattern such as ``conversations*.json``, in order."""
        return sorted(name for name in self.names if PurePosixPath(name).match(pattern))


@contextmanager
def opened_files(path: Path) -> Iterator[Files]:
    """Give the files of a folder or zip, or the one there is.

    Raises:
        ImportFailed: it cannot be read, or is a zip that unpacks to more than anybody exports.
    """
    try:
        if path.is_dir():
            found = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
            names = tuple(file.relative_to(path).as_posix() for file in islice(found, _MOST_FILES))
            yield Files(root=path, names=names, open=lambda name: (path / name).open("rb"))
        elif _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                yield _members(path, archive)
        else:
            yield Files(root=path, names=(path.name,), open=lambda _: path.open("rb"))
    except OSError as error:
        raise unreadable(path, error) from error
    except BROKEN as error:
        raise ImportFailed(f"{path} is a damaged zip: {error}; download it again") from error


def _is_zip(path: Path) -> bool:
    """Say whether a file is a zip, also one that was cut off."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4" or zipfile.is_zipfile(path)


def _members(path: Path, archive: zipfile.ZipFile) -> Files:
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > _MOST_FILES or sum(info.file_size for info in infos) > _MOST_BYTES:
        raise ImportFailed(f"{path} unpacks to more than {_MOST_BYTES >> 30} GiB or {_MOST_FILES:,} files")
    good, rejected = dict[str, zipfile.ZipInfo](), list[Rejected]()
    for info in infos:
        why = _fault(info) or ("is in the zip twice" if info.filename in good else None)
        if why:
            rejected.append(Rejected.because(f"{path.name}/{info.filename[:100]}", why))
        else:
            good[info.filename] = info
    return Files(root=path, names=tuple(good), open=lambda name: archive.open(good[name]), rejected=rejected)


def _fault(info: zipfile.ZipInfo) -> str | None:
    """Say why a member of a zip is not read."""
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if ".." in parts or info.filename[:1] in "/\\" or info.filename[1:2] == ":":
        return "its name leads out of the zip"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & 1:
        return "is encrypted; unpack it first"
    if info.file_size > max(_FREE_BYTES, _MOST_RATIO * info.compress_size):
        return f"unpacks to more than {_MOST_RATIO} times its size"
    return None


def values(files: Files, name: str) -> Iterator[tuple[str, Any]]:
    """Give each element of a JSON array, or each of the values in a file, and where it stands.

    Only one is in memory at a time. Where the file is cut off or broken the last is a `Rejected`.

    Raises:
        ImportFailed: the file is not UTF-8 at its beginning.
    """
    with files.open(name) as raw:
        stream = _Stream(raw)
        count, where = 0, name
        try:
            is_array = stream.past("[")
            while stream.next_value(is_array):
                where = f"{name} [{count}]"
                yield where, stream.value()
                count += 1
        except UnicodeDecodeError as error:
            if not count:
                raise ImportFailed(f"{name} is not UTF-8 (byte {error.start}); convert it first") from error
            yield where, Rejected(where=where, reason="not UTF-8 after this entry; the rest is not read")
        except (*NOT_JSON, *BROKEN) as error:
            where = f"{name} [{count}]"
            told = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:200]
            yield where, Rejected(where=where, reason=f"cut off or broken from here on: {told}")


class _Stream:
    """Text read in pieces, and JSON values taken from it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._file = TextIOWrapper(raw, encoding="utf-8-sig")
        self._text, self._at = "", 0
        self._ended = False
        self._read = json.JSONDecoder().raw_decode

    def past(self, mark: str) -> bool:
        """Go past a character, if it is the next one."""
        self._skip("")
        found = self._text[self._at : self._at + 1] == mark
        self._at += found
        return found

    def next_value(self, in_array: bool) -> bool:
        """Go to the next value; return whether there is one."""
        self._skip("," if in_array else "")
        if in_array and self._at == len(self._text):
            raise ValueError("the list has no end")
        return self._at < len(self._text) and not (in_array and self._text[self._at] == "]")

    def value(self) -> Any:
        """Take the value that begins here."""
        while True:
            try:
                value, end = self._read(self._text, self._at)
            except json.JSONDecodeError as error:
                goes_on = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _NEAR
                if self._ended or not goes_on:
                    raise
            else:
                if self._ended or end < len(self._text) or isinstance(value, dict | list | str):
                    self._at = end
                    return value
            if len(self._text) - self._at > _LARGEST:
                raise ValueError(f"one entry has more than {_LARGEST >> 20} million characters")
            self._more(len(self._text) - self._at)

    def _skip(self, marks: str) -> None:
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
            while marks and self._text.startswith(marks, self._at):
                self._at = _BLANK.match(self._text, self._at + 1).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return
            self._more(0)

    def _more(self, size: int) -> None:
        piece = self._file.read(max(_PIECE, size))
        self._ended = not piece
        self._text, self._at = self._text[self._at :] + piece, 0
