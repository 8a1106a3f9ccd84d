"""Consolidation: episodes about the same thing become knowledge."""

from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.consolidation.write import ConsolidatedGroup, ConsolidationReceipt

__all__ = ["ConsolidatedGroup", "Consolidation", "ConsolidationReceipt"]
