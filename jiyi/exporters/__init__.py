"""Export facts, knowledge and items into files of other programs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiyi.exporters.formats import KnownRecord, write_langgraph, write_mem0
from jiyi.manager import MemoryManager
from jiyi.records import FactStatus

__all__ = ["WRITERS", "Exported", "export_for"]

_PAGE_SIZE = 1_000
_VALID_STATUSES: Sequence[FactStatus] = ("active", "unsure")

_Writer = Callable[[Path, Iterator[KnownRecord], "Counter[str]"], None]

WRITERS: Mapping[str, _Writer] = {"langgraph": write_langgraph, "mem0": write_mem0}
"""Writers by the name of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The receipt of an export for another program."""

    path: Path  # the file
    counts: Mapping[str, int]  # records read, by kind
    bytes: int  # size of the file
    left_out: Mapping[str, int] = field(default_factory=dict)  # records not written, by reason


def export_for(
    program: str,
    memory: MemoryManager,
    file: Path | str,
    *,
    user_id: str | None = None,
    progress: Callable[[int], object] = int,
) -> Exported:
    """Write the valid facts, knowledge and items of a user into a file for another program.

    Conversations, tasks and episodes are left out; `MemoryManager.export` writes everything. The file is
    complete or not written at all.

    Args:
        program: a name of `WRITERS`.
        memory: open on a database or a server.
        file: replaced if it exists, unless it is a database.
        user_id: the user, if ``memory`` was not opened for one.
        progress: called with the number of records read so far.

    Raises:
        InputError: the file is a database or a device.
        StorageError: the file or the memory cannot be used.
    """
    counts, left_out, path = Counter[str](), Counter[str](), Path(file)
    WRITERS[program](path, _iter_records(memory, user_id, counts, progress), left_out)
    return Exported(path=path, counts=dict(counts), bytes=path.stat().st_size, left_out=dict(left_out))


def _iter_records(
    memory: MemoryManager, user_id: str | None, counts: "Counter[str]", progress: Callable[[int], object]
) -> Iterator[KnownRecord]:
    """Yield valid facts, knowledge and items, counting them by kind."""
    list_functions: Mapping[str, Callable[..., Any]] = {
        "fact": lambda **part: memory.facts(status=_VALID_STATUSES, **part),
        "knowledge": memory.knowledge,
        "item": memory.items,
    }
    for kind, list_page in list_functions.items():
        cursor: str | None = ""
        while cursor is not None:
            page = list_page(limit=_PAGE_SIZE, after=cursor or None, user_id=user_id)
            counts[kind] += len(page)
            progress(sum(counts.values()))
            yield from page
            cursor = page.next
