"""What forgetting and restoring did: the values they return."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from jiyi.records import Kind, Record, Summary, Task

__all__ = ["ASKED", "ForgetReceipt", "Forgotten", "RestoreReceipt", "first_words", "listed"]

ASKED = "asked for"
"""Why the records went that were asked for."""

_LISTED = 1_000  # records a receipt names of each sort; the counts are whole
_SHOWN = 80  # characters of a record's words


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """One record that was taken out, or changed because others were."""

    kind: Kind
    id: str
    action: Literal["taken", "changed", "restored", "left"]
    why: str  # "asked for", or what it hung on
    text: str = ""  # its first words; "" after a purge


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What a forget or a purge did, or would do."""

    counts: Mapping[Kind, int]  # records taken out, by kind
    changed: Mapping[Kind, int]  # records that stayed without what rested on them, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 that were asked for, then the first 1,000 others
    reason: str  # as it was given
    at: datetime  # the moment all of it was taken out; `Forgetting.restore` takes it
    dry_run: bool = False  # nothing was changed
    erased: int = 0  # records a purge dropped for good, those that lay in the trash too

    @property
    def total(self) -> int:
        """How many records were taken out."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What a restore brought back."""

    counts: Mapping[Kind, int]  # records that are there again, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 of them, then the first 1,000 that stayed in the trash
    left: Mapping[Kind, int] = field(default_factory=dict)  # what stayed in the trash, by kind

    @property
    def total(self) -> int:
        """How many records are there again."""
        return sum(self.counts.values())


def listed(items: Iterable[Forgotten]) -> tuple[Forgotten, ...]:
    """Return as many items as a receipt names."""
    return tuple(item for item, _ in zip(items, range(_LISTED), strict=False))


def first_words(record: Record) -> str:
    """Return the beginning of a record's words, in one line."""
    words = getattr(record, "search_text", "")
    if isinstance(record, Task | Summary):
        words = record.request if isinstance(record, Task) else record.text
    line = " ".join(words[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
