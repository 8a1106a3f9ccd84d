"""Context: blocks and a budget become one window."""

from jiyi.context.builder import Materials, build_window
from jiyi.context.conversation import ConversationParts, Shorten, arrange
from jiyi.context.handover import Stage, handover, split_task
from jiyi.context.health import Advice, Health, Thresholds, advise, health
from jiyi.context.pack import PriorityContext, allot, pack
from jiyi.context.prefix import SummaryPlace
from jiyi.context.render import context_pieces, edges, passages, render_window

__all__ = [
    "Advice",
    "ConversationParts",
    "Health",
    "Materials",
    "PriorityContext",
    "Shorten",
    "Stage",
    "SummaryPlace",
    "Thresholds",
    "advise",
    "allot",
    "arrange",
    "build_window",
    "context_pieces",
    "edges",
    "handover",
    "health",
    "pack",
    "passages",
    "render_window",
    "split_task",
]
