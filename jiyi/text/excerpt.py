"""Excerpts of a long text for a query: tool output, logs, tables, JSON and prose.

Pieces are lines, or parts of very long ones. The score of a piece is the sum of its query terms, weighed by
inverse document frequency (Spärck Jones 1972), less the more often a term is shown. The best pieces for
their length are taken with their neighbours until the budget is used.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import cache

from jiyi.text.analyse import analyse
from jiyi.text.cut import split_line, word_break

__all__ = ["GAP", "Taken", "densest", "excerpt"]


@dataclass(slots=True)
class Taken:
    """Pieces taken so far; the line that stands for a gap takes tokens too."""

    cost: Callable[[int], int]  # tokens of a place
    gap: int  # tokens of the line that stands for a gap
    used: int  # tokens, including those reserved at the beginning
    ends: Collection[int] = ()  # places next to which there is no gap
    places: dict[int, None] = field(default_factory=dict)  # in the order they were taken

    def take(self, place: int, limit: float) -> bool:
        """Take a place if it and its gap stay within ``limit``; return whether it is taken."""
        if place in self.places:
            return True
        adjacent = place in self.ends or not self.places.keys().isdisjoint((place - 1, place + 1))
        cost = self.cost(place) + (0 if adjacent else self.gap)
        if self.used + cost > limit:
            return False
        self.used += cost
        self.places[place] = None
        return True

    def take_while(self, places: Iterable[int], limit: float) -> None:
        """Take places in order until one does not fit."""
        for place in places:
            if not self.take(place, limit):
                return

    def shown(self, write: Callable[[list[int]], str], fits: Callable[[str], bool]) -> str:
        """Return the text that ``write`` makes of the places, dropping the last taken until it fits."""
        order = list(self.places)
        while order and not fits(write(sorted(order))):
            order = order[: len(order) * 9 // 10]
        return write(sorted(order)) if order else ""


GAP = "…"
"""The line that stands for omitted lines."""

_GAP_TOKENS = 4  # reserved for a gap line with its line breaks, more than any vocabulary needs
_HITS_SHARE = 0.7  # of the budget for the best pieces; the rest for their neighbours
_HEAD_SHARE = 0.6  # of the budget for the beginning when nothing is found; the rest for the end
_SHORT_PIECE = 120  # characters below which a shorter piece is not preferred
_MAX_READ, _STRETCH = 100_000, 2_000  # characters of a text that are read closely; of its stretches
_BREAKS = tuple(re.compile(p) for p in (r"[。！？!?；;]|\.(?=\s)", r"[,，、|}\]]", r"\s"))


_Piece = tuple[str, int]  # its text and the number of its line


def excerpt(text: str, terms: Iterable[str], max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the parts of ``text`` that match ``terms`` best, within ``max_tokens`` by ``count``.

    A text that fits is returned unchanged. Lines are complete, except very long ones; omitted lines are
    replaced by a line with "…". If no term is found, the excerpt is the beginning and the end. If no piece
    fits, it is the words around the rarest term found, without "…". No tokens give "".
    """
    if max_tokens <= 0 or not text:
        return ""
    total = count(text)
    if total <= max_tokens:
        return text
    characters = 0.4 * max_tokens * len(text) / total  # of this text in 0.4 of the budget
    limit, wanted = int(max(40, min(600, characters))), frozenset(terms)
    pieces = [
        (part, number)
        for number, line in enumerate(densest(text, wanted).split("\n"))
        for part in split_line(line, limit, _BREAKS, most=limit * 3 // 2)
        if part.strip()
    ]
    hits = _score_pieces(pieces, wanted) if wanted else {}
    cost = cache(lambda place: count(pieces[place][0]) + 1)
    taken = Taken(cost, _GAP_TOKENS, used=2 * _GAP_TOKENS)  # a gap before and one after
    if hits:
        _take_hits(taken, pieces, hits, max_tokens)
    else:
        taken.take_while(range(len(pieces)), max_tokens * _HEAD_SHARE)
        taken.take_while(reversed(range(len(pieces))), max_tokens)
    joined = taken.shown(lambda places: _join_pieces(pieces, places), lambda text: count(text) <= max_tokens)
    if joined or not hits:
        return joined or _longest_prefix(text.lstrip(), max_tokens, count)
    best = max(hits, key=lambda place: sum(hits[place].values()))
    return _excerpt_around(pieces[best][0], hits[best], max_tokens, count)


def densest(text: str, terms: Iterable[str]) -> str:
    """Return of a text over 100,000 characters its ends and the stretches that match best; others whole.

    Terms are looked for as they are written, words without their last letter, which takes 20 ms a megabyte.
    """
    if len(text) <= _MAX_READ:
        return text
    parts = list(split_line(text, _STRETCH, (re.compile("\n"),)))
    roots = {term[:-1] if len(term) > 3 and term.isalpha() and term.isascii() else term for term in terms}
    found = [[root for root in roots if root in part] for part in map(str.casefold, parts)]
    number = Counter(root for some in found for root in some)
    worth = [sum(1 / number[root] for root in some) for some in found]
    best = sorted(range(len(parts)), key=lambda place: -worth[place])[: _MAX_READ // _STRETCH]
    return _join_pieces([(part, 0) for part in parts], sorted({0, *best, len(parts) - 1}))


def _score_pieces(pieces: list[_Piece], wanted: frozenset[str]) -> dict[int, dict[str, float]]:
    terms_of: dict[int, dict[str, None]] = {}
    for place, (text, _) in enumerate(pieces):
        if terms := dict.fromkeys(term for term in analyse(text) if term in wanted):
            terms_of[place] = terms
    pieces_with = Counter(term for terms in terms_of.values() for term in terms)
    weight = {term: math.log(1 + len(pieces) / n) for term, n in pieces_with.items()}
    return {place: {term: weight[term] for term in terms} for place, terms in terms_of.items()}


def _take_hits(taken: Taken, pieces: list[_Piece], hits: dict[int, dict[str, float]], budget: int) -> None:
    best = _by_score(taken, pieces, hits, budget * _HITS_SHARE) or _by_score(taken, pieces, hits, budget)
    neighbours = [place + distance for distance in (-1, 1) for place in best]
    for place in (*neighbours, 0):  # 0: the head of a table, the first line of a log
        if 0 <= place < len(pieces):
            taken.take(place, budget)
    _by_score(taken, pieces, hits, budget)


def _by_score(
    taken: Taken, pieces: list[_Piece], hits: dict[int, dict[str, float]], limit: float
) -> list[int]:
    """Take pieces by score until ``limit``; return the places taken, best first."""
    groups: dict[frozenset[str], list[tuple[float, int]]] = {}  # pieces with the same terms, best last
    for place, terms in hits.items():
        if place not in taken.places:
            length = math.sqrt(max(_SHORT_PIECE, len(pieces[place][0])))
            groups.setdefault(frozenset(terms), []).append((-length, -place))
    for group in groups.values():
        group.sort()
    shown = Counter(term for place in taken.places for term in hits.get(place, ()))

    def worth(terms: frozenset[str]) -> float:
        length, place = groups[terms][-1]
        return sum(weight / (1 + shown[term]) for term, weight in hits[-place].items()) / -length

    while groups:
        best = max(groups, key=worth)
        _, place = groups[best].pop()
        if fits := taken.take(-place, limit):
            shown.update(best)
        if not fits or not groups[best]:  # the others of the group are longer
            del groups[best]
    return [place for place in taken.places if place in hits]


def _join_pieces(pieces: list[_Piece], places: list[int]) -> str:
    out = [GAP] if places[0] > 0 else []
    for before, place in zip([None, *places], places, strict=False):
        text, line = pieces[place]
        inside = place > 0 and line == pieces[place - 1][1]
        if inside and place - 1 == before:
            out[-1] += text
            continue
        if before is not None and place != before + 1:
            out.append(GAP)
        out.append(text.lstrip() if inside else text)
    return "\n".join([*out, GAP] if places[-1] < len(pieces) - 1 else out)


def _excerpt_around(text: str, terms: dict[str, float], max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the words around the rarest term that ``text`` contains literally."""
    folded = text.casefold()
    for term in sorted(terms, key=lambda term: (-terms[term], term)):
        at = folded.find(term)
        for back in (20, 8, 0) if at >= 0 else ():
            start = word_break(text, max(0, at - back))
            prefix = _longest_prefix(text[start:], max_tokens, count)
            if term in prefix.casefold():
                return prefix
    return _longest_prefix(text, max_tokens, count)


def _longest_prefix(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the longest prefix of ``text`` within ``max_tokens``, of whole words if possible."""
    low, high = 0, min(len(text), 64)
    while high < len(text) and count(text[:high]) <= max_tokens:
        low, high = high, min(len(text), 2 * high)
    low += bisect_right(range(low + 1, high + 1), max_tokens, key=lambda end: count(text[:end]))
    words = text[: word_break(text, low)]
    return words if words and count(words) <= max_tokens else text[:low]
