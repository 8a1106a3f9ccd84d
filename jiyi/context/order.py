"""Order: the best blocks stand at the edges."""

from collections.abc import Sequence

from jiyi.records import Block

__all__ = ["edges"]


def edges(blocks: Sequence[Block]) -> list[Block]:
    """Order blocks so that the best is first, the second best last, and the least in the middle.

    Models use the middle of a long context least: Liu et al., "Lost in the Middle", TACL 2024.
    """
    ranked = sorted(blocks, key=lambda b: -b.score)
    return [*ranked[::2], *reversed(ranked[1::2])]
