"""Turns of phrase that say in full what they are about: names, likes, corrections, tasks, settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.statement import Action, Statement
from jiyi.extraction.values import patterns, table
from jiyi.records import FactCategory
from jiyi.text.modality import Mode

__all__ = ["Form", "forms_in", "has_sign", "is_bare", "is_beyond", "meant", "read_tool_lines", "takes_back"]

_MOST_LINES = 50
_SMALL_I = re.compile(r"\bi(?=(?:['’]?(?:m|ve|d|ll))?\b)(?!\.)")


class Form(NamedTuple):
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
    return has_sign("taking_back.en", sentence) or has_sign("taking_back.zh", sentence)


def is_bare(sentence: str) -> bool:
    """Return whether a retraction names nothing: what was said last is meant."""
    return has_sign("taking_back.bare", sentence.replace("’", "'"))


def has_sign(name: str, text: str) -> bool:
    """Return whether a text has a sign of forms.toml, by the names of its section and of the sign."""
    section, _, sign = name.partition(".")
    return patterns("forms", section)[sign].search(text) is not None


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
    return dated and has_sign("unmeant.beyond", sentence)


def read_tool_lines(text: str, *, speaker: str, said_at: datetime) -> Iterator[Statement]:
    """Give the settings in a tool's output: ``pay-gw: Image=registry/pay-gw:2.9.0 ...``.

    What names no thing is about what the command asked for; counters, times and other figures that
    pass are left out.
    """
    signs = patterns("forms", "tool_line")
    pairs = [name for name in signs if name.startswith("pair")]
    of: dict[str, Any] = {"speaker": speaker, "by_person": False, "said_at": said_at, "confidence": 0.5}
    asked = ""
    for row in islice(signs["row"].finditer(text), _MOST_LINES):
        line, head = row[0], signs["about"].match(row[0])
        asked = command["s"] if (command := signs["command"].match(line)) else asked
        for name in pairs:
            for pair in signs[name].finditer(line, head.end() if head and name == "pair" else 0):
                said = pair.groupdict()
                subject = said.get("s") or said.get("name") or (head and head[head.lastgroup or 0]) or asked
                point, value = said.get("p") or name.rpartition(": ")[2], said["o"] or said["at"]
                if subject not in ("", point) and not signs["passing"].match(point):
                    named = of | {"subject": subject, "predicate": point, "object": value.strip('"')}
                    yield Statement(quote=pair[0].strip(), replaces=said.get("old") or "", **named)
                asked = value if point == "name" else asked


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
