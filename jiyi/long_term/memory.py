"""The parts of long-term memory, together."""

from dataclasses import dataclass

from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.reading import Reader
from jiyi.long_term.recall.recall import Recall

__all__ = ["LongTermMemory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """What outlives the session; every part works on the same database."""

    recall: Recall  # finds it again
    indexer: Indexer  # makes its vectors
    facts: FactMemory  # statements that change with time
    reader: Reader | None  # reads them from talk by a language model; None: there is none, or it is off
    consolidation: Consolidation  # turns episodes into knowledge
    gate: ForgetGate  # lets go of what no longer matters
    forgetting: Forgetting  # forgets what is asked for, and brings it back
