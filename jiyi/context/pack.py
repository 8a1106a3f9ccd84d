"""Sharing out tokens: among sections, among blocks, among pieces of text."""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from jiyi.errors import InputError
from jiyi.records import Block, Section
from jiyi.short_term.policy import check_tokens
from jiyi.text import TokenCounter, counter_for

__all__ = ["Packer", "PriorityContext", "allot", "pack", "pack_exact"]

Packer = Callable[[Sequence[Block], int], tuple[list[Block], list[Block]]]
"""``packer(blocks, allowance) -> (taken, left)``.

What is taken together has at most ``allowance`` tokens, every block is in one of the two
lists, and no block of ``left`` would still fit together with what is taken.
"""

_MOST_CELLS = 4_000_000  # blocks times tokens that `pack_exact` looks at: 4 MB, 10 ms


def allot(
    available: int, demands: Mapping[Section, int], shares: Mapping[Section, float]
) -> dict[Section, int]:
    """Return how many tokens each section may use; together at most ``available``.

    A section gets at most what it asks for. What it leaves over goes to those
    that ask for more, in proportion to their shares. A section without a share gets what
    no other section asks for.
    """
    given: dict[Section, int] = dict.fromkeys(demands, 0)
    left = max(available, 0)
    while left > 0:
        hungry = {name: shares.get(name, 0.0) for name in demands if given[name] < demands[name]}
        if not hungry:
            break
        total = sum(hungry.values())
        if total == 0:
            hungry, total = dict.fromkeys(hungry, 1.0), float(len(hungry))
        before = left
        for name, share in hungry.items():
            more = min(int(before * share / total), demands[name] - given[name], left)
            given[name] += more
            left -= more
        if left == before:  # too little to divide: the largest share takes it
            name = max(hungry, key=lambda section: hungry[section])
            more = min(left, demands[name] - given[name])
            given[name] += more
            left -= more
    return given


def pack(blocks: Sequence[Block], allowance: int) -> tuple[list[Block], list[Block]]:
    """Take the best blocks that fit into ``allowance`` tokens; return (taken, left).

    Best score first, ties in the order given. A block that does not fit is skipped
    and smaller ones after it are still tried. Both lists keep the order of taking.
    """
    taken: list[Block] = []
    left: list[Block] = []
    for block in sorted(blocks, key=attrgetter("score"), reverse=True):
        if block.tokens <= allowance:
            allowance -= block.tokens
            taken.append(block)
        else:
            left.append(block)
    return taken, left


def pack_exact(blocks: Sequence[Block], allowance: int) -> tuple[list[Block], list[Block]]:
    """Take the blocks with the highest sum of scores that fit; return (taken, left), best first.

    For scores that add up, such as values of your own. Recall scores do not: for these `pack`
    brings more of the answers into the window (docs/context.md).

    Solves the 0/1 knapsack problem by dynamic programming over tokens (Bellman, "Dynamic
    Programming", 1957). Blocks that score 0 or less add nothing to the sum; they fill the room
    that is left, as in `pack`. Exact while the number of blocks times ``allowance`` is at most
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


class PriorityContext:
    """Collects pieces of text, each with a priority, and returns the best that fit.

    For a prompt of your own; `build_window` does the same for a whole
    window. Pieces go in whole, highest priority first, of equals the first added; one that
    does not fit is skipped and smaller ones after it are still tried.
    """

    def __init__(
        self, max_tokens: int, *, counter: TokenCounter | None = None, packer: Packer = pack
    ) -> None:
        """Start empty.

        Args:
            max_tokens: what the best may take together.
            counter: counts the tokens of a piece that comes without a number.
            packer: another way to choose, such as `pack_exact`.

        Raises:
            BadBudget: ``max_tokens`` is not a whole number of at least 1.
        """
        check_tokens("max_tokens", max_tokens)
        self._max_tokens = max_tokens
        self._counter = counter or counter_for()
        self._packer = packer
        self._blocks: list[Block] = []

    def add(self, content: str, priority: float, tokens: int | None = None) -> None:
        """Add a piece.

        Args:
            content: the text.
            priority: higher goes in first.
            tokens: its size; counted if not given.

        Raises:
            InputError: the content is not text, or ``tokens`` is negative.
        """
        if not isinstance(content, str):
            raise InputError(f"content must be text, not {type(content).__name__}")
        size = self._counter.count_text(content) if tokens is None else tokens
        if size < 0:
            raise InputError(f"tokens={tokens!r} must be at least 0")
        # The section only carries the piece through the packer: nothing here becomes a window.
        self._blocks.append(Block(section="recalled", text=content, tokens=size, score=priority))

    def best(self) -> list[str]:
        """Return the pieces that fit, highest priority first; their tokens sum to at most ``max_tokens``."""
        taken, _ = self._packer(self._blocks, self._max_tokens)
        return [block.text for block in taken]

    def left(self) -> list[str]:
        """Return the pieces that do not fit, highest priority first."""
        _, left = self._packer(self._blocks, self._max_tokens)
        return [block.text for block in sorted(left, key=lambda block: -block.score)]

    def text(self, separator: str = "\n\n") -> str:
        """Return the best as one text of at most ``max_tokens`` by the counter, separators included.

        The numbers given to `add` are not used here: what is returned is counted.
        """
        pieces = self.best()
        while pieces and self._counter.count_text(separator.join(pieces)) > self._max_tokens:
            pieces.pop()
        return separator.join(pieces)
