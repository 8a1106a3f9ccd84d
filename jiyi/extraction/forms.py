"""Turns of phrase that say in full what they are about: names, likes, corrections, tasks, settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.statement import Action, Statement
from jiyi.extraction.values import patterns, table
from jiyi.records import FactCategory
from jiyi.text.modality import Mode

__all__ = [
    "Form",
    "erases",
    "forms_in",
    "is_bare",
    "is_beyond",
    "meant",
    "read_tool_lines",
    "takes_back",
    "unmeant",
]


_MOST_LINES = 50
_SMALL_I = re.compile(r"\bi(?=(?:['’]?(?:m|ve|d|ll))?\b)(?!\.)")


@dataclass(frozen=True, slots=True)
class Form:
    """A turn of phrase."""

    pattern: str
    predicate: str = ""  # where the pattern has no group for it
    category: FactCategory = "attribute"
    action: Action = "state"
    later: bool = False  # holds from a day ahead that the sentence names, else it is a plan: group w


def forms_in(sentence: str) -> Iterator[tuple[Form, re.Match[str]]]:
    """Give the turns of phrase in a sentence, each the first time it stands there."""
    lower = sentence.lower()
    sentence = _SMALL_I.sub("I", sentence)
    forms, hints = _forms("zh" if is_chinese(sentence) else "en")
    hinted = {place for hint, places in hints.items() if hint in lower for place in places}
    for place in sorted(hinted):
        if found := _compiled(forms[place].pattern).search(sentence):
            yield forms[place], found


def takes_back(sentence: str) -> bool:
    """Return whether a sentence asks for something said to be forgotten."""
    back = patterns("forms", "taking_back")
    languages = ("en",) if sentence.isascii() else ("en", "zh")
    return any(back[language].search(sentence) for language in languages)


def erases(sentence: str) -> bool:
    """Return whether a retraction asks for the thing itself to go, whatever its value was."""
    return patterns("forms", "taking_back")["erases"].search(sentence) is not None


def is_bare(sentence: str) -> bool:
    """Return whether a retraction names nothing: what was said last is meant."""
    return patterns("forms", "taking_back")["bare"].match(sentence.replace("’", "'")) is not None


def unmeant(text: str) -> bool:
    """Return whether a message as a whole states nothing: fiction, something to translate, jest."""
    return patterns("forms", "unmeant")["message"].search(text) is not None


def meant(sentence: str, mode: Mode) -> int:
    """Return up to where a sentence states something: not what it asks, supposes or has from a document."""
    signs = patterns("forms", "unmeant")
    if is_beyond(sentence):
        return 0
    asks = mode & Mode.ASKED and signs["asks"].search(sentence)
    reports = mode & Mode.REPORTED and not signs["person"].search(sentence)
    if asks or reports or signs["sentence"].search(sentence):
        return 0
    condition = None if sentence.isascii() else signs["rest"].search(sentence)
    return condition.start() if condition else len(sentence)


def is_beyond(sentence: str) -> bool:
    """Return whether a sentence dates something to a year before 1500 or after 2199."""
    dated = any(letter.isdigit() for letter in sentence) or not sentence.isascii()
    return dated and patterns("forms", "unmeant")["beyond"].search(sentence) is not None


def read_tool_lines(text: str, *, speaker: str, said_at: datetime) -> list[Statement]:
    """Return the settings in a tool's output: ``pay-gw: Image=registry/pay-gw:2.9.0 ...``.

    A pair counts only where the line begins with the name of what it belongs to; counters,
    times and other figures that pass are left out.
    """
    signs = patterns("forms", "tool_line")
    return [
        Statement(
            subject=about["s"],
            predicate=pair["p"],
            object=pair["o"],
            quote=line.strip()[:400],
            speaker=speaker,
            by_person=False,
            said_at=said_at,
            confidence=0.5,
        )
        for line in text.splitlines()[:_MOST_LINES]
        if (about := signs["about"].match(line))
        for pair in signs["pair"].finditer(line, about.end())
        if not signs["passing"].match(pair["p"])
    ]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when a sentence first has one of its hints: all of them take a third of a second."""
    return re.compile(pattern)


@cache
def _forms(language: str) -> tuple[Sequence[Form], Mapping[str, Sequence[int]]]:
    """Return the turns of phrase of a language, and by each hint the places of those that it is one of."""
    forms: list[Form] = []
    hints: dict[str, list[int]] = {}  # one of a form's stands in the sentence, in lower case
    for place, row in enumerate(table("forms")[language]):
        for hint in row["hints"]:
            hints.setdefault(hint, []).append(place)
        forms.append(Form(**{name: value for name, value in row.items() if name != "hints"}))
    return forms, hints
