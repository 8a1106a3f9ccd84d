"""Reading messages: what is stated in them, by a small learned model or by a language model."""

from jiyi.extraction.by_llm import extract_with, first_batch_size, read_by_llm
from jiyi.extraction.forms import is_bare_retraction
from jiyi.extraction.reading import extract, extract_message
from jiyi.extraction.rules import RULE_POINTS, rule_meaning
from jiyi.extraction.statement import Reading, Statement
from jiyi.extraction.values import kind_of_value

__all__ = [
    "RULE_POINTS",
    "Reading",
    "Statement",
    "extract",
    "extract_message",
    "extract_with",
    "first_batch_size",
    "is_bare_retraction",
    "kind_of_value",
    "read_by_llm",
    "rule_meaning",
]
