"""The forget gate: what no longer matters goes, by rules."""

from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import (
    FactRule,
    ForgetRule,
    ItemRule,
    KindRule,
    KnowledgeRule,
    MessageRule,
    Rule,
)
from jiyi.long_term.forget_gate.run import GateReceipt

__all__ = [
    "FactRule",
    "ForgetGate",
    "ForgetRule",
    "GateReceipt",
    "ItemRule",
    "KindRule",
    "KnowledgeRule",
    "MessageRule",
    "Rule",
]
