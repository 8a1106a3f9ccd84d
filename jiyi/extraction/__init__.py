"""Reading messages: what is stated in them, by a small learned model or by a language model."""

from jiyi.extraction.by_llm import extract_with, first_stretch, read_by_llm
from jiyi.extraction.forms import is_bare
from jiyi.extraction.reading import extract
from jiyi.extraction.statement import Action, Reading, Statement
from jiyi.extraction.values import kind_of_value

__all__ = [
    "Action",
    "Reading",
    "Statement",
    "extract",
    "extract_with",
    "first_stretch",
    "is_bare",
    "kind_of_value",
    "read_by_llm",
]
