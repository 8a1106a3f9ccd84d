"""Short-term memory: the current conversations, and the policies that decide what stays in a window.

Policies are callables ``policy(messages, budget) -> Kept``; each gives a reason for every
message it drops and never separates a tool call from its results. `Pipeline` combines several.
`RunningSummary` decides what is folded into a summary. `ShortTermMemory` keeps the windows of
the sessions in use, `SummaryUpdater` their stored summaries.
"""

from jiyi.records.atoms import *
from jiyi.short_term.policies import *
from jiyi.short_term.policy import *
from jiyi.short_term.sessions import *
from jiyi.short_term.summaries import *
from jiyi.short_term.summary import *
