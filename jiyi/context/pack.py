"""Distributes tokens among sections, and selects the blocks or texts that fit."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from operator import attrgetter

from jiyi.errors import BadBudget, InputError
from jiyi.records import Block, Section, check_tokens
from jiyi.text import TokenCounter, counter_for

__all__ = ["PriorityContext", "allot", "pack"]


def allot(
    available: int, demands: Mapping[Section, int], shares: Mapping[Section, float]
) -> dict[Section, int]:
    """Return how many tokens each section may use; together at most ``available``.

    A section gets at most its demand. What it leaves goes to the others in proportion to their
    shares. A section without a share gets only what no other section needs.
    """
    allotted: dict[Section, int] = dict.fromkeys(demands, 0)
    left = max(available, 0)
    while left > 0:
        unmet = {name: shares.get(name, 0.0) for name in demands if allotted[name] < demands[name]}
        if not unmet:
            break
        total = sum(unmet.values())
        if total == 0:
            unmet, total = dict.fromkeys(unmet, 1.0), float(len(unmet))
        before = left
        for name, share in unmet.items():
            added = min(int(before * share / total), demands[name] - allotted[name], left)
            allotted[name] += added
            left -= added
        if left == before:  # too little to divide: the largest share takes it
            name = max(unmet, key=lambda section: unmet[section])
            added = min(left, demands[name] - allotted[name])
            allotted[name] += added
            left -= added
    return allotted


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


@dataclass(eq=False, repr=False)
class PriorityContext:
    """Collects pieces of text, each with a priority, and returns the best that fit.

    For a prompt of your own; `build_window` does the same for a window. Pieces are never cut; the
    highest priority goes first, of equals the first added. One that does not fit is skipped, and
    smaller ones after it are still tried. BadBudget: ``max_tokens`` is not a whole number of at least 1.
    """

    max_tokens: int  # what the best may take together
    _: KW_ONLY
    counter: TokenCounter | None = None  # of pieces without a number; None: as for gpt-4o
    _blocks: list[Block] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        check_tokens("max_tokens", self.max_tokens, error=BadBudget)
        self._counter = self.counter or counter_for()

    def add(self, content: str, priority: float, tokens: int | None = None) -> None:
        """Add a piece of so many tokens, counted if not given; the highest priority goes in first.

        Raises `InputError` if the content is not text, or ``tokens`` is negative.
        """
        if not isinstance(content, str):
            raise InputError(f"content must be text, not {type(content).__name__}")
        size = self._counter.count_text(content) if tokens is None else tokens
        if size < 0:
            raise InputError(f"tokens={tokens!r} must be at least 0")
        # The section only carries the piece through `pack`: nothing here becomes a window.
        self._blocks.append(Block(section="recalled", text=content, tokens=size, score=priority))

    def best(self) -> list[str]:
        """Return the pieces that fit, highest priority first; their tokens sum to at most ``max_tokens``."""
        return [block.text for block in pack(self._blocks, self.max_tokens)[0]]

    def left(self) -> list[str]:
        """Return the pieces that do not fit, highest priority first."""
        return [block.text for block in pack(self._blocks, self.max_tokens)[1]]

    def text(self, separator: str = "\n\n") -> str:
        """Return the best as one text of at most ``max_tokens`` by the counter, separators included.

        The numbers given to `add` are not used here: what is returned is counted.
        """
        pieces = self.best()
        while pieces and self._counter.count_text(separator.join(pieces)) > self.max_tokens:
            pieces.pop()
        return separator.join(pieces)
