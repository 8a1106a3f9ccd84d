"""The names of `import jiyi`, loaded when one of them is first used."""

from jiyi import errors
from jiyi.agent import Action, Agent, Goal, action
from jiyi.async_manager import AsyncMemoryManager
from jiyi.client import connect, connect_async
from jiyi.errors import JiyiError
from jiyi.long_term import ForgetRule
from jiyi.manager import MemoryManager
from jiyi.records.budget import Budget
from jiyi.records.experience import Episode, Knowledge, Step, Task
from jiyi.records.fact import Fact
from jiyi.records.message import Message, ToolCall
from jiyi.records.query import Hit, Hits, Listing, Query
from jiyi.records.session import Scope, Session, Summary
from jiyi.records.skill import Skill
from jiyi.records.window import Block, Report, Window
from jiyi.settings import Settings
from jiyi.short_term import ImportanceSampling, Pipeline, RunningSummary, SlidingWindow, TokenBudget
from jiyi.wiring import open, open_async

__version__ = "0.1.0"

__all__ = [
    "Action", "Agent", "AsyncMemoryManager", "Block", "Budget", "Episode", "Fact", "ForgetRule", "Goal",
    "Hit", "Hits", "ImportanceSampling", "JiyiError", "Knowledge", "Listing", "MemoryManager", "Message",
    "Pipeline", "Query", "Report", "RunningSummary", "Scope", "Session", "Settings", "Skill", "SlidingWindow",
    "Step", "Summary", "Task", "TokenBudget", "ToolCall", "Window", "__version__", "action", "connect",
    "connect_async", "errors", "open", "open_async",
]  # fmt: skip
