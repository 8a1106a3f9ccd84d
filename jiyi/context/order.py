"""Order: the best blocks stand at the edges, and what was said together stands together."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from jiyi.records import Block

__all__ = ["edges", "joined"]


def edges(blocks: Sequence[Block]) -> list[Block]:
    """Order blocks so that the best is first, the second best last, and the least in the middle.

    Blocks of one thread whose places follow on each other are one passage: it counts with
    its best block, and is shown in the order it was said, an answer behind its question.

    Models use the middle of a long context least: Liu et al., "Lost in the Middle", TACL 2024.
    """
    ranked = sorted(_passages(blocks), key=lambda some: -max(block.score for block in some))
    ordered = [*ranked[::2], *reversed(ranked[1::2])]
    return [block for some in ordered for block in some]


def joined(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks in their order, each that stands right behind the one before it in its thread in short.

    Its text is then ``follows``; its tokens stay those of the whole text.
    """
    out = list(blocks[:1])
    for before, block in pairwise(blocks):
        short = block.follows and before.thread == block.thread and block.place == before.place + 1
        out.append(replace(block, text=block.follows) if short else block)
    return out


def _passages(blocks: Sequence[Block]) -> list[list[Block]]:
    passages: list[list[Block]] = []
    for block in sorted(blocks, key=lambda block: (block.thread, block.place)):
        before = passages[-1][-1] if passages else None
        if before and block.thread and before.thread == block.thread and block.place == before.place + 1:
            passages[-1].append(block)
        else:
            passages.append([block])
    return passages
