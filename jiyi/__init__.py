"""jiyi (记忆): memory for LLM agents.

::

    import jiyi

    memory = jiyi.open("agent.db", user_id="ana")
    memory.save_message("s-42", {"role": "user", "content": "nginx 又 502 了"})
    window = memory.build_context("s-42", "上次 502 是怎么修好的？", budget=4000)
"""

from jiyi import errors
from jiyi.async_manager import AsyncMemoryManager
from jiyi.errors import JiyiError
from jiyi.long_term import ForgetRule
from jiyi.manager import MemoryManager
from jiyi.records import (
    Block,
    Budget,
    Episode,
    Fact,
    Hit,
    Hits,
    Knowledge,
    Message,
    Query,
    Report,
    Scope,
    Session,
    Step,
    Task,
    ToolCall,
    Window,
)
from jiyi.settings import Settings
from jiyi.short_term import SlidingWindow, TokenBudget
from jiyi.wiring import open_async_memory as open_async
from jiyi.wiring import open_memory as open

__version__ = "0.1.0"

__all__ = [
    "AsyncMemoryManager",
    "Block",
    "Budget",
    "Episode",
    "Fact",
    "ForgetRule",
    "Hit",
    "Hits",
    "JiyiError",
    "Knowledge",
    "MemoryManager",
    "Message",
    "Query",
    "Report",
    "Scope",
    "Session",
    "Settings",
    "SlidingWindow",
    "Step",
    "Task",
    "TokenBudget",
    "ToolCall",
    "Window",
    "__version__",
    "errors",
    "open",
    "open_async",
]
