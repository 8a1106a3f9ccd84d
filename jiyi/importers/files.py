"""Files of a folder or a zip, or a single file: opened one by one, within limits, never unpacked."""

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

__all__ = ["READ_ERRORS", "Files", "iter_json_values", "open_files"]

READ_ERRORS = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""Errors of reading a file, or a damaged or locked zip."""

_MAX_FILES = 100_000
_MAX_BYTES = 64 << 30  # of a whole zip, unpacked; it is read in chunks
_MAX_RATIO = 200  # unpacked to packed; exports have 5 to 30
_UNCHECKED_BYTES = 10 << 20  # smaller members may have any ratio
_MAX_VALUE_CHARS = 64 << 20  # of one value, such as a conversation
_CHUNK_CHARS = 1 << 16
_BLANK = re.compile(r"\s*")
_END_CHARS = 12  # an error this near to the end of the text may be an incomplete value


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files by name; folders in names end with ``/``."""

    root: Path
    names: tuple[str, ...]
    open: Callable[[str], IO[bytes]]
    rejected: list[Rejected] = field(default_factory=list)  # members that are not read

    def matching(self, pattern: str) -> list[str]:
        """Return the files whose last part matches a pattern such as ``conversations*.json``, sorted."""
        return sorted(name for name in self.names if PurePosixPath(name).match(pattern))


@contextmanager
def open_files(path: Path) -> Iterator[Files]:
    """Yield the files of a folder or zip, or the single file.

    Raises:
        ImportFailed: it cannot be read, or is a zip beyond the limits.
    """
    try:
        if path.is_dir():
            paths = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
            names = tuple(file.relative_to(path).as_posix() for file in islice(paths, _MAX_FILES))
            yield Files(root=path, names=names, open=lambda name: (path / name).open("rb"))
        elif _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                yield _zip_files(path, archive)
        else:
            yield Files(root=path, names=(path.name,), open=lambda _: path.open("rb"))
    except OSError as error:
        raise unreadable(path, error) from error
    except READ_ERRORS as error:
        raise ImportFailed(f"{path} is a damaged zip: {error}; download it again") from error


def _is_zip(path: Path) -> bool:
    """Return whether a file is a zip, even if it is cut off."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\3\4" or zipfile.is_zipfile(path)


def _zip_files(path: Path, archive: zipfile.ZipFile) -> Files:
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > _MAX_FILES or sum(info.file_size for info in infos) > _MAX_BYTES:
        raise ImportFailed(f"{path} unpacks to more than {_MAX_BYTES >> 30} GiB or {_MAX_FILES:,} files")
    good, rejected = dict[str, zipfile.ZipInfo](), list[Rejected]()
    for info in infos:
        why = _refusal_reason(info) or ("is in the zip twice" if info.filename in good else None)
        if why:
            rejected.append(Rejected.because(f"{path.name}/{info.filename[:100]}", why))
        else:
            good[info.filename] = info
    return Files(root=path, names=tuple(good), open=lambda name: archive.open(good[name]), rejected=rejected)


def _refusal_reason(info: zipfile.ZipInfo) -> str | None:
    """Return why a member of a zip is not read, None if it is."""
    parts = PurePosixPath(info.filename.replace("\\", "/")).parts
    if ".." in parts or info.filename[:1] in "/\\" or info.filename[1:2] == ":":
        return "its name leads out of the zip"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & 1:
        return "is encrypted; unpack it first"
    if info.file_size > max(_UNCHECKED_BYTES, _MAX_RATIO * info.compress_size):
        return f"unpacks to more than {_MAX_RATIO} times its size"
    return None


def iter_json_values(files: Files, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each element of a JSON array, or of each value in a file.

    Only one is in memory at a time. If the file is cut off or broken, the last is a `Rejected`.

    Raises:
        ImportFailed: the file is not UTF-8 from the beginning.
    """
    with files.open(name) as raw:
        stream = _JsonStream(raw)
        count, where = 0, name
        try:
            is_array = stream.skip_mark("[")
            while stream.seek_value(is_array):
                where = f"{name} [{count}]"
                yield where, stream.read_value()
                count += 1
        except UnicodeDecodeError as error:
            if not count:
                raise ImportFailed(f"{name} is not UTF-8 (byte {error.start}); convert it first") from error
            yield where, Rejected(where=where, reason="not UTF-8 after this entry; the rest is not read")
        except (*NOT_JSON, *READ_ERRORS) as error:
            where = f"{name} [{count}]"
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:200]
            yield where, Rejected(where=where, reason=f"cut off or broken from here on: {reason}")


class _JsonStream:
    """Reads JSON values from a file in chunks."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._file = TextIOWrapper(raw, encoding="utf-8-sig")
        self._text, self._at = "", 0
        self._ended = False
        self._decode = json.JSONDecoder().raw_decode

    def skip_mark(self, mark: str) -> bool:
        """Skip a character if it is the next one, and return whether it was."""
        self._skip("")
        matches = self._text[self._at : self._at + 1] == mark
        self._at += matches
        return matches

    def seek_value(self, in_array: bool) -> bool:
        """Move to the next value, and return whether there is one."""
        self._skip("," if in_array else "")
        if in_array and self._at == len(self._text):
            raise ValueError("the list has no end")
        return self._at < len(self._text) and not (in_array and self._text[self._at] == "]")

    def read_value(self) -> Any:
        """Read the value that begins here."""
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                incomplete = error.msg.startswith("Unterminated") or error.pos >= len(self._text) - _END_CHARS
                if self._ended or not incomplete:
                    raise
            else:
                if self._ended or end < len(self._text) or isinstance(value, dict | list | str):
                    self._at = end
                    return value
            if len(self._text) - self._at > _MAX_VALUE_CHARS:
                raise ValueError(f"one entry has more than {_MAX_VALUE_CHARS >> 20} million characters")
            self._read_more(len(self._text) - self._at)

    def _skip(self, marks: str) -> None:
        while True:
            self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr]
            while marks and self._text.startswith(marks, self._at):
                self._at = _BLANK.match(self._text, self._at + 1).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return
            self._read_more(0)

    def _read_more(self, size: int) -> None:
        chunk = self._file.read(max(_CHUNK_CHARS, size))
        self._ended = not chunk
        self._text, self._at = self._text[self._at :] + chunk, 0
