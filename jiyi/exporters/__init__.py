"""Writing what a memory knows for other programs: facts, knowledge and items; a file each."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from jiyi.exporters.langgraph import write_langgraph
from jiyi.exporters.mem0 import write_mem0
from jiyi.exporters.records import Exported, Known, known
from jiyi.manager import MemoryManager

__all__ = ["WRITERS", "Exported", "export_for"]

_Writer = Callable[[Path, Iterator[Known], "Counter[str]"], None]

WRITERS: Mapping[str, _Writer] = {"langgraph": write_langgraph, "mem0": write_mem0}
"""What can be written for, by the program's name."""


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
    WRITERS[program](file, known(memory, user_id, counts, progress), left_out)
    return Exported(path=file, counts=dict(counts), bytes=file.stat().st_size, left_out=dict(left_out))
