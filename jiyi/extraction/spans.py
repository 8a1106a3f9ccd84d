"""Which stretches of a clause may be the value that it gives."""

from collections.abc import Iterator
from itertools import dropwhile
from typing import NamedTuple

from jiyi.extraction.clauses import VALUE, Clause

__all__ = ["Span", "spans_of"]

_NAMES = frozenset({"N", "nr", "ns", "M"})
_THINGS = frozenset({"n", "N", "M", "nr", "ns", "adj", "num", "time", "point", "kin", "loc"})
_LEADS = frozenset({"conj", "adv", "talk", "pro", "prep", "aux", "be", "neg"})
_TAILS = frozenset({"talk", "prep", "conj", "adv", "be", "aux", "own", "det"})
_FILLING = frozenset({"talk", "det", "adv"})
_LONGEST = 9  # words


class Span(NamedTuple):
    """Words of a clause, from ``first`` up to but not with ``last``."""

    first: int
    last: int
    kind: str


def spans_of(clause: Clause) -> list[Span]:
    """Return the stretches of a clause that may be a value, each once, the plainest kind first."""
    found: dict[tuple[int, int], Span] = {}
    for span in _all(clause):
        if 0 < span.last - span.first <= _LONGEST:
            found.setdefault((span.first, span.last), span)
    return list(found.values())


def _all(clause: Clause) -> Iterator[Span]:
    words = clause.words
    cls = [word.cls for word in words]
    count = len(words)
    for place, name in enumerate(cls):
        if name[0] == VALUE:
            yield Span(place, place + 1, name[1:])
        elif name == "kin" and place and cls[place - 1] in ("pro", "own"):
            yield Span(place - 1, place + 1, "name")
    yield from _runs(cls, _NAMES, "name")
    yield from _runs(cls, _THINGS, "thing", values=True)
    first, last = 0, count
    while first < last and cls[first] in _LEADS and not (cls[first] in ("neg", "prep") and clause.chinese):
        first += 1
    last = next((place for place in range(first + 1, last) if _bounds(clause, place)), last)
    while last > first and cls[last - 1] in _TAILS:
        last -= 1
    seen = 0
    for place in range(count):
        if cls[place] in ("verb", "be") and seen < 4:
            seen += 1
            after = place + 1
            while after < last and (
                cls[after] in _FILLING or (cls[after] == "prep" and _plain(cls[after + 1 : last]))
            ):
                after += 1
            yield Span(after, last, "rest")
            if cls[place] == "verb" and not (after + 1 == last and cls[after][0] == VALUE):
                done = last == place + 1 and last < count and words[last].text == "了"
                yield Span(place - (place > 0 and cls[place - 1] == "neg"), last + done, "does")
        elif cls[place] == "prep" and place + 1 < last and "be" not in cls[place + 1 : last]:
            yield Span(place + 1 + (cls[place + 1] == "det"), last, "at")
            if not _plain(cls[place + 1 : last]):
                yield Span(place, last, "place")
    if "be" not in cls[first + 1 : last]:  # what "is" says stands behind it
        yield Span(first, last, "all")


def _plain(cls: list[str]) -> bool:
    """Return whether words are a value, or a name, and no more: "at" before it is no part of it."""
    cls = list(dropwhile("prep".__eq__, cls))
    return bool(cls) and (all(name[0] == VALUE for name in cls) or cls[0][0] == VALUE or set(cls) <= _NAMES)


def _bounds(clause: Clause, place: int) -> bool:
    """Return whether "until Friday", "from 1 May" begins at a word: how long a value holds."""
    words = clause.words
    bound = words[place].text.lower() in ("until", "till", "since", "starting", "from")
    return (
        bound
        and place + 1 < len(words)
        and any(word.cls in (VALUE + "date", VALUE + "weekday") for word in words[place + 1 : place + 3])
    )


def _runs(cls: list[str], wanted: frozenset[str], kind: str, values: bool = False) -> Iterator[Span]:
    start = None
    for place in range(len(cls) + 1):
        inside = place < len(cls) and (
            cls[place] in wanted
            or (values and cls[place][0] == VALUE)
            or (values and cls[place] == "own" and start is not None)
        )
        if inside and start is not None and cls[place - 1] == "point" and cls[place][0] == VALUE:
            yield Span(start, place, kind)
            start = None
        if inside and start is None:
            start = place
        if not inside and start is not None:
            yield Span(start, place, kind)
            start = None
