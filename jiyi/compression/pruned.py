"""Words, and the text that is left when some of them are dropped."""

from bisect import bisect_left
from collections.abc import Callable, Sequence, Set

from jiyi.compression.words import Word

__all__ = ["PrunedText", "says", "spaced"]

_TRAILING = frozenset(("，", ",", "、", "：", ":", " ", "(", "（"))
_MOST_RENDERED = 4_000  # words written again while restoring, at most


def says(word: Word) -> bool:
    """Return whether a word is more than a mark or a line break."""
    return word.kind in ("kept", "word", "han")


def spaced(word: Word) -> str:
    """Return a word with the space before it."""
    return f" {word.text}" if word.space else word.text


class PrunedText:
    """Words of which the first ones of an order are dropped.

    Lines are counted by themselves and remembered, so that another choice costs only the
    lines it changes.

    Args:
        words: all words, a line break after each line.
        order: places of the words that may be dropped, first to go first.
        count: counts the tokens of a text.
    """

    def __init__(self, words: Sequence[Word], order: Sequence[int], count: Callable[[str], int]) -> None:
        self._words = words
        self._order = order
        self._count = count
        self.dropped: set[int] = set()
        self._lines = _line_ranges(words)
        line_of = {place: n for n, (start, end) in enumerate(self._lines) for place in range(start, end)}
        self._line_of = line_of
        self._ranks: list[list[int]] = [[] for _ in self._lines]  # of each line: when its words go
        for rank, place in enumerate(order):
            self._ranks[line_of[place]].append(rank)
        self._known: dict[tuple[int, int], int] = {}  # (line, words dropped of it) -> tokens

    def cut_to(self, target: int) -> None:
        """Drop the fewest words, in order, that bring the text within ``target``; all, if none do."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            if self._estimate(middle) <= target:
                high = middle
            else:
                low = middle + 1
        self.dropped = set(self._order[:low])
        step = 1
        while low < len(self._order) and self.tokens() > target:  # lines together can take more
            low, step = min(len(self._order), low + step), 2 * step
            self.dropped = set(self._order[:low])

    def restore(self, target: int, worth_it: Callable[[Word], bool], most: int) -> None:
        """Take back words that the room left has place for, last dropped first, ``most`` at most."""
        room = target - self.tokens()
        rendered = 0
        for place in [place for place in reversed(self._order) if place in self.dropped]:
            if not most or room < 0 or rendered > _MOST_RENDERED:
                break
            word = self._words[place]
            if not says(word) or not worth_it(word):
                continue
            line = self._line_of[place]
            rendered += 2 * (self._lines[line][1] - self._lines[line][0])
            most -= 1
            before = self._count(self._line(line, self.dropped))
            self.dropped.discard(place)
            more = self._count(self._line(line, self.dropped)) - before
            if more > room or (more == room and self.tokens() > target):
                self.dropped.add(place)
            else:
                room -= more
        while self.tokens() > target and self._order and len(self.dropped) < len(self._order):
            self.dropped = set(self._order)

    def text(self) -> str:
        """Return what is left: spaces as they were, no mark twice, no empty line."""
        lines = (self._line(n, self.dropped) for n in range(len(self._lines)))
        return "\n".join(line for line in lines if line)

    def tokens(self) -> int:
        """Return the tokens of what is left."""
        return self._count(self.text())

    def sources(self) -> list[int]:
        """Return the numbers of the texts that something is left of, in order."""
        left = {w.source for place, w in enumerate(self._words) if says(w) and place not in self.dropped}
        return sorted(left)

    def _estimate(self, cut: int) -> int:
        """Return about how many tokens are left when the first ``cut`` of the order are dropped."""
        total = 0
        dropped: set[int] | None = None
        for line, ranks in enumerate(self._ranks):
            key = (line, bisect_left(ranks, cut))
            if key not in self._known:
                dropped = set(self._order[:cut]) if dropped is None else dropped
                text = self._line(line, dropped)
                self._known[key] = self._count(text) + 1 if text else 0
            total += self._known[key]
        return total - 1

    def _line(self, line: int, dropped: Set[int]) -> str:
        start, end = self._lines[line]
        writer = _Line()
        for place in range(start, end):
            word = self._words[place]
            if place in dropped or word.opener in dropped:
                writer.leave_out(word)
            elif word.kind == "bullet":
                writer.bullet = word.text
            elif word.kind in ("mark", "end"):
                writer.mark(word)
            else:
                writer.say(word)
        return writer.finished()


def _line_ranges(words: Sequence[Word]) -> list[tuple[int, int]]:
    ranges = []
    start = 0
    for place, word in enumerate(words):
        if word.kind == "line":
            ranges.append((start, place))
            start = place + 1
    return [*ranges, (start, len(words))]


class _Line:
    def __init__(self) -> None:
        self.bullet = ""
        self._parts: list[str] = []
        self._space = False  # white space stands before the next word
        self._gap = False  # something was left out before the next word
        self._marked = ""  # kind of the mark that was written last, "" after a word

    def leave_out(self, word: Word) -> None:
        self._space = self._space or word.space
        self._gap = True

    def say(self, word: Word) -> None:
        if not self._parts:
            self._parts = [f"{self.bullet} "] if self.bullet else []
        elif self._needs_space(word):
            self._parts.append(" ")
        self._parts.append(word.text)
        self._space = self._gap = False
        self._marked = ""

    def mark(self, word: Word) -> None:
        """Write a mark after a word; of two in a row the one that ends more stays."""
        if not self._parts or self._marked:
            if (
                self._parts
                and word.kind == "end"
                and self._marked == "mark"
                and self._parts[-1] in "，,、：:"
            ):
                self._parts[-1], self._marked = word.text, "end"
            self._space = self._space or word.space
            return
        if word.space and not self._gap:
            self._parts.append(" ")
        self._parts.append(word.text)
        self._space, self._gap, self._marked = False, False, word.kind

    def finished(self) -> str:
        while self._parts and self._parts[-1] in _TRAILING:
            self._parts.pop()
        return "".join(self._parts)

    def _needs_space(self, word: Word) -> bool:
        before, first = self._parts[-1][-1], word.text[0]
        if _is_han(before):
            if _is_han(first):
                return False
            return (word.space or self._space) and not first.isdigit()
        if self._marked:
            return word.space or (self._space and before.isascii())
        if _is_han(first):  # "端口 8443" is as clear as "端口8443", which takes a token less
            return (word.space or self._space) and not before.isdigit()
        return word.space or self._space or self._gap


def _is_han(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"
