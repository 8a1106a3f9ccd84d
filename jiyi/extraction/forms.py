"""Turns of phrase that say in full what they are about: names, likes, owners, corrections, tasks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.statement import Action
from jiyi.extraction.values import table
from jiyi.records import FactCategory
from jiyi.text.modality import Mode

__all__ = ["Form", "erases", "forms_in", "is_bare", "meant", "takes_back", "unmeant"]


@dataclass(frozen=True, slots=True)
class Form:
    """A turn of phrase."""

    pattern: str
    predicate: str = ""  # where the pattern has no group for it
    category: FactCategory = "attribute"
    action: Action = "state"


def forms_in(sentence: str) -> Iterator[tuple[Form, re.Match[str]]]:
    """Give the turns of phrase in a sentence, each the first time it stands there."""
    lower = sentence.lower()
    forms, hints = _forms()["zh" if is_chinese(sentence) else "en"]
    hinted = {place for hint, places in hints.items() if hint in lower for place in places}
    for place in sorted(hinted):
        if found := _compiled(forms[place].pattern).search(sentence):
            yield forms[place], found


def takes_back(sentence: str) -> bool:
    """Return whether a sentence asks for something said to be forgotten."""
    back = _forms()["taking_back"]
    return back["en"].search(sentence) is not None or (
        not sentence.isascii() and back["zh"].search(sentence) is not None
    )


def erases(sentence: str) -> bool:
    """Return whether a retraction asks for the thing itself to go, whatever its value was."""
    return _forms()["taking_back"]["erases"].search(sentence) is not None


def is_bare(sentence: str) -> bool:
    """Return whether a retraction names nothing: what was said last is meant."""
    return _forms()["taking_back"]["bare"].match(sentence.replace("’", "'")) is not None


def unmeant(text: str) -> bool:
    """Return whether a message as a whole states nothing: fiction, something to translate, jest."""
    return _forms()["unmeant"]["message"].search(text) is not None


def meant(sentence: str, mode: Mode) -> int:
    """Return up to where a sentence states something: not what it asks, supposes or has from a document."""
    signs = _forms()["unmeant"]
    asks = mode & Mode.ASKED and signs["asks"].search(sentence)
    reports = mode & Mode.REPORTED and not signs["person"].search(sentence)
    if asks or reports or signs["sentence"].search(sentence):
        return 0
    condition = None if sentence.isascii() else signs["rest"].search(sentence)
    return condition.start() if condition else len(sentence)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when a sentence first has one of its hints: all of them take a third of a second."""
    return re.compile(pattern)


@cache
def _forms() -> dict[str, Any]:
    read = table("forms")
    found: dict[str, Any] = {
        name: {key: re.compile(pattern) for key, pattern in read[name].items()}
        for name in ("taking_back", "unmeant")
    }
    for language in ("en", "zh"):
        forms: list[Form] = []
        hints: dict[str, list[int]] = {}  # one of a form's stands in the sentence, in lower case
        for place, one in enumerate(read[language]):
            for hint in one.pop("hints"):
                hints.setdefault(hint, []).append(place)
            forms.append(Form(**one))
        found[language] = forms, hints
    return found
