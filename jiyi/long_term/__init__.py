"""Long-term memory: what outlives the session, and how it is found again."""

from jiyi.long_term.blocks import recall_blocks
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.ranking import WEIGHTS, fuse
from jiyi.long_term.recall import Recall

__all__ = ["WEIGHTS", "Indexer", "Recall", "fuse", "recall_blocks"]
