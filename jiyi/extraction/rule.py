"""A pattern and what it means."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jiyi.extraction.statement import Action
from jiyi.records import FactCategory

__all__ = ["ME", "Clause", "Rule", "Rules"]

ME = "\0me"
"""The subject of what somebody says about himself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A part of a sentence that patterns are laid on."""

    text: str  # the words, without what only leads in
    sentence: str  # the sentence it stands in
    place: int  # where in the sentence it begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A pattern and what it means.

    The groups of the pattern name the parts: ``s`` subject, ``p`` predicate, ``o`` object,
    ``old`` the value that is replaced, ``product`` what a version belongs to. ``f`` is subject
    and predicate in one, to be parted; where ``me`` takes part, the subject is the speaker.
    """

    category: FactCategory
    pattern: re.Pattern[str]
    hints: tuple[str, ...]  # of these one must stand in the sentence, in lower case
    subject: str = ""  # the subject, where the pattern has no group for it; ME: the speaker
    predicate: str = ""  # the predicate, where the pattern has no group for it
    action: Action = "state"
    confidence: float = 0.6
    whole: bool = False  # laid on the whole sentence, not on its clauses
    own: bool = True  # only what users say; False: assistants may say it too
    point: bool = False  # a word that names a point must stand in the sentence
    denied: bool = False  # holds although the clause denies: "I don't like"


class Rules:
    """Rules, and a quick way to those that may fit a sentence.

    Args:
        rules: in the order in which they count.
        points: finds the points that rules with ``point`` need.
    """

    def __init__(self, rules: Sequence[Rule], points: re.Pattern[str]) -> None:
        self._rules = tuple(rules)
        self._points = points

    def fitting(self, sentence: str) -> list[Rule]:
        """Return the rules of which a hint stands in a sentence, and a point where they need one."""
        inside = sentence.lower().__contains__
        found = [rule for rule in self._rules if any(map(inside, rule.hints))]
        if any(rule.point for rule in found) and not self._points.search(sentence):
            found = [rule for rule in found if not rule.point]
        return found
