"""Priority: the most important pieces of text that fit into a number of tokens."""

from jiyi.context.pack import Packer, pack
from jiyi.errors import BadBudget, InputError
from jiyi.records import Block
from jiyi.text import TokenCounter, counter_for

__all__ = ["PriorityContext"]


class PriorityContext:
    """Gathers pieces of text, each with a priority, and gives back the best that fit.

    For those who assemble a prompt of their own; `build_window` does the same for a whole
    window. Pieces go in whole, highest priority first, of equals the first added; one that
    does not fit is passed over and smaller ones behind it are still tried.
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
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise BadBudget(f"max_tokens={max_tokens!r} must be a whole number of tokens, at least 1")
        self._max_tokens = max_tokens
        self._counter = counter or counter_for()
        self._packer = packer
        self._blocks: list[Block] = []

    def add(self, content: str, priority: float, tokens: int | None = None) -> None:
        """Add a piece.

        Args:
            content: the text.
            priority: higher goes in first.
            tokens: what it takes; counted where it is left out.

        Raises:
            InputError: the content is no text, or ``tokens`` is negative.
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

        The numbers given to `add` are not believed here: what is returned is counted.
        """
        pieces = self.best()
        while pieces and self._counter.count_text(separator.join(pieces)) > self._max_tokens:
            pieces.pop()
        return separator.join(pieces)
