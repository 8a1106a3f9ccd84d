"""Short-term memory: the current conversations, and the policies that decide what stays in a window.

Policies are callables ``policy(messages, budget) -> Kept``; each gives a reason for every
message it drops and never separates a tool call from its results. `Pipeline` combines several.
`RunningSummary` decides what is folded into a summary. `ShortTermMemory` keeps the windows of
the sessions in use, `SummaryUpdater` their stored summaries.
"""

from jiyi.records.atoms import Atom, atoms, turns
from jiyi.short_term.importance import ImportanceSampling
from jiyi.short_term.policies import Pipeline, SlidingWindow, TokenBudget
from jiyi.short_term.policy import Dropped, Kept, Policy
from jiyi.short_term.sessions import ShortTermMemory
from jiyi.short_term.summaries import Summaries, summary_block
from jiyi.short_term.summary import Folded, RunningSummary, Summarized, Summarizer
from jiyi.short_term.summary_updater import Background, SummaryState, SummaryUpdater

__all__ = [
    "Atom",
    "Background",
    "Dropped",
    "Folded",
    "ImportanceSampling",
    "Kept",
    "Pipeline",
    "Policy",
    "RunningSummary",
    "ShortTermMemory",
    "SlidingWindow",
    "Summaries",
    "Summarized",
    "Summarizer",
    "SummaryState",
    "SummaryUpdater",
    "TokenBudget",
    "atoms",
    "summary_block",
    "turns",
]
