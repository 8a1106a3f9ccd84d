"""Context: blocks and a budget become one window."""

from jiyi.context.arrange import Arranged, arrange
from jiyi.context.budget import allot
from jiyi.context.builder import Materials, build_window
from jiyi.context.handover import handover
from jiyi.context.head import SummaryPlace
from jiyi.context.lifecycle import Advice, Health, Thresholds, advise, health
from jiyi.context.order import edges, passages
from jiyi.context.pack import Packer, pack, pack_exact
from jiyi.context.priority import PriorityContext
from jiyi.context.render import context_pieces, render_window
from jiyi.context.shorten import Shorten
from jiyi.context.stages import Stage, split_task

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
