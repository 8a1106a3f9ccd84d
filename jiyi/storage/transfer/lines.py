"""What a reader of files gives: records and rejected entries, each with its place. And lines of JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiyi.errors import ImportFailed
from jiyi.records import Kind, Record
from jiyi.storage.transfer.files import open_to_read

__all__ = ["NOT_JSON", "Found", "ImportReceipt", "Rejected", "json_lines"]

NOT_JSON = (ValueError, RecursionError)
"""What `json.loads` raises: bad syntax, endless digits, or thousands of brackets."""

_LONGEST = 64 * 1024 * 1024  # bytes of a line
_REASON = 500  # characters of a reason: it may quote a value of any length


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record, and where it stands."""

    where: str  # file and line, or file and place in the JSON
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A line or entry that cannot be a record."""

    where: str  # file and line, or file and place in the JSON
    reason: str

    @classmethod
    def because(cls, where: str, reason: object) -> "Rejected":
        """Return it with a reason of a readable length."""
        words = str(reason)
        return cls(where=where, reason=words if len(words) <= _REASON else words[: _REASON - 1] + "…")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReceipt:
    """What an import did."""

    added: int  # records that are new
    known: int  # records that were there already
    rejected: tuple[Rejected, ...]  # what could not go in, and why
    counts: Mapping[Kind, int] = field(default_factory=dict)  # what is new, by kind
    left_out: Mapping[str, int] = field(default_factory=dict)  # what is no memory, such as hidden messages


def json_lines(path: Path, *, strict: bool = False) -> Iterator[tuple[str, Any]]:
    """Give the value of each line that is not blank and where it stands; `Rejected` where it is no JSON.

    ``strict`` rejects NaN and infinities, which Python reads but JSON does not have.

    Raises:
        ImportFailed: the file cannot be read, or a line is longer than 64 MiB.
    """
    options: Mapping[str, Any] = {"parse_constant": _refuse} if strict else {}
    with open_to_read(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(_LONGEST + 1), b""), 1):
            where = f"{path.name}:{number}"
            if len(raw) > _LONGEST:
                raise ImportFailed(f"{where} is longer than 64 MiB, which no record is; mend the file")
            if not raw.strip():
                continue
            try:
                yield where, json.loads(raw.decode("utf-8-sig"), **options)
            except UnicodeDecodeError as error:
                yield where, Rejected(where=where, reason=f"not UTF-8 (byte {error.start} of the line)")
            except NOT_JSON as error:
                yield where, Rejected.because(where, f"not JSON: {error}")


def _refuse(constant: str) -> object:
    raise ValueError(constant)
