"""Phrases that name their subject and value in full: names, likes, corrections, tasks, settings."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from jiyi.extraction.clauses import is_chinese
from jiyi.extraction.statement import Action, Statement
from jiyi.extraction.values import load_patterns, load_table
from jiyi.records import FactCategory
from jiyi.text.lexicon import Hints
from jiyi.text.traits import Mode

__all__ = ["Phrase", "asserted_end", "find_phrases", "has_cue", "tool_settings", "without_speech"]

_MAX_INTRODUCTION, _MAX_TOOL_LINES = 100, 50  # characters of the words before a speech, lines
_HAN_SPACE = re.compile(r"(?<=[\u4e00-\u9fff])\s(?=[\u4e00-\u9fff])")  # it ends a clause in chats
_LOWER_CASE_I = re.compile(r"\bi(?=(?:['’]?(?:m|ve|d|ll))?\b)(?!\.)")


class Phrase(NamedTuple):
    """A pattern for a phrase, and what kind of statement it makes."""

    pattern: str
    predicate: str = ""  # where the pattern has no group for it
    category: FactCategory = "attribute"
    action: Action = "state"
    later: bool = False  # holds from a day ahead that the sentence names, else it is a plan: group w


def find_phrases(sentence: str) -> Iterator[tuple[Phrase, re.Match[str]]]:
    """Yield the phrases in a sentence, each at its first match."""
    sentence = _HAN_SPACE.sub("，", _LOWER_CASE_I.sub("I", sentence))
    phrases, hints = _load_phrases("zh" if is_chinese(sentence) else "en")
    for place in hints.places(sentence.lower()):
        if match := _compiled(phrases[place].pattern).search(sentence):
            yield phrases[place], match


def has_cue(name: str, text: str) -> bool:
    """Return whether a text matches a pattern of forms.toml; ``name`` is SECTION.PATTERN."""
    section, _, cue = name.partition(".")
    return load_patterns("forms", section)[cue].search(text) is not None


def asserted_end(sentence: str, mode: Mode) -> int:
    """Return where the part of a sentence ends that is asserted, not asked, supposed or cited."""
    cues = load_patterns("forms", "unmeant")
    asks = mode & Mode.ASKED and cues["asks"].search(sentence)
    reports = mode & Mode.REPORTED and not cues["person"].search(sentence)
    if asks or reports or cues["sentence"].search(sentence) or _has_implausible_year(sentence):
        return 0
    condition = cues["rest"].search(sentence)
    return condition.start() if condition else len(sentence)


def without_speech(text: str) -> str:
    """Return a text with spaces for what others say of themselves in quotes, and line ends for emoji."""
    cues = load_patterns("forms", "unmeant")

    def blank(speech: re.Match[str]) -> str:
        before = max(0, speech.start() - _MAX_INTRODUCTION)
        own = cues["own_speech"].search(text, before, speech.start())
        return speech[0] if own else " " * len(speech[0])

    text = cues["inside"].sub(" ", cues["speech"].sub(blank, text))
    return cues["decoration"].sub(lambda emoji: "\n".ljust(len(emoji[0])), text)


def _has_implausible_year(sentence: str) -> bool:
    """Return whether a sentence names a year before 1500 or after 2199."""
    may_have_year = any(letter.isdigit() for letter in sentence) or not sentence.isascii()
    return may_have_year and has_cue("unmeant.beyond", sentence)


def tool_settings(text: str, *, speaker: str, said_at: datetime) -> Iterator[Statement]:
    """Yield the settings in a tool's output: ``pay-gw: Image=registry/pay-gw:2.9.0 ...``.

    A line without a subject is about what the command asked for. Counters, times and other transient
    figures are left out.
    """
    cues = load_patterns("forms", "tool_line")
    common: dict[str, Any] = {"speaker": speaker, "by_person": False, "said_at": said_at, "confidence": 0.5}
    requested = ""
    for row in islice(cues["row"].finditer(text), _MAX_TOOL_LINES):
        line, head = row[0], cues["about"].match(row[0])
        requested = command["s"] if (command := cues["command"].match(line)) else requested
        for name in (cue for cue in cues if cue.startswith("pair")):
            for pair in cues[name].finditer(line, head.end() if head and name == "pair" else 0):
                groups = pair.groupdict()
                named = groups.get("s") or groups.get("name")
                subject = named or (head and head[head.lastgroup or 0]) or requested
                point, value = groups.get("p") or name.rpartition(": ")[2], groups["o"] or groups["at"]
                if subject not in ("", point) and not cues["passing"].match(point):
                    fields = common | {"subject": subject, "predicate": point, "object": value.strip('"')}
                    yield Statement(quote=pair[0].strip(), replaces=groups.get("old") or "", **fields)
                requested = value if point == "name" else requested


_compiled = cache(re.compile)  # on first use: compiling all of them takes a third of a second


@cache
def _load_phrases(language: str) -> tuple[Sequence[Phrase], Hints]:
    """Return the phrases of a language, and the hints in sentences, in lower case, that they match."""
    rows = load_table("forms")[language]
    phrases = [Phrase(**{name: value for name, value in row.items() if name != "hints"}) for row in rows]
    return phrases, Hints(row["hints"] for row in rows)
