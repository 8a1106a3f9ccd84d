"""Working memory: the task in hand."""

from jiyi.working.blocks import task_block
from jiyi.working.tasks import WorkingMemory

__all__ = ["WorkingMemory", "task_block"]
