"""Split a text into sentences, and cut long ones after a sentence or a word."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from jiyi.text.lexicon import jieba

__all__ = ["clip", "first_words", "one_line", "sentence_ends", "sentences", "split_line", "word_break"]

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
_WORD = re.compile(r"[^\s\u3000-\u303f\u3400-\u9fff\uff00-\uffef]+")
_MAX_WORD_CHARS = 40  # longer ones may be cut anywhere
_CONTEXT_CHARS = 20  # Chinese characters read on either side to find words
_END = re.compile(r"[。！？；!?;]|\.(?=\s)")


def word_break(text: str, place: int) -> int:
    """Return the nearest place at or before ``place`` that is not inside a word of up to 40 characters."""
    if not 0 < place < len(text):
        return place
    for form, reach in ((_WORD, _MAX_WORD_CHARS), (_HAN, _CONTEXT_CHARS)):
        if not (form.match(text[place - 1]) and form.match(text[place])):
            continue
        start = max(0, place - reach)
        before = next(found for found in form.finditer(text, start, place) if found.end() == place)
        if form is _WORD:
            return place if len(before[0]) == _MAX_WORD_CHARS else before.start()
        after = form.match(text, place, place + reach)
        words = jieba().cut(before[0] + (after[0] if after else ""))
        ends = accumulate(map(len, words), initial=before.start())
        return max(end for end in ends if end <= place) or place
    return place


def clip(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, ending in "…" if it was longer.

    It ends after a sentence if that keeps more than half of what fits, else after a word.
    """
    if len(text) <= most:
        return text
    ends = [found.end() for found in _END.finditer(text, most // 2, most - 1)]
    return text[: ends[-1] if ends else word_break(text, most - 1) or most - 1].rstrip() + "…"


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most ``most`` characters, cut as by `clip`."""
    if len(text) <= most and text.isprintable() and "  " not in text:  # most texts
        return text.strip()
    shown = " ".join(text[: 2 * most].split())
    if len(text) > 2 * most:
        shown = shown.ljust(most + 1)  # white space may hide that something was cut
    return clip(shown, most)


def first_words(text: str, most: int = 60) -> str:
    """Return the beginning of a text on one line of at most ``most`` characters, ending in "…" if cut."""
    flat = " ".join(text[: 4 * most].split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def split_line(line: str, size: int, marks: Sequence[re.Pattern[str]], most: int = 0) -> Iterator[str]:
    """Yield parts of a line of at most ``size`` characters, the last of at most ``most`` (or ``size``).

    A part ends after the last match of the first of ``marks`` in its last three quarters, else after a word.
    """
    start = 0
    while len(line) - start > (most or size):
        end = start + size
        for mark in marks:
            if ends := [found.end() for found in mark.finditer(line, start + size // 4, end)]:
                end = ends[-1]
                break
        else:
            end = word_break(line, end)
        yield line[start:end]
        start = end
    yield line[start:]


_FENCE = re.compile(r"^[ \t]*```[^\n]*\n.*?(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SENTENCE_END = re.compile(
    r"[。！？；]+[”’」』）)\"']*"  # end a sentence anywhere
    r"|[.!?]+[”’」』）)\"']*(?=\s|\Z|[\u4e00-\u9fff])"  # only before a space or Chinese: not 1.5, a.b, ?x=1
    r"|\n"
)
_ABBREVIATED = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|st|prof|e\.g|i\.e|vs|no|approx|etc|a\.k\.a|fig|inc|ltd|jr|sr|[a-z])|^\s*\d{1,3})\.\Z",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in order; only white space around them is lost.

    A line break ends a sentence; a fenced block of code is one. Full stops in numbers, versions, paths and
    addresses, and after common abbreviations end none. The time is linear in the length of the text.
    """
    return [part for start, end in pairwise([0, *sentence_ends(text)]) if (part := text[start:end].strip())]


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the positions where the sentences of a text end; the last is the end of the text."""
    start = 0
    for fence in [*(_FENCE.finditer(text) if "```" in text else ()), None]:
        stop = fence.start() if fence else len(text)
        for end in _SENTENCE_END.finditer(text, start, stop):
            if end[0][0] == "." and _ABBREVIATED.search(text[max(start, end.end() - 8) : end.end()]):
                continue
            start = end.end()
            yield start
        yield stop
        if fence:
            start = fence.end()
            yield start
