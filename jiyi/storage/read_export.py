"""The lines of an export to records, and what is wrong with the others."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jiyi.errors import ImportFailed
from jiyi.records import Kind, Record
from jiyi.storage.export import FORMAT
from jiyi.storage.interchange import Rejected
from jiyi.storage.plain import EXPORTED, from_plain

__all__ = ["FoundRecord", "is_export", "read_export"]

_MARK = "jiyi_export"
_LONGEST_HEADER = 65_536
_NOT_JSON = (ValueError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """A record, and where it stands."""

    where: str  # file and line
    record: Record


def is_export(path: Path) -> bool:
    """Say whether a file begins as an export does, of whatever version.

    Raises:
        ImportFailed: the file cannot be read.
    """
    return _header(path) is not None


def read_export(path: Path, user_id: str) -> Iterator[FoundRecord | Rejected]:
    """Yield the records of an export as those of a user, and what is wrong with the other lines.

    In the end it is told where there are fewer lines of a kind than the header says: the file
    was cut off, or changed.

    Raises:
        ImportFailed: the file cannot be read, is no export, or was written by a newer jiyi.
    """
    header = _header(path)
    if header is None:
        raise ImportFailed(f"{path} is no export of jiyi: its first line lacks {_MARK!r}")
    version = header[_MARK]
    if type(version) is not int or version > FORMAT:
        raise ImportFailed(
            f"{path} is an export of version {str(version)[:20]}, this jiyi knows {FORMAT}; "
            "upgrade with: pip install --upgrade jiyi"
        )
    seen: dict[str, int] = dict.fromkeys(EXPORTED, 0)
    with path.open("rb") as file:
        next(file)
        for number, raw in enumerate(file, 2):
            if not raw.strip():
                continue
            where = f"{path.name}:{number}"
            try:
                value = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
                if isinstance(value, Mapping) and value.get("kind") in EXPORTED:
                    seen[value["kind"]] += 1
                record = from_plain(value, user_id)
            except UnicodeDecodeError as error:
                yield Rejected(where=where, reason=f"not UTF-8 (byte {error.start} of the line)")
            except json.JSONDecodeError as error:
                yield Rejected.because(where, f"not JSON: {error}")
            except (*_NOT_JSON, TypeError) as error:
                yield Rejected.because(where, error)
            else:
                yield FoundRecord(where=where, record=record)
    yield from _missing(path.name, header.get("counts"), seen)


def _header(path: Path) -> Mapping[str, Any] | None:
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_HEADER)
    except OSError as error:
        raise ImportFailed(f"{path} cannot be read: {error.strerror}") from error
    try:
        header = json.loads(first.decode("utf-8-sig"))
    except _NOT_JSON:
        return None
    return header if isinstance(header, Mapping) and _MARK in header else None


def _missing(name: str, promised: object, seen: Mapping[str, int]) -> Iterator[Rejected]:
    if not isinstance(promised, Mapping):
        yield Rejected(where=f"{name}:1", reason="the header does not say how many records there are")
        return
    kinds: list[Kind] = list(EXPORTED)
    short = [kind for kind in kinds if seen[kind] != promised.get(kind, 0)]
    if short:
        told = ", ".join(f"{promised.get(kind, 0)} of kind {kind}, found {seen[kind]}" for kind in short)
        yield Rejected.because(f"{name}:1", f"the header says {told}: the file was cut off or changed")


def _refuse(constant: str) -> object:
    raise ValueError(f"not JSON: {constant}")
