"""Long-term memory: what outlives the session, and how it is found again."""

from jiyi.long_term.accesses import Accesses
from jiyi.long_term.blocks import recall_blocks
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.recall import Recall, Second
from jiyi.long_term.weights import WEIGHTS

__all__ = ["WEIGHTS", "Accesses", "Indexer", "Recall", "Second", "recall_blocks"]
