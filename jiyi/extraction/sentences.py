"""Cuts a message into sentences."""

import re
from collections.abc import Iterator

__all__ = ["sentences"]

_LONGEST = 1_000  # characters of a sentence that is read
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_END = re.compile(r"[。！？；!?;\n]+|\.+(?=\s|\Z)|\Z")
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|Fr|e\.g|i\.e|vs|No|approx|etc|a\.k\.a|[A-Z])\.\Z")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s+")


def sentences(text: str) -> Iterator[str]:
    """Give the sentences of a text with their marks, without code blocks and quoted lines."""
    if "```" in text or ">" in text:
        text = _FENCED.sub("\n", text)
    start = 0
    for match in _END.finditer(text):
        if match[0].startswith(".") and _ABBREVIATED.search(text, max(start, match.end() - 12), match.end()):
            continue
        part = _BULLET.sub("", text[start : match.end()]).strip()
        start = match.end()
        if part.strip("。！？；!?;.… ") and len(part) <= _LONGEST:
            yield part
