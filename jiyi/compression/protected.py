"""Spans of a text that stay whole or leave whole: code, JSON, URLs, paths, ids, numbers, quotations."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache

from jiyi.text.lexicon import filled, read_toml

__all__ = ["protected_spans"]

_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^[ \t]*\1`*~*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INDENTED_LINE = re.compile(r"^(?:\t| {4,})\S.*$", re.MULTILINE)
_BRACE = re.compile(r"[{\[](?=\s*[\"{\[\]}\d-]|\s*(?:true|false|null)\b)")
_DECODER = json.JSONDecoder()
_MOST_FAILURES = 100  # braces that open no JSON, after which none is tried again
_NUMBERED = re.compile(r"^[ \t]*(\d{1,3})[.)、](?=[ \t]+\S)", re.MULTILINE)  # the number of a list's point


@cache
def _span() -> re.Pattern[str]:
    read = read_toml(__package__, "protected")
    return re.compile(filled("|".join(read["patterns"].values()), read["parts"]).replace("\n", ""))


def protected_spans(text: str, forced: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return the spans of ``text`` that are never cut, as ``(start, end)``, in order, without overlap.

    Code in fences and back-ticks, lines indented as code, JSON, URLs, addresses, paths,
    options, ids and names with digits, quotations of at most 120 characters, numbers with
    their units, and what is in ``forced`` as it is written there.
    """
    blocks = sorted([*_fenced(text), *_json(text)])
    numbers = {match.start(1) for match in _NUMBERED.finditer(text)}
    singles = [match.span() for match in _span().finditer(text) if match.start() not in numbers]
    wanted = [found.span() for word in forced if word for found in re.finditer(re.escape(word), text)]
    return _merged(sorted([*blocks, *singles, *wanted]))


def _fenced(text: str) -> Iterator[tuple[int, int]]:
    if "```" in text or "~~~" in text:
        yield from (match.span() for match in _FENCE.finditer(text))
    if "    " in text or "\t" in text:
        yield from (match.span() for match in _INDENTED_LINE.finditer(text))


def _json(text: str) -> Iterator[tuple[int, int]]:
    """Give the objects and lists of JSON in a text; a list of plain words in brackets is none."""
    at = failures = 0
    while failures < _MOST_FAILURES and (found := _BRACE.search(text, at)):
        try:
            _, end = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            failures += 1
            at = found.end()
            continue
        yield found.start(), end
        at = end


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the spans that overlap."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        elif end > start:
            out.append((start, end))
    return out
