"""Long-term memory: what outlives the session, how it changes, and how it is found again."""

from jiyi.long_term.blocks import BlockWriter, Recalled, recall_blocks
from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.consolidation.writer import ConsolidationReceipt
from jiyi.long_term.facts.lookup import Neighbour, neighbours, profile_block, profile_of
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.facts.merge import Learned
from jiyi.long_term.facts.succession import Succession
from jiyi.long_term.forget_gate.gate import ForgetGate, gate_of
from jiyi.long_term.forget_gate.rules import ForgetRule, Rule
from jiyi.long_term.forget_gate.run import GateReceipt
from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.long_term.forgetting.plan import ForgetReceipt, RestoreReceipt
from jiyi.long_term.indexing import NO_STATUS, Indexer
from jiyi.long_term.memory import LongTermMemory, Maintained, Maintenance, maintain
from jiyi.long_term.reading import Reader, ReadingState, reading_state
from jiyi.long_term.recall.accesses import Accesses
from jiyi.long_term.recall.recall import Recall, Second
from jiyi.long_term.recall.weights import WEIGHTS
from jiyi.long_term.updating import Change, Updating
from jiyi.long_term.worker import Worker

__all__ = [
    "NO_STATUS",
    "WEIGHTS",
    "Accesses",
    "BlockWriter",
    "Change",
    "Consolidation",
    "ConsolidationReceipt",
    "FactMemory",
    "ForgetGate",
    "ForgetReceipt",
    "ForgetRule",
    "Forgetting",
    "GateReceipt",
    "Indexer",
    "Learned",
    "LongTermMemory",
    "Maintained",
    "Maintenance",
    "Neighbour",
    "Reader",
    "ReadingState",
    "Recall",
    "Recalled",
    "RestoreReceipt",
    "Rule",
    "Second",
    "Succession",
    "Updating",
    "Worker",
    "gate_of",
    "maintain",
    "neighbours",
    "profile_block",
    "profile_of",
    "reading_state",
    "recall_blocks",
]
