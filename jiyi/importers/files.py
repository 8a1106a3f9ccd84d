"""Files of a folder or a zip, or a single file: opened one by one, within limits, never unpacked."""

import json
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, TextIO

from jiyi.errors import ImportFailed, InputError
from jiyi.importers.entries import Entry
from jiyi.storage.transfer.files import NOT_JSON, Rejected, unreadable

READ_ERRORS = (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)
"""Errors of reading a file, or a damaged or locked zip."""

_MAX_FILES = 100_000
_MAX_BYTES = 64 << 30  # of a whole zip, unpacked; it is read in chunks
_MAX_RATIO = 200  # unpacked to packed; exports have 5 to 30
_UNCHECKED_BYTES = 10 << 20  # smaller members may have any ratio
_MAX_VALUE_CHARS = 64 << 20  # of one value, such as a conversation
_CHUNK_CHARS = 1 << 16
_BLANKS, _BLANKS_AND_COMMAS = re.compile(r"\s*"), re.compile(r"[\s,]*")
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
    """Yield the files of a folder or zip, or the single file; ImportFailed: it cannot be read."""
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
        if why := _refusal_reason(info) or ("is in the zip twice" if info.filename in good else None):
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

    Only one is in memory at a time. A broken one of JSON lines is a `Rejected`, and so is the rest of a list.
    """
    with files.open(name) as raw, TextIOWrapper(raw, encoding="utf-8-sig") as file:
        count, where = 0, name
        try:
            for value in _read_values(file):
                where = f"{name} [{count}]"
                is_broken = isinstance(value, json.JSONDecodeError)
                yield where, Rejected(where=where, reason=f"not JSON: {value.msg}") if is_broken else value
                count += 1
        except UnicodeDecodeError as error:
            if not count:
                raise ImportFailed(f"{name} is not UTF-8 (byte {error.start}); convert it first") from error
            yield where, Rejected(where=where, reason="not UTF-8 after this entry; the rest is not read")
        except (*NOT_JSON, *READ_ERRORS) as error:
            where = f"{name} [{count}]"
            reason = getattr(error, "msg", str(error))[:200].removesuffix(" starting at")
            yield where, Rejected(where=where, reason=f"cut off or broken from here on: {reason}")


def _read_values(file: TextIO) -> Iterator[Any]:
    """Yield the elements of a JSON array, or the values of a file: for a broken line its error."""
    decode, separators = json.JSONDecoder().raw_decode, _BLANKS
    text, at, ended = "", 0, False
    is_array: bool | None = None  # not known before the first character
    while True:
        at = separators.match(text, at).end()  # type: ignore[union-attr]
        if at < len(text) or ended:
            if is_array is None and (is_array := text.startswith("[", at)):
                at, separators = at + 1, _BLANKS_AND_COMMAS
                continue
            if at == len(text) and is_array:
                raise ValueError("the list has no end")
            if at == len(text) or (is_array and text[at] == "]"):
                return
            try:
                value, end = decode(text, at)
            except json.JSONDecodeError as error:
                is_incomplete = error.msg.startswith("Unterminated") or error.pos >= len(text) - _END_CHARS
                if ended or not is_incomplete:
                    if not is_array and (line := text.find("\n{", at)) >= 0:
                        yield error
                        at = line
                        continue
                    if ended or is_array:
                        raise
            else:
                if ended or end < len(text) or isinstance(value, dict | list | str):
                    yield value
                    at = end
                    continue
            if len(text) - at > _MAX_VALUE_CHARS:
                raise ValueError(f"one entry has more than {_MAX_VALUE_CHARS >> 20} million characters")
        chunk = file.read(max(_CHUNK_CHARS, len(text) - at))
        text, at, ended = text[at:] + chunk, 0, not chunk


def read_each(
    files: Files, names: Iterable[str], parse: Callable[[str, Any], Iterator[Entry]]
) -> Iterator[Entry]:
    """Yield what ``parse`` makes of the place and value of each JSON value in some of the files.

    Values that cannot be read, or that ``parse`` refuses with `InputError`, are rejected.
    """
    for name in names:
        for where, value in iter_json_values(files, name):
            try:
                yield from [value] if isinstance(value, Rejected) else parse(where, value)
            except InputError as error:
                yield Rejected.because(where, error)
