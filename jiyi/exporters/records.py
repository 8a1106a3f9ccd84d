"""What other programs can take of a memory, read part by part."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiyi.manager import MemoryManager
from jiyi.records import Fact, FactStatus, Item, Knowledge

__all__ = ["Exported", "Known", "known"]

Known = Fact | Knowledge | Item
"""What a memory knows."""

_PART = 1_000
_HOLDING: Sequence[FactStatus] = ("active", "unsure")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written for another program."""

    path: Path  # the file
    counts: Mapping[str, int]  # records that were read, by kind
    bytes: int  # size of the file
    left_out: Mapping[str, int] = field(default_factory=dict)  # of them not written, by reason


def known(
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
