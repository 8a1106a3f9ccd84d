"""The results of reading a file: records and rejected entries with their places; and reading JSON lines."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiyi.errors import ImportFailed
from jiyi.records import Kind, Record
from jiyi.storage.transfer.files import open_to_read
from jiyi.text import first_words

__all__ = ["NOT_JSON", "Found", "ImportReceipt", "Rejected", "json_lines"]

NOT_JSON = (ValueError, RecursionError)
"""What `json.loads` raises for bad syntax, very long numbers, or deep nesting."""

_MAX_LINE_BYTES = 64 * 1024 * 1024
_MAX_REASON = 500  # characters; a reason may quote a value of any length


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
