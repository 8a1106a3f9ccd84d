"""Prune words without a model, the least informative first."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby

from jiyi.compression.compressor import Compressed, Compressible, Given, Limit, check_rate
from jiyi.compression.words import KEPT, Word, split_words
from jiyi.text import TokenCounter, counter_for

__all__ = ["PruneTokens"]

_TRAILING = frozenset(("，", ",", "、", "：", ":", " ", "(", "（"))
_MAX_RENDERED = 4_000  # words rendered again while restoring, at most
_MAX_RESTORED = 40  # words tried for the room that is left
_MIN_RESTORED_WORTH = 0.12  # worth of a word that is worth a try


def _has_content(word: Word) -> bool:
    """Return whether a word is more than a mark or a line break."""
    return word.kind in ("kept", "word", "han")


@dataclass(eq=False)
class _PrunedText:
    """Words, some of them dropped in a given order; the tokens of each line are cached."""

    words: Sequence[Word]  # all, a line break after each line
    order: Sequence[int]  # places of the words that may be dropped, first to go first
    count: Callable[[str], int]  # of the tokens of a text

    def __post_init__(self) -> None:
        self.dropped: set[int] = set()
        ends = [place for place, word in enumerate(self.words) if word.kind == "line"]
        self._lines = list(zip([0, *(end + 1 for end in ends)], [*ends, len(self.words)], strict=True))
        self._line_of = {place: n for n, line in enumerate(self._lines) for place in range(*line)}
        self._ranks: list[list[int]] = [[] for _ in self._lines]  # of each line: when its words go
        for rank, place in enumerate(self.order):
            self._ranks[self._line_of[place]].append(rank)
        self._line_tokens: dict[tuple[int, int], int] = {}  # (line, words dropped of it) -> tokens

    def cut_to(self, target: int) -> None:
        """Drop the fewest words, in order, that bring the text within ``target``; all, if none do."""
        low = bisect_left(range(len(self.order)), True, key=lambda cut: self._estimate_tokens(cut) <= target)
        self.dropped = set(self.order[:low])
        step = 1
        while low < len(self.order) and self.tokens() > target:  # lines together can take more
            low, step = min(len(self.order), low + step), 2 * step
            self.dropped = set(self.order[:low])

    def restore(self, target: int) -> None:
        """Take back the best words that fit into the remaining tokens, last dropped first."""
        room = target - self.tokens()
        rendered = 0
        lost = ((place, self.words[place]) for place in reversed(self.order) if place in self.dropped)
        worthy = [n for n, word in lost if _has_content(word) and _MIN_RESTORED_WORTH <= word.worth < KEPT]
        for place in worthy[:_MAX_RESTORED]:
            if room < 0 or rendered > _MAX_RENDERED:
                break
            line = self._line_of[place]
            rendered += 2 * (self._lines[line][1] - self._lines[line][0])
            before = self.count(self._render_line(line, self.dropped))
            self.dropped.discard(place)
            cost = self.count(self._render_line(line, self.dropped)) - before
            if cost > room or (cost == room and self.tokens() > target):
                self.dropped.add(place)
            else:
                room -= cost
        if self.tokens() > target:
            self.dropped = set(self.order)

    def text(self) -> str:
        """Return the remaining text: original spaces, no mark twice, no empty line."""
        return "\n".join(filter(None, (self._render_line(n, self.dropped) for n in range(len(self._lines)))))

    def tokens(self) -> int:
        return self.count(self.text())

    def sources(self) -> list[int]:
        left = (word for place, word in enumerate(self.words) if place not in self.dropped)
        return sorted({word.source for word in left if _has_content(word)})

    def _estimate_tokens(self, cut: int) -> int:
        """Return about how many tokens are left when the first ``cut`` of the order are dropped."""
        dropped = set(self.order[:cut])
        keys = [(line, bisect_left(ranks, cut)) for line, ranks in enumerate(self._ranks)]
        for key in keys:
            if key not in self._line_tokens:
                text = self._render_line(key[0], dropped)
                self._line_tokens[key] = self.count(text) + 1 if text else 0
        return sum(map(self._line_tokens.__getitem__, keys)) - 1

    def _render_line(self, line: int, dropped: Set[int]) -> str:
        parts: list[str] = []
        bullet = last_mark = ""  # the kind of the mark that was written last, "" after a word
        space = gap = False  # whether white space is due before the next word; whether something was left out
        for place in range(*self._lines[line]):
            word = self.words[place]
            if place in dropped or word.opener in dropped:
                space, gap = space or word.space, True
            elif word.kind == "bullet":
                bullet = f"{word.text} "
            elif word.kind not in ("mark", "end"):
                if not parts:
                    parts.append(bullet)
                elif _needs_space(parts[-1][-1], word, space, gap, last_mark):
                    parts.append(" ")
                parts.append(word.text)
                space, gap, last_mark = False, False, ""
            elif parts and not last_mark:
                parts += [" ", word.text] if word.space and not gap else [word.text]
                space, gap, last_mark = False, False, word.kind
            else:  # of two marks in a row the end of a sentence wins
                if word.kind == "end" and last_mark == "mark" and parts[-1] in "，,、：:":
                    parts[-1], last_mark = word.text, "end"
                space = space or word.space
        while parts and parts[-1] in _TRAILING:
            parts.pop()
        return "".join(parts)


def _needs_space(before: str, word: Word, space: bool, gap: bool, last_mark: str) -> bool:
    """Return whether a word is written with a space after the character ``before``."""
    first = word.text[0]
    if _is_han(before):
        return (space or word.space) and not first.isdigit() and not _is_han(first)
    if last_mark:
        return word.space or (space and before.isascii())
    if _is_han(first):  # "端口 8443" is as clear as "端口8443", which takes a token less
        return (space or word.space) and not before.isdigit()
    return space or word.space or gap


def _is_han(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf"


_COST_POWER = 0.3  # expensive words go sooner: worth / tokens ** this
_REPEATED_WORD = 0.6  # what a word is worth the second time, as a share of the first
_MAX_REPEATS = 4  # times after which it loses no more
_REPEATED_SENTENCE = 0.0005  # what a sentence is worth the second time, as a share of the first
_MIN_REPEATED_CHARS = 12  # characters from which a sentence that comes again is a repetition


@dataclass(frozen=True, slots=True)
class PruneTokens:
    """A `Compressor` that drops the words that say least, without a model.

    - Dropped first: politeness, fillers, repeated sentences, particles and words of grammar, marks; then
      words by how common they are and what sentence they stand in. Order and lines stay.
    - Never cut: what `protected_spans` finds, denials, and ``force_tokens``, even where that leaves more than
      ``rate``; a note says so. A repeated sentence is dropped with them. With ``max_tokens`` the limit holds:
      whole spans are dropped, those of the least weighty sentences first; a note says how many.
    - Deterministic; 1,000 tokens take 20 to 50 ms.

    InputError: ``rate`` is out of range or ``force_tokens`` is no list of texts.
    """

    rate: float = 0.5  # share of tokens to leave, above 0, at most 1; a call's ``max_tokens`` replaces it
    force_tokens: Sequence[str] = field(default=(), kw_only=True)  # stay wherever they stand as written
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.rate, self.force_tokens)

    def __call__(self, given: Given, *, max_tokens: Limit = None, query: str | None = None) -> Compressed:
        """Return the texts without the words that say least, as `Compressor`; ``query`` is ignored."""
        texts = Compressible(given, self.counter, "prune_tokens", max_tokens)
        hard = max_tokens is not None
        target = max(1, round(self.rate * texts.tokens)) if max_tokens is None else max_tokens
        if texts.tokens <= target:
            return texts.unchanged()
        words, notes = _split_texts(texts.texts, self.force_tokens), list[str]()
        droppable, protected = self._rank_words(words, target)
        pruned = _PrunedText(words, [*droppable, *protected] if hard else droppable, self.counter.count_text)
        pruned.cut_to(target)
        pruned.restore(target)
        if lost := sum(place in pruned.dropped for place in protected):
            left_out = f"{lost} protected spans (numbers, names, code, ...) did not fit and were left out"
            notes.append(f"{left_out}; ToolOutput shortens long JSON and logs")
        elif not hard and pruned.tokens() > target:
            notes.append("what is never cut (numbers, names, code, ...) takes more than the rate leaves")
        ids = [texts.messages[source].id for source in pruned.sources()]
        result = texts.result(pruned.text(), ids, *notes)
        return texts.unchanged(*notes) if result.tokens >= texts.tokens and not hard else result

    def _rank_words(self, words: list[Word], target: int) -> tuple[list[int], list[int]]:
        """Return the places of droppable and of protected words, each in the order of dropping."""
        repeated = _find_repetitions(words)
        seen: Counter[str] = Counter()
        droppable: dict[int, float] = {}
        protected: dict[int, tuple[bool, float]] = {}
        for place, word in enumerate(words):
            if word.kind in ("line", "bullet") or word.opener >= 0:
                continue
            if word.sentence in repeated:
                droppable[place] = word.worth * _REPEATED_SENTENCE
            elif word.worth >= KEPT:
                size = self.counter.count_text(word.text)
                forced = word.text in self.force_tokens and size <= target
                protected[place] = forced, word.factor / math.sqrt(size or 1)
            else:
                folded = word.text.casefold()
                repeats = min(seen[folded], _MAX_REPEATS) if word.kind in ("word", "han") else 0
                seen[folded] += 1
                cost = max(0.5, self._count_cost(words, place))
                droppable[place] = word.worth * word.factor * _REPEATED_WORD**repeats / cost**_COST_POWER
        return (
            sorted(droppable, key=lambda place: (droppable[place], -place)),
            sorted(protected, key=lambda place: (*protected[place], -place)),
        )

    def _count_cost(self, words: list[Word], place: int) -> int:
        """Return the tokens of a word in its place, since tokens can span neighbours."""
        before, word, after = (
            "".join(word.spaced for word in words[max(0, start) : end])
            for start, end in ((place - 2, place), (place, place + 1), (place + 1, place + 3))
        )
        count = self.counter.count_text
        if max(len(before), len(after)) > 200:  # next to long spans the word alone is close enough
            return count(word)
        return count(before + word + after) - count(before + after)


def _split_texts(texts: Sequence[str], forced: Sequence[str]) -> list[Word]:
    """Return the words of all texts, a line break after each, with sentences numbered across them."""
    all_words: list[Word] = []
    sentence = 0
    for source, text in enumerate(texts):
        shift = len(all_words)
        for word in split_words(text, forced):
            word.source = source
            word.sentence += sentence
            word.opener += shift if word.opener >= 0 else 0
            all_words.append(word)
        sentence = all_words[-1].sentence + 1 if all_words else 0
        all_words.append(Word("\n", "line", False, KEPT, sentence=sentence, source=source))
        sentence += 1
    return all_words


def _find_repetitions(words: list[Word]) -> set[int]:
    """Return the numbers of the sentences that repeat an earlier one word for word."""
    seen: set[str] = set()
    repeated = set()
    for number, group in groupby(words, key=lambda word: word.sentence):
        text = " ".join(word.text for word in group if _has_content(word)).casefold()
        if len(text) >= _MIN_REPEATED_CHARS and text in seen:
            repeated.add(number)
        seen.add(text)
    return repeated
