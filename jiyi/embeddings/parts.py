"""Cuts a long record into parts, at the ends of paragraphs and sentences; each gets a vector."""

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

from jiyi.errors import InputError

__all__ = ["split_parts"]

_MIN_SHARE, _MAX_SHARE = 0.6, 1.25  # a part's length, as shares of `size`

# Where to cut, best first: after a paragraph, a line, a sentence, a clause or word.
_BOUNDARY_PATTERNS = (
    re.compile(r"\n[^\S\n]*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?…]{1,40}[\"')\]]*+(?=\s)|[。！？；…]+[”’」』）》]*"),
    re.compile(r"\s|[，、：,;]"),
)
_NON_SPACE = re.compile(r"\S")


def split_parts(text: str, *, size: int = 1_200, most: int = 8) -> list[str]:
    """Cut `text` into parts of about `size` characters that are worth a vector each, in order.

    - A text of up to about 1.25 x `size` is one part; blank text gives none. Longer ones are cut at the end
      of a paragraph, else of a line, a sentence, a word, whichever comes first in that order between 0.6 and
      1.25 x `size`; nothing but white space is lost.
    - Characters are counted by what they cost a multilingual model: Chinese, Japanese, Korean, emoji and
      punctuation 2.5, digits and capitals 2, others 1. At the default size a part of ordinary text stays
      within 512 tokens; of bare symbols or classical Chinese it may not.
    - Of more than `most` parts the first `most` - 2 and the last 2 are kept: the middle gets no vector.

    InputError: `size` is below 16 or `most` below 1.
    """
    if size < 16 or most < 1:
        raise InputError(f"split_parts needs size >= 16 and most >= 1, not {size} and {most}")
    text = text.strip()
    spans: list[tuple[int, int]] = []
    start = 0
    while start < len(text) and len(spans) <= most:
        end = _find_part_end(text, start, size)
        spans.append((start, end))
        start = _find_next_word(text, end)
    if len(spans) > most:
        count_at_end = min(2, most - 1)
        spans = spans[: most - count_at_end]
        spans += _find_last_parts(text, spans[-1][1], size, count_at_end)
    return [text[start:end].rstrip() for start, end in spans]


def _find_part_end(text: str, start: int, size: int) -> int:
    window = text[start : start + 2 * size]
    costs = _sum_costs(window)
    longest, rest = _MAX_SHARE * size, costs[-1]
    if start + len(window) == len(text):
        if rest <= longest:
            return len(text)
        if rest <= 2 * size:  # the last two parts share the rest, so that no tiny part remains
            return start + _find_cut(window, costs, max(0.35 * rest, rest - longest), rest / 2, 0.65 * rest)
    return start + _find_cut(window, costs, _MIN_SHARE * size, float(size), longest)


def _find_last_parts(text: str, floor: int, size: int, count: int) -> list[tuple[int, int]]:
    """Return the last `count` parts of `text`, in order, none beginning before `floor`."""
    spans: list[tuple[int, int]] = []
    end = len(text)
    for _ in range(count):
        end = floor + len(text[floor:end].rstrip())
        start = max(floor, end - 2 * size)
        window = text[start:end]
        costs = _sum_costs(window)
        total, longest = costs[-1], _MAX_SHARE * size
        if total > longest:
            start += _find_cut(window, costs, total - longest, total - size, total - _MIN_SHARE * size)
        start = _find_next_word(text, start)
        if start < end:
            spans.insert(0, (start, end))
        end = start
    return spans


def _find_cut(window: str, costs: list[float], low: float, aim: float, high: float) -> int:
    """Return the best cut of `window` between the lengths `low` and `high`: of the best kind, near `aim`."""
    first = max(1, bisect_left(costs, low))
    last = max(first, bisect_right(costs, high) - 1)
    for boundary in _BOUNDARY_PATTERNS:
        cuts = [m.end() for m in boundary.finditer(window) if first <= m.end() <= last]
        if cuts:
            return min(cuts, key=lambda cut: abs(costs[cut] - aim))
    return min(max(bisect_left(costs, aim), first), last)


def _sum_costs(window: str) -> list[float]:
    """Return the costs of the first 0, 1, 2, ... characters."""
    return list(accumulate(map(_cost, window), initial=0.0))


def _cost(char: str) -> float:
    if char.islower() or char.isspace():
        return 1.0
    if char < "\x80":
        return 2.0 if char.isalnum() else 2.5
    return 2.5 if char >= "\u2000" else 1.0


def _find_next_word(text: str, start: int) -> int:
    match = _NON_SPACE.search(text, start)
    return match.start() if match else len(text)
