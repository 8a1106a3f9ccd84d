"""Writing what a memory knows for other programs: facts, knowledge and items; a file each."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiyi.exporters.langgraph import write_langgraph
from jiyi.exporters.mem0 import Known, write_mem0
from jiyi.manager import MemoryManager
from jiyi.records import FactStatus

__all__ = ["WRITERS", "Exported", "export_for"]

_PART = 1_000
_HOLDING: Sequence[FactStatus] = ("active", "unsure")

_Writer = Callable[[Path, Iterator[Known], "Counter[str]"], None]

WRITERS: Mapping[str, _Writer] = {"langgraph": write_langgraph, "mem0": write_mem0}
"""What can be written for, by the program's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written for another program."""

    path: Path  # the file
    counts: Mapping[str, int]  # records that were read, by kind
    bytes: int  # size of the file
    left_out: Mapping[str, int] = field(default_factory=dict)  # of them not written, by reason


def export_for(
    program: str,
    memory: MemoryManager,
    file: Path,
    *,
    user_id: str | None = None,
    progress: Callable[[int], object] = int,
) -> Exported:
    """Write a user's facts that hold, knowledge and items into a file for another program.

    Conversations, tasks and episodes have no place there; `MemoryManager.export` writes everything.
    The file is whole or not there.

    Args:
        program: a name of `WRITERS`.
        memory: open on a database or a server.
        file: is replaced where it is there, unless it is a database.
        user_id: whose, where ``memory`` was not opened for one.
        progress: is told the number of records read so far.

    Raises:
        InputError: the file is a database or a device.
        StorageError: the file or the memory cannot be used.
    """
    counts: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    WRITERS[program](file, _known(memory, user_id, counts, progress), left_out)
    return Exported(path=file, counts=dict(counts), bytes=file.stat().st_size, left_out=dict(left_out))


def _known(
    memory: MemoryManager, user_id: str | None, counts: "Counter[str]", progress: Callable[[int], object]
) -> Iterator[Known]:
    """Give facts that hold, knowledge and items, counting them by kind."""
    lists: Mapping[str, Callable[..., Any]] = {
        "fact": lambda **part: memory.facts(status=_HOLDING, **part),
        "knowledge": memory.knowledge,
        "item": memory.items,
    }
    for kind, listed in lists.items():
        after: str | None = None
        while True:
            found = listed(limit=_PART, after=after, user_id=user_id)
            counts[kind] += len(found)
            progress(sum(counts.values()))
            yield from found
            after = found.next
            if after is None:
                break
