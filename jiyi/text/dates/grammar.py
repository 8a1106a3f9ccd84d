"""Rules that find time expressions: patterns tried together, each with a function that says what it means.

The rules are data: `en.toml` describes the format.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from jiyi.text.dates.calendar import Days
from jiyi.text.dates.checks import check
from jiyi.text.dates.meanings import Change, meaning
from jiyi.text.dates.slots import Scene, Slots, Words
from jiyi.text.lexicon import filled, read_toml

__all__ = ["Grammar", "Piece"]

_T = TypeVar("_T")

_GROUP = re.compile(r"\(\?P<\w+>")


class _kept(Generic[_T]):
    """A cached_property without the lock of Python 3.11's, which a forked process could find held."""

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make

    def __get__(self, one: Any, _: type) -> _T:
        made = one.__dict__[self._make.__name__] = self._make(one)
        return made


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text and what it means."""

    at: int  # where it begins
    end: int  # where it ends
    days: Days | None  # the days it names
    change: Change | None = None  # instead of days: what it does to the piece that follows


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: str
    meaning: Callable[[Slots], Days | Change | None]
    check: Callable[[Slots], bool | None]
    given: Mapping[str, str]


@dataclass(eq=False)
class Grammar:
    """The rules of one language, tried together from left to right; the first in the list wins."""

    language: str  # names the data file, read when it is first needed
    rules: str = "rules"  # the list in it, or "after_date": those that change a date right before them
    lead: str = ""  # a pattern that comes before all

    def any(self, text: str) -> bool:
        """Return whether some pattern matches in ``text``."""
        return self._together.search(text) is not None

    def find(self, scene: Scene) -> Iterator[Piece]:
        """Give what means something, in order, without overlaps."""
        search, at = self._together.search, 0
        while found := search(scene.text, at):
            piece = self._piece(found.lastindex or 1, found.start(), scene)
            at = piece.end if piece else found.start() + 1
            if piece and (piece.days or piece.change):
                yield piece

    def match(self, scene: Scene, at: int) -> Piece | None:
        """Return what means something and begins at ``at``."""
        found = self._together.match(scene.text, at)
        return self._piece(found.lastindex or 1, at, scene) if found else None

    @_kept
    def _data(self) -> Mapping[str, Any]:
        return read_toml(__package__, self.language)

    @_kept
    def _parts(self) -> Mapping[str, str]:
        words = {
            f"any_{slot}": f"(?:{'|'.join(sorted(meant, key=len, reverse=True))})"  # the longest first
            for slot, meant in self._data["words"].items()
        }
        holidays = {"holiday": "|".join(self._data["holidays"].values())}
        return {**words, **self._data["parts"], **holidays}

    @_kept
    def _words(self) -> Words:
        data = self._data
        return Words(
            slots=data["words"],
            holidays=[(name, re.compile(self._filled(words))) for name, words in data["holidays"].items()],
            before={kind: frozenset(words.split()) for kind, words in data["before"].items()},
            after={kind: tuple(words.split()) for kind, words in data["after"].items()},
        )

    @_kept
    def _rules(self) -> list[_Rule]:
        return [
            _Rule(
                self._filled(one["pattern"]),
                meaning(one["meaning"]),
                check(one["check"]) if "check" in one else lambda _: True,
                one.get("given", {}),
            )
            for one in self._data[self.rules]
        ]

    @_kept
    def _together(self) -> re.Pattern[str]:
        rules = "|".join(f"({_GROUP.sub('(?:', rule.pattern)})" for rule in self._rules)
        begins = _lookahead(self._begins()) if self.rules == "rules" else ""
        return re.compile(f"{self.lead}{begins}(?:{rules})", re.ASCII)

    def _filled(self, pattern: str) -> str:
        return filled(pattern, self._parts).replace("\n", "")

    def _begins(self) -> list[str]:
        data = self._data["begins"]
        begins = [*map(self._filled, data["patterns"]), *data["words"].split()]
        for one in data.get("followed", ()):
            words = one["words"].split() if "words" in one else self._data["words"][one["slot"]]
            then = self._filled(one["then"])
            begins += (f"{first}(?:{'|'.join(rests)}){then}" for first, rests in _by_first(words).items())
        return begins

    def _piece(self, number: int, at: int, scene: Scene) -> Piece | None:
        rule = self._rules[number - 1]
        match = re.compile(rule.pattern, re.ASCII).match(scene.text, at)  # re keeps what it compiled
        if match is None:
            return None
        said = Slots(match, scene, self._words, rule.given)
        sure = rule.check(said)
        if sure is None:
            return None
        try:
            found = rule.meaning(said)
        except (ValueError, OverflowError):  # no such day: nor do parts of the words name one
            return Piece(at, match.end(), None)
        if found is None:
            return None
        if isinstance(found, Days):
            return Piece(at, match.end(), found if sure else replace(found, weak=True))
        return Piece(at, match.end(), None, found)


def _by_first(patterns: Iterable[str]) -> dict[str, list[str]]:
    """Return the rests of patterns by the character, or class of characters, they begin with."""
    found: dict[str, list[str]] = {}
    for pattern in patterns:
        size = pattern.index("]") + 1 if pattern[0] == "[" else 1
        found.setdefault(pattern[:size], []).append(pattern[size:])
    return found


def _lookahead(begins: Sequence[str]) -> str:
    """Return a pattern that consumes nothing and looks for one of ``begins``, by their first characters."""
    by_first = _by_first(begins)
    firsts = "".join(first.strip("[]") for first in by_first)
    looks = "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in by_first.items())
    return f"(?=[{firsts}])(?={looks})"
