"""What forgetting and restoring did: the values they return."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Literal

from jiyi.records import Kind, Record, Summary, Task
from jiyi.storage import Key, kind_of

__all__ = ["ASKED", "ForgetReceipt", "Forgotten", "RestoreReceipt", "counts_of", "forgotten", "listed"]

ASKED = "asked for"
"""Why the records went that were asked for."""

_LISTED = 1_000  # records a receipt names of each sort; the counts are whole
_SHOWN = 80  # characters of a record's words

_Action = Literal["taken", "changed", "restored", "left"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """One record that was taken out, or changed because others were."""

    kind: Kind
    id: str
    action: _Action
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
    damaged: int = 0  # damaged records of the scope or ids, dropped for good: nobody can bring them back
    overwritten: bool = False  # no byte of what a purge dropped is left in the file; never of a server

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


def forgotten(record: Record, action: _Action, why: str, *, words: bool = True) -> Forgotten:
    """Return what a receipt says of a record, with the beginning of its words in one line."""
    text = _first_words(record) if words else ""
    return Forgotten(kind=kind_of(record), id=record.id, action=action, why=why, text=text)


def listed(items: Iterable[Forgotten]) -> tuple[Forgotten, ...]:
    """Return as many items as a receipt names."""
    return tuple(islice(items, _LISTED))


def counts_of(keys: Iterable[Key]) -> Mapping[Kind, int]:
    """Return how many keys there are of each kind."""
    return dict(Counter(kind for kind, _ in keys))


def _first_words(record: Record) -> str:
    if isinstance(record, Task):
        words = record.request
    elif isinstance(record, Summary):
        words = record.text
    else:
        words = getattr(record, "search_text", "")
    line = " ".join(words[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
