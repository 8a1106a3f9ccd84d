"""Recall: from a question to the records that answer it."""

from jiyi.long_term.recall.accesses import Accesses
from jiyi.long_term.recall.recall import Recall, Second
from jiyi.long_term.recall.weights import WEIGHTS

__all__ = ["WEIGHTS", "Accesses", "Recall", "Second"]
