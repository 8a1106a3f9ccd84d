"""Working memory: the current task, and the scratch pad of the run that works on it."""

from jiyi.working.scratch import Scratch, describe_call
from jiyi.working.tasks import WorkingMemory, task_block

__all__ = ["Scratch", "WorkingMemory", "describe_call", "task_block"]
