"""Cuts a message into sentences and clauses."""

import re
from collections.abc import Iterator

from jiyi.extraction.en import LEADS_EN
from jiyi.extraction.points import POINT_ZH
from jiyi.extraction.rule import Clause
from jiyi.extraction.zh import LEADS_ZH

__all__ = ["clauses", "is_chinese", "sentences"]

_LONGEST = 400  # characters of a sentence that is read; a longer one is no plain statement
_HAN = re.compile(r"[\u4e00-\u9fff]")
_FENCED = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_END = re.compile(r"[。！？；!?;\n]+|\.+(?=\s|\Z)|\Z")
_ABBREVIATED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|St|Prof|e\.g|i\.e|vs|No|approx|etc|a\.k\.a|[A-Z])\.\Z")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s+")
_LEADING = (
    "also and but so then by btw fyi note please remember just heads for ok okay right well oh hey hi now "
    "currently actually correction update decision yes yeah no sure thanks from as since after in "
    "maintenance anyway plus because that which"
)
_FIRST_EN = frozenset(_LEADING.split())
_COMMAS_ZH = re.compile(r"[，,](?!\d{3})|(?<=[^\d])[：:](?=.{6})")
_POINT_BEFORE = re.compile(rf"{POINT_ZH}\s?\Z")
_COMMAS_EN = re.compile(r",(?!\d)|\s(?:and|but|so) (?=(?:I|we|he|she|they|my|the|it)\b)")


def is_chinese(text: str) -> bool:
    """Return whether Chinese characters are in a text."""
    return not text.isascii() and _HAN.search(text) is not None


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
        if 3 < len(part) <= _LONGEST:
            yield part


def clauses(sentence: str) -> list[Clause]:
    """Return the clauses of a sentence, each without what only leads in to it."""
    chinese = is_chinese(sentence)
    body = sentence.rstrip("。！？；!?;.…~ \n")
    found: list[Clause] = []
    start = 0
    for end in [*_ends(body, chinese), len(body)]:
        part = body[start:end].lstrip("，,：: ")
        part = re.sub(r"^(?:and|but|so) ", "", part)
        place = end - len(part)
        text = part.strip()
        lead = LEADS_ZH.match(text) if chinese else _lead_en(text)
        if lead and lead.end() < len(text):
            place += lead.end()
            text = text[lead.end() :]
        if text:
            found.append(Clause(text=text, sentence=sentence, place=place))
        start = end
    return found


def _lead_en(text: str) -> re.Match[str] | None:
    first = text.split(maxsplit=1)[0].strip(",:;—-").lower() if text else ""
    return LEADS_EN.match(text) if first in _FIRST_EN else None


def _ends(body: str, chinese: bool) -> Iterator[int]:
    for match in (_COMMAS_ZH if chinese else _COMMAS_EN).finditer(body):
        if match[0] not in "：:" or not _POINT_BEFORE.search(body, 0, match.start()):
            yield match.start()
