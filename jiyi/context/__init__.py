"""Context: blocks and a budget become one window."""

from jiyi.context.builder import Materials, build_window
from jiyi.context.conversation import Arranged, Shorten, arrange
from jiyi.context.handover import Stage, handover, split_task
from jiyi.context.health import Advice, Health, Thresholds, advise, health
from jiyi.context.pack import Packer, PriorityContext, allot, pack, pack_exact
from jiyi.context.prefix import SummaryPlace
from jiyi.context.render import context_pieces, edges, passages, render_window

__all__ = [
    "Advice",
    "Arranged",
    "Health",
    "Materials",
    "Packer",
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
    "pack_exact",
    "passages",
    "render_window",
    "split_task",
]
