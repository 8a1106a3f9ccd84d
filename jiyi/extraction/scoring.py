"""Which stretches of a clause may be a value, and how likely each is: a linear model over cheap signs."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import accumulate, dropwhile
from typing import NamedTuple

from jiyi.extraction.clauses import VALUE, Clause, past_verbs
from jiyi.text.modality import Mode

__all__ = ["Scene", "Signs", "Span", "chosen", "spans_of"]

_NONE: Mapping[str, float] = {}
_RUNS = re.compile(r"[0-9]+|[A-Za-z]+")
_WHO = frozenset({"pro", "own", "N", "nr", "M", "n", "kin"})
_VERBS = frozenset({"verb", "be", "aux"})
_NAMES = frozenset({"N", "nr", "ns", "M"})
_THINGS = frozenset({"n", "N", "M", "nr", "ns", "adj", "num", "time", "point", "kin", "loc"})
_LEADS = frozenset({"conj", "adv", "talk", "pro", "prep", "aux", "be", "neg"})
_TAILS = frozenset({"talk", "prep", "conj", "adv", "be", "aux", "own", "det"})
_FILLING = frozenset({"talk", "det", "adv"})
_LONGEST = 9  # words
_MODES = [(mode.value, str(mode.name).lower()) for mode in Mode]


class Span(NamedTuple):
    """Words of a clause, from ``first`` up to but not with ``last``."""

    first: int
    last: int
    kind: str


class Scene(NamedTuple):
    """What is known of the sentence that a clause stands in."""

    modes: Mode
    asked: str  # the kind of value that the message before asks for, "any" for any, "" for none
    chars: int  # of the message
    sentence: int  # which of the message
    mark: str  # its last character


def chosen(clause: Clause, scene: Scene) -> list[tuple[Span, float]]:
    """Return the stretches of a clause that are worth keeping, none over another, and how sure that is."""
    tables = _weights()["zh" if clause.chinese else "en"]
    signs_of = Signs(clause, scene)
    plain = tables[""]
    before, inside, after = (
        [0.0, *accumulate(plain.get(sign, 0.0) for sign in column)]
        for column in zip(*signs_of.words, strict=True)
    )

    def weight(kind: str, some: Iterable[str]) -> float:
        own = tables.get(kind, _NONE)
        return sum([plain.get(sign, 0.0) + own.get(sign, 0.0) for sign in some])

    # What the stretches of one kind share: the clause, and their ends.
    whole = cache(lambda kind: weight(kind, signs_of.common))
    begin = cache(lambda kind, place: weight(kind, signs_of.begin[place]))
    end = cache(lambda kind, place: weight(kind, signs_of.end[place]))
    rated: list[tuple[float, Span]] = []
    for span in spans_of(clause):
        total = before[span.first] + inside[span.last] - inside[span.first] + after[-1] - after[span.last]
        total += whole(span.kind) + begin(span.kind, span.first) + end(span.kind, span.last)
        rated.append((total + weight(span.kind, signs_of.of(span)), span))
    least = plain["threshold"]
    found: list[tuple[Span, float]] = []
    for total, span in sorted(rated, reverse=True):
        if total < least:
            break
        if all(span.last <= one.first or one.last <= span.first for one, _ in found):
            found.append((span, 1 / (1 + math.exp(-total))))
    return sorted(found)


class Signs:
    """The signs of the stretches of a clause, made once for what several share."""

    def __init__(self, clause: Clause, scene: Scene) -> None:
        self._clause = clause
        self._cls = [word.cls for word in clause.words]
        low = [VALUE if word.cls[0] == VALUE else word.text.lower() for word in clause.words]
        self.words = [(f"b={word}", f"i={word}", f"a={word}") for word in low]
        self.common = _of_clause(clause, scene)
        self.begin = list(self._begins(low))
        self.end = [(f">{self._cls[place]}", f">{low[place]}") for place in range(len(low))] + [(">$",)]

    def of(self, span: Span) -> Iterator[str]:
        """Give the signs of one stretch beside those of the clause and of its ends."""
        words, cls = self._clause.words, self._cls
        count = span.last - span.first
        last = words[span.last - 1]
        yield f"..{last.cls} {min(count, 5)}"
        yield f"{cls[span.first]}.. {min(count, 5)}"
        yield f"..{last.text[-1] if self._clause.chinese else last.text[-3:].lower()}"
        yield f"{self.begin[span.first][0]}{self.end[span.last][0]}"
        yield f"more={min(len(words) - count, 4)}"
        chars = last.end - words[span.first].start
        yield f"long={min(chars // (2 if self._clause.chinese else 4), 9)}"
        yield f"typed={min(sum(name[0] == VALUE for name in cls[span.first : span.last]), 2)}"
        if count == 1:
            yield _shape(last.text)
        if len(words) <= 5:
            yield "-".join([*cls[: span.first], "*", *cls[span.last :]])

    def _begins(self, low: list[str]) -> Iterator[tuple[str, ...]]:
        """Give for each place the signs of what stands before it."""
        who = verb = ""
        before = before2 = "^"
        for place, word in enumerate(self._clause.words):
            said = (f"<{low[place - 1]}",) if place else ()
            yield (
                f"<{before}",
                f"<<{before2} {before}",
                f"who={who}",
                f"verb={verb}",
                f"{word.text[0]}..",
                *said,
            )
            before, before2 = word.cls, before
            if before in ("verb", "be"):
                verb = low[place]
            elif not who and before in _WHO:
                who = low[place] if before in ("pro", "own") else before


def _of_clause(clause: Clause, scene: Scene) -> list[str]:
    words = clause.words
    found = [
        "",
        f"words={min(len(words), 8)}",
        f"at={min(clause.place, 3)}",
        f"of={min(clause.parts, 4)}",
        f"chars={min(scene.chars // 30, 5)}",
        f"sentence={min(scene.sentence, 3)}",
        f"values={min(sum(word.cls[0] == VALUE for word in words), 3)}",
        f"form={next((_tense(word.text.lower()) for word in words if word.cls in _VERBS), '-')}",
    ]
    if scene.asked:
        first = clause.place == 0 == scene.sentence
        found += [f"asked={scene.asked} {first}", f"asked={scene.asked} {first} {min(len(words), 3)}"]
    if clause.place == clause.parts - 1 and not scene.mark.isalnum():
        found.append(f"mark={scene.mark}")
    said = scene.modes.value
    return [*found, *(f"mode={name}" for mode, name in _MODES if said & mode)] if said else found


def _tense(verb: str) -> str:
    """Return the form of a verb: past, ing, or "" for others."""
    return "past" if verb.endswith("ed") or verb in past_verbs() else "ing" if verb.endswith("ing") else ""


def _shape(text: str) -> str:
    """Return the form of a value: 8443 is 9999, v1.2 is a9.9; of a word its length."""
    if any(character.isdigit() for character in text):
        return _RUNS.sub(lambda run: "9" * min(len(run[0]), 5) if run[0].isdigit() else "a", text)[:8]
    return str(min(len(text), 5))


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
    if "be" not in cls[first + 1 : last]:  # what "is" says comes after it
        yield Span(first, last, "all")


def _plain(cls: list[str]) -> bool:
    """Return whether words are a value, or a name, and no more: "at" before it is no part of it."""
    cls = list(dropwhile("prep".__eq__, cls))
    return bool(cls) and (all(name[0] == VALUE for name in cls) or cls[0][0] == VALUE or set(cls) <= _NAMES)


def _bounds(clause: Clause, place: int) -> bool:
    """Return whether "until Friday", "from 1 May" begins at a word: how long a value holds."""
    words = clause.words
    dated = any(word.cls in (VALUE + "date", VALUE + "weekday") for word in words[place + 1 : place + 3])
    return dated and words[place].text.lower() in ("until", "till", "since", "starting", "from")


def _runs(cls: list[str], wanted: frozenset[str], kind: str, values: bool = False) -> Iterator[Span]:
    start = None
    for place in range(len(cls) + 1):
        inside = place < len(cls) and (
            cls[place] in wanted
            or (values and cls[place][0] == VALUE)
            or (values and cls[place] == "own" and start is not None)
        )
        parted = inside and cls[place - 1] == "point" and cls[place][0] == VALUE
        if start is not None and (parted or not inside):
            yield Span(start, place, kind)
            start = None
        if inside and start is None:
            start = place


@cache
def _weights() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """Return by language and kind of stretch, "" for all kinds, the weights of signs."""
    text = files(__package__).joinpath("weights.json").read_text("utf-8")
    read: dict[str, dict[str, dict[str, float]]] = json.loads(text)
    return read
