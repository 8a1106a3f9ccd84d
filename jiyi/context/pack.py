"""Packing: which blocks go in when not all fit."""

from collections.abc import Callable, Sequence

from jiyi.records import Block

__all__ = ["Packer", "pack", "pack_exact"]

Packer = Callable[[Sequence[Block], int], tuple[list[Block], list[Block]]]
"""``packer(blocks, allowance) -> (taken, left)``.

What is taken together has at most ``allowance`` tokens, every block is in one of the two
lists, and no block of ``left`` would still fit beside what is taken.
"""

_MOST_CELLS = 4_000_000  # blocks times tokens that `pack_exact` looks at: 4 MB, 10 ms


def pack(blocks: Sequence[Block], allowance: int) -> tuple[list[Block], list[Block]]:
    """Take the best blocks that fit into ``allowance`` tokens; return (taken, left).

    Best score first, ties in the order given. A block that does not fit is passed over
    and smaller ones behind it are still tried. Both lists keep the order of taking.
    """
    taken: list[Block] = []
    left: list[Block] = []
    for block in sorted(blocks, key=lambda b: -b.score):
        if block.tokens <= allowance:
            allowance -= block.tokens
            taken.append(block)
        else:
            left.append(block)
    return taken, left


def pack_exact(blocks: Sequence[Block], allowance: int) -> tuple[list[Block], list[Block]]:
    """Take the blocks with the highest sum of scores that fit; return (taken, left), best first.

    For scores that add up, such as worths of one's own. Scores of recall do not: for these `pack`
    brings more of the answers into the window (docs/context.md).

    Solves the 0/1 knapsack problem by dynamic programming over tokens (Bellman, "Dynamic
    Programming", 1957). Blocks that score 0 or less add nothing to the sum; they fill what room
    is left, as `pack` does. Exact while the number of blocks times ``allowance`` is at most
    4 million, such as 400 blocks in 10,000 tokens; beyond that sizes are rounded up to units of
    several tokens: what is taken still fits, and may fall short of the best sum.
    """
    import numpy as np

    worth = [b for b in blocks if b.score > 0 and b.tokens <= allowance]
    rest = [b for b in blocks if not (b.score > 0 and b.tokens <= allowance)]
    if worth and sum(b.tokens for b in worth) > allowance:
        unit = max(1, -(-len(worth) * (allowance + 1) // _MOST_CELLS))
        room = allowance // unit
        sizes = [-(-b.tokens // unit) for b in worth]
        best = np.zeros(room + 1)
        better = np.zeros((len(worth), room + 1), np.bool_)
        for i, (block, size) in enumerate(zip(worth, sizes, strict=True)):
            if size > room:
                continue
            grown = best[: room + 1 - size] + block.score
            better[i, size:] = grown > best[size:]
            best[size:] = np.maximum(best[size:], grown)
        chosen: set[int] = set()
        for i in reversed(range(len(worth))):
            if better[i, room]:
                chosen.add(i)
                room -= sizes[i]
        rest += [b for i, b in enumerate(worth) if i not in chosen]
        worth = [b for i, b in enumerate(worth) if i in chosen]
    more, left = pack(rest, allowance - sum(b.tokens for b in worth))
    return sorted([*worth, *more], key=lambda b: -b.score), left
