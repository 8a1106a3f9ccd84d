"""The task in hand: a goal, the steps towards it, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from jiyi.records.checks import set_utc
from jiyi.records.ids import new_id
from jiyi.records.scope import Scope

__all__ = ["Outcome", "Step", "StepStatus", "Task", "TaskStatus", "TriggerType"]

TaskStatus = Literal["in_progress", "completed", "failed"]
StepStatus = Literal["pending", "in_progress", "completed", "failed"]
TriggerType = Literal["user_request", "alert", "scheduled"]
Outcome = Literal["success", "partial", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a task: what was done, with which tool, and what came of it."""

    scope: Scope  # the task's scope
    task_id: str  # the task it belongs to
    description: str  # what the step does, in words
    id: str = field(default_factory=new_id)  # unique within the user
    seq: int | None = None  # place among the task's steps, given by the store
    tool_name: str | None = None  # the tool it uses
    args: Mapping[str, Any] = field(default_factory=dict)  # the tool's arguments
    result: str | None = None  # what the tool gave back, as text
    status: StepStatus = "pending"
    started_at: datetime | None = None  # when it went in_progress
    completed_at: datetime | None = None  # when it completed or failed

    def __post_init__(self) -> None:
        """Bring the times to UTC."""
        set_utc(self, "started_at", "completed_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A goal somebody set, and the steps towards it."""

    scope: Scope  # whose, and in which session
    request: str  # the goal as it was put
    started_at: datetime
    updated_at: datetime
    id: str = field(default_factory=new_id)  # unique within the user
    status: TaskStatus = "in_progress"
    outcome: Outcome | None = None  # once it has ended
    summary: str | None = None  # how far it has come; once it has ended, what came of it
    target: str | None = None  # what it was about: a host, a file, a customer
    trigger_type: TriggerType = "user_request"
    tags: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)  # free notes
    completed_at: datetime | None = None
    steps: tuple[Step, ...] = ()  # in order

    def __post_init__(self) -> None:
        """Bring the times to UTC."""
        set_utc(self, "started_at", "updated_at", "completed_at")

    @property
    def current_step(self) -> Step | None:
        """The step in work: the first that is in progress, else the first still pending."""
        for status in ("in_progress", "pending"):
            for step in self.steps:
                if step.status == status:
                    return step
        return None
