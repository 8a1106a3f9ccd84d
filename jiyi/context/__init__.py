"""Context: blocks and a budget become one window."""

from jiyi.context.arrange import Arranged, arrange
from jiyi.context.budget import allot
from jiyi.context.builder import Materials, build_window
from jiyi.context.order import edges
from jiyi.context.pack import pack
from jiyi.context.render import HEADINGS, render_context, render_window

__all__ = [
    "HEADINGS",
    "Arranged",
    "Materials",
    "allot",
    "arrange",
    "build_window",
    "edges",
    "pack",
    "render_context",
    "render_window",
]
