"""Short-term memory: the conversation in hand, and the policies that decide what of it stays.

Policies are callables ``policy(messages, budget) -> Kept``; each gives a reason for every
message that leaves and never parts a tool call from its results. `ShortTermMemory` keeps
the windows of the sessions in use.
"""

from jiyi.short_term.policy import Dropped, Kept, Policy
from jiyi.short_term.sessions import ShortTermMemory
from jiyi.short_term.sliding_window import SlidingWindow
from jiyi.short_term.token_budget import TokenBudget
from jiyi.short_term.turns import Atom, atoms, turns

__all__ = [
    "Atom",
    "Dropped",
    "Kept",
    "Policy",
    "ShortTermMemory",
    "SlidingWindow",
    "TokenBudget",
    "atoms",
    "turns",
]
