"""Order: the best blocks at the edges; what was said in the order of time, in passages."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from jiyi.records import Block

__all__ = ["edges", "passages", "together"]

_PAUSE = timedelta(hours=1)  # what is said so long after the message before it begins a passage
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def edges(blocks: Sequence[Block]) -> list[Block]:
    """Order blocks so that the best is first, the second best last, and the least in the middle.

    Models use the middle of a long context least: Liu et al., "Lost in the Middle", TACL 2024.
    """
    ranked = sorted(blocks, key=lambda block: -block.score)
    return [*ranked[::2], *reversed(ranked[1::2])]


def passages(blocks: Sequence[Block]) -> list[list[Block]]:
    """Return blocks as passages, oldest first: what was said in one session without an hour's pause.

    Inside a passage blocks stand in the order they were said; some in between may be missing. A
    block without a thread is a passage of its own.
    """
    found: list[list[Block]] = []
    for block in sorted(blocks, key=lambda block: (block.thread, block.place, _moment(block))):
        before = found[-1][-1] if found else None
        if before and together(before, block):
            found[-1].append(block)
        else:
            found.append([block])
    return sorted(found, key=lambda some: _moment(some[0]))


def together(first: Block, second: Block) -> bool:
    """Say whether two blocks that follow on each other are of one passage."""
    same = bool(first.thread) and first.thread == second.thread
    return same and abs(_moment(second) - _moment(first)) < _PAUSE


def _moment(block: Block) -> datetime:
    return block.created_at or _EARLIEST
