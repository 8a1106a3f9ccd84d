"""A summary without a model: the points worth keeping, in their original words.

Points are taken greedily by what they add: their worth (`jiyi.text.salience`), less where their terms
or their stretch of the conversation are shown already, as in maximal marginal relevance (Carbonell
and Goldstein 1998). Gains only fall, so a stale gain is an upper bound (Minoux 1978).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from heapq import heapify, heappop, heappush

from jiyi.compression.sentences import signs
from jiyi.compression.summarize_points import Point, find_points, previous_points
from jiyi.prompts import Language
from jiyi.records import Message
from jiyi.text import TokenCounter, analyse

_BULLET = "- "
_SECTIONS = 10  # of the conversation, each of which should be shown
_SECTION_PENALTY = 0.05  # what a stretch that is shown already takes off, for each point of it
_COVERED_PENALTY = 0.6  # of a point's worth is lost where all its terms are shown already
_SAME_SHARE = 0.8  # share of a point's terms in another one that makes it the same
_SIMILAR_SHARE = 0.6  # share from which a newer point with other numbers takes the older one's place
_SUPERSEDED_FACTOR = 0.7  # what is left of the older one's worth
_MIN_WORTH = 0.35  # points below this are taken only if there is nothing else
_FEW_TERMS_FACTOR, _DECISION_WORTH = 0.75, 0.85  # factor below three terms; but not from this worth on
_MAX_MISSES = 60  # points in a row that do not fit before the rest is not tried
_MAX_BULLET_CHARS = 160  # characters up to which sentences that follow each other share a bullet
_NUMBER = re.compile(r"\d+(?:[.:]\d+)*")

_Sets = list[frozenset[str]]  # of each point, its terms or its numbers


@dataclass(slots=True)
class _Selection:
    """Points taken so far."""

    terms: _Sets
    numbers: _Sets
    places: list[int] = field(default_factory=list)  # in the order they were taken
    shown: set[str] = field(default_factory=set)
    counts: Counter[int] = field(default_factory=Counter)  # of the stretches of the conversation

    def stretch(self, place: int) -> int:
        return place * _SECTIONS // len(self.terms)

    def measure_gain(self, place: int, worth: float) -> float:
        terms = self.terms[place]
        covered = len(terms & self.shown) / len(terms) if terms else 1.0
        crowded = self.counts[self.stretch(place)] if worth < _DECISION_WORTH else 0
        return worth * (1 - _COVERED_PENALTY * covered) / (1 + _SECTION_PENALTY * crowded)

    def repeats(self, place: int) -> bool:
        """Return whether a taken point has the same content and numbers."""
        terms, numbers = self.terms[place], self.numbers[place]
        if len(terms & self.shown) < _SAME_SHARE * len(terms):
            return False
        return any(
            len(terms & self.terms[other]) >= _SAME_SHARE * len(terms) and numbers <= self.numbers[other]
            for other in self.places
        )

    def take(self, place: int) -> None:
        self.places.append(place)
        self.shown |= self.terms[place]
        self.counts[self.stretch(place)] += 1


def summarise(
    messages: Sequence[Message],
    previous: str,
    language: Language,
    limit: int,
    counter: TokenCounter,
    *,
    zone: tzinfo = UTC,
) -> tuple[str, tuple[str, ...]]:
    """Return a summary of what was said before and in ``messages``, and the ids it is from.

    Bullet points within ``limit`` tokens, at least 1, the first of each day with its date; "" only where
    nothing has a word in it.
    """
    points = [*previous_points(previous, messages), *find_points(messages, language, zone)]
    kept = choose(points, limit, counter)
    sources = {source for point in kept for source in point.sources}
    return write(kept, limit, counter), tuple(m.id for m in messages if m.id in sources)


def choose(points: Sequence[Point], limit: int, counter: TokenCounter) -> list[Point]:
    """Return the points that together are worth most within ``limit`` tokens, in their order."""
    distinct = _merge_repetitions(points)
    terms = [frozenset(analyse(point.words)) for point in distinct]
    numbers = [frozenset(_NUMBER.findall(point.words)) for point in distinct]
    distinct = _discount_superseded(distinct, terms, numbers)
    worth = [point.worth for point in distinct]
    for n, value in enumerate(worth):
        if len(terms[n]) < 3 and not numbers[n] and value < _DECISION_WORTH:  # "Anything fun?"
            worth[n] *= _FEW_TERMS_FACTOR
    taken = _Selection(terms, numbers)
    worthy = [place for place in range(len(distinct)) if worth[place] >= _MIN_WORTH]
    costs = [counter.count_text(_BULLET + point.text) for point in distinct]
    _take_best(taken, worthy or range(len(distinct)), worth, costs, limit)
    places = taken.places
    while places:
        kept = [distinct[place] for place in sorted(places)]
        if counter.count_text(_write_bullets(kept)) <= limit:
            return kept
        places = places[:-1]
    return sorted(distinct, key=lambda point: -point.worth)[:1]


def write(points: Sequence[Point], limit: int, counter: TokenCounter) -> str:
    """Return points as bullet points; the one point there is may be cut to fit."""
    text = _write_bullets(points)
    return text if counter.count_text(text) <= limit else counter.truncate(text, limit).strip()


def _take_best(
    taken: _Selection, places: Sequence[int], worth: Sequence[float], costs: Sequence[int], limit: int
) -> None:
    heap = [(-worth[place], place) for place in places]
    heapify(heap)
    used = misses = 0
    while heap and misses < _MAX_MISSES:
        stale, place = heappop(heap)
        gain = taken.measure_gain(place, worth[place])
        if heap and gain < -stale - 1e-12 and gain < -heap[0][0]:
            heappush(heap, (-gain, place))
        elif taken.repeats(place):
            continue
        elif used + costs[place] > limit:  # line breaks mostly join the token before them
            misses += 1
        else:
            used += costs[place]
            taken.take(place)


def _merge_repetitions(points: Sequence[Point]) -> list[Point]:
    """Return the points without exact repetitions; a repeated point is worth a little more."""
    distinct: dict[str, Point] = {}
    for point in points:
        key = "".join(point.words.casefold().split())
        first = distinct.setdefault(key, point)
        if first is not point:
            sources = tuple(dict.fromkeys((*first.sources, *point.sources)))
            distinct[key] = replace(first, worth=max(first.worth, point.worth) + 0.01, sources=sources)
    return list(distinct.values())


def _discount_superseded(points: list[Point], terms: _Sets, numbers: _Sets) -> list[Point]:
    """Return the points; those of the earlier summary are worth less if newer ones replace them.

    A newer point with the same words and other numbers replaces one; a to-do is done if a
    newer point says so.
    """
    new = [place for place, point in enumerate(points) if point.message >= 0]
    done = [place for place in new if signs().done.search(points[place].words)]
    discounted = list(points)
    for place, point in enumerate(points):
        if point.message < 0 and any(_replaces(terms, numbers, n, place) for n in new):
            discounted[place] = replace(point, worth=point.worth * _SUPERSEDED_FACTOR)
        if signs().todo.search(point.words) and any(
            later > place
            and 2 * len(terms[later] & terms[place]) >= min(len(terms[later]), len(terms[place]))
            for later in done
        ):
            discounted[place] = replace(point, worth=_MIN_WORTH / 2)
    return discounted


def _replaces(terms: _Sets, numbers: _Sets, newer: int, older: int) -> bool:
    if not numbers[newer] or not numbers[older] or numbers[newer] == numbers[older]:
        return False
    alike = len(terms[newer] & terms[older])
    return alike >= _SIMILAR_SHARE * max(len(terms[newer]), len(terms[older]))


def _write_bullets(points: Sequence[Point]) -> str:
    lines, day, following = [""], "", (-1, -1)
    for point in points:
        continues = point.label and (point.message, point.place) == following
        if continues and len(lines[-1]) + len(point.words) < _MAX_BULLET_CHARS:
            lines[-1] += ("" if lines[-1][-1] in "。！？；，" else " ") + point.words
        else:
            lines.append(_BULLET + (f"[{point.day}] " if point.day not in ("", day) else "") + point.text)
        day, following = point.day, (point.message, point.place + 1)
    return "\n".join(lines[1:])
