"""Packing: which blocks go in when not all fit."""

from collections.abc import Sequence

from jiyi.records import Block

__all__ = ["pack"]


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
