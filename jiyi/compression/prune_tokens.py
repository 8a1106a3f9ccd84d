"""Pruning without a model: what carries least is dropped, word by word."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from jiyi.compression.compressor import Compressed, Compressible, Given, check_rate, check_words
from jiyi.compression.pruned import PrunedText, says, spaced
from jiyi.compression.words import KEPT, Word, words_of
from jiyi.text import TokenCounter, counter_for

__all__ = ["PruneTokens"]

_COST_POWER = 0.3  # how much dearer words go sooner: worth / tokens ** this
_AGAIN = 0.6  # what a word is worth the second time, as a share of the first
_MOST_AGAIN = 4  # times after which it loses no more
_REPEATED = 0.0005  # what a sentence is worth the second time, as a share of the first
_LONG_ENOUGH = 12  # characters from which a sentence that comes again is a repetition
_MOST_RESTORED = 40  # words tried for the room that is left
_LEAST_RESTORED = 0.12  # worth of a word that is worth a try


@dataclass(frozen=True, slots=True)
class PruneTokens:
    """A `Compressor` that drops the words that say least, without a model.

    - Dropped first: politeness, fillers, repeated sentences, particles and words of grammar,
      marks; then words by how common they are and what sentence they stand in (greetings
      and questions first, decisions and corrections last). Order and lines stay.
    - Never cut: numbers with units, names with digits, denials, code (fenced and inline), JSON,
      URLs, paths, settings, quotations, and ``force_tokens``. They stay even where that
      leaves more than ``rate``; a note says so. A repeated sentence is dropped with them.
    - With ``max_tokens`` nothing stands above the limit: where what is never cut takes more,
      whole spans of it are dropped, those of the least weighty sentences first; a note says how many.
    - Never longer than its input; a text that is not pruned comes back as it is.
    - Deterministic; 1,000 tokens take 20 to 50 ms.

    Args:
        rate: the share of tokens to leave, above 0 and at most 1; ``max_tokens`` of a call replaces it.
        force_tokens: texts that stay wherever they stand as written.
        counter: counts the tokens.

    Raises:
        InputError: ``rate`` is out of range or ``force_tokens`` is no list of texts.
    """

    rate: float = 0.5
    force_tokens: Sequence[str] = field(default=(), kw_only=True)
    counter: TokenCounter = field(default_factory=counter_for, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_rate(self.rate)
        check_words("force_tokens", self.force_tokens)

    def __call__(
        self, given: Given, *, max_tokens: int | None = None, query: str | None = None
    ) -> Compressed:
        """Return the texts without the words that say least; ``query`` is not looked at.

        Raises:
            InputError: ``given`` is no text or message, or ``max_tokens`` is below 1.
        """
        texts = Compressible(given, self.counter, "prune_tokens", max_tokens)
        target = max(1, round(self.rate * texts.tokens)) if max_tokens is None else max_tokens
        if texts.tokens <= target:
            return texts.unchanged()
        words = _words_of_all(texts.texts, self.force_tokens)
        left, notes = self._choose(words, target, hard=max_tokens is not None)
        made = texts.made(left.text(), [texts.messages[source].id for source in left.sources()], *notes)
        if made.tokens >= texts.tokens and max_tokens is None:
            return texts.unchanged(*notes)
        return made

    def _choose(self, words: list[Word], target: int, hard: bool) -> tuple[PrunedText, tuple[str, ...]]:
        """Return what is left of the words, and what is to be said of it."""
        free, firm = self._ranked(words, target)
        order = [*free, *firm] if hard else free
        left = PrunedText(words, order, self.counter.count_text)
        left.cut_to(target)
        left.restore(target, lambda word: _LEAST_RESTORED <= word.worth < KEPT, _MOST_RESTORED)
        lost = sum(place in left.dropped for place in firm) if hard else 0
        if lost:
            return left, (
                f"{lost} protected spans (numbers, names, code, ...) did not fit and were left out; "
                "ToolOutput shortens long JSON and logs",
            )
        if not hard and left.tokens() > target:
            return left, ("what is never cut (numbers, names, code, ...) takes more than the rate leaves",)
        return left, ()

    def _ranked(self, words: list[Word], target: int) -> tuple[list[int], list[int]]:
        """Return the places of the words that may go and of those to keep; first to go first."""
        repeated = _repetitions(words)
        seen: Counter[str] = Counter()
        free: dict[int, float] = {}
        firm: dict[int, tuple[bool, float]] = {}
        for place, word in enumerate(words):
            if word.kind in ("line", "bullet") or word.opener >= 0:
                continue
            if word.sentence in repeated:
                free[place] = word.worth * _REPEATED
            elif word.worth >= KEPT:
                size = self.counter.count_text(word.text)
                firm[place] = (
                    word.text in self.force_tokens and size <= target,
                    word.factor / math.sqrt(size or 1),
                )
            else:
                folded = word.text.casefold()
                times = min(seen[folded], _MOST_AGAIN) if word.kind in ("word", "han") else 0
                seen[folded] += 1
                cost = max(0.5, self._cost(words, place))
                free[place] = word.worth * word.factor * _AGAIN**times / cost**_COST_POWER
        return (
            sorted(free, key=lambda place: (free[place], -place)),
            sorted(firm, key=lambda place: (*firm[place], -place)),
        )

    def _cost(self, words: list[Word], place: int) -> int:
        """Return the tokens a word takes where it stands: neighbours may share tokens with it."""
        before = "".join(map(spaced, words[max(0, place - 2) : place]))
        after = "".join(map(spaced, words[place + 1 : place + 3]))
        if max(len(before), len(after)) > 200:  # beside long spans the word alone is close enough
            return self.counter.count_text(spaced(words[place]))
        count = self.counter.count_text
        return count(before + spaced(words[place]) + after) - count(before + after)


def _words_of_all(texts: Sequence[str], forced: Sequence[str]) -> list[Word]:
    """Return the words of all texts, a line break behind each, sentences numbered through."""
    found: list[Word] = []
    sentence = 0
    for source, text in enumerate(texts):
        words = words_of(text, forced)
        shift = len(found)
        for word in words:
            word.source = source
            word.sentence += sentence
            if word.opener >= 0:
                word.opener += shift
        found += words
        sentence = found[-1].sentence + 1 if found else 0
        found.append(Word("\n", "line", False, KEPT, sentence=sentence, source=source))
        sentence += 1
    return found


def _repetitions(words: list[Word]) -> set[int]:
    """Return the numbers of the sentences that were there before, word for word."""
    seen: set[str] = set()
    found = set()
    for number, group in groupby(words, key=lambda word: word.sentence):
        text = " ".join(word.text for word in group if says(word)).casefold()
        if len(text) >= _LONG_ENOUGH and text in seen:
            found.add(number)
        seen.add(text)
    return found
