"""Reading messages: what is stated in them, by a small learned model or by a language model."""

from jiyi.extraction.by_llm import extract_with, first_stretch, read_by_llm
from jiyi.extraction.forms import is_bare
from jiyi.extraction.reading import extract, extract_message
from jiyi.extraction.rules import RULE_POINTS, meaning_of
from jiyi.extraction.statement import Reading, Statement
from jiyi.extraction.values import kind_of_value

__all__ = [
    "RULE_POINTS",
    "Reading",
    "Statement",
    "extract",
    "extract_message",
    "extract_with",
    "first_stretch",
    "is_bare",
    "kind_of_value",
    "meaning_of",
    "read_by_llm",
]
