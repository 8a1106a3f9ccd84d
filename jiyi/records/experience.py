"""Tasks, the episodes of ended tasks, and the knowledge made from episodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from jiyi.errors import InputError
from jiyi.records.checks import check_metadata, new_id, set_utc, short_repr, stable_id
from jiyi.records.session import Scope

__all__ = [
    "Episode", "ForgetWeights", "Knowledge", "Outcome", "Step", "StepStatus", "Task", "TaskStatus",
    "TriggerType",
]  # fmt: skip

TaskStatus = Literal["in_progress", "completed", "failed"]
StepStatus = Literal["pending", "in_progress", "completed", "failed"]
TriggerType = Literal["user_request", "alert", "scheduled"]
Outcome = Literal["success", "partial", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a task: what was done, with which tool, and the result."""

    scope: Scope  # the task's scope
    task_id: str  # the task it belongs to
    description: str  # what the step does, in words
    id: str = field(default_factory=new_id)  # unique within the user
    seq: int | None = None  # place among the task's steps, assigned by the store
    tool_name: str | None = None  # the tool it uses
    args: Mapping[str, Any] = field(default_factory=dict)  # the tool's arguments
    result: str | None = None  # the tool's output, as text
    status: StepStatus = "pending"
    started_at: datetime | None = None  # when it went in_progress
    completed_at: datetime | None = None  # when it completed or failed

    def __post_init__(self) -> None:
        set_utc(self, "started_at", "completed_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A goal and the steps towards it."""

    scope: Scope  # whose, and in which session
    request: str  # the goal as it was stated
    started_at: datetime
    updated_at: datetime
    id: str = field(default_factory=new_id)  # unique within the user
    status: TaskStatus = "in_progress"
    outcome: Outcome | None = None  # None until it ends
    summary: str | None = None  # the progress so far, or the result once it has ended
    target: str | None = None  # what it was about: a host, a file, a customer
    trigger_type: TriggerType = "user_request"
    tags: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)  # free notes
    completed_at: datetime | None = None
    steps: tuple[Step, ...] = ()  # in order

    def __post_init__(self) -> None:
        set_utc(self, "started_at", "updated_at", "completed_at")

    @property
    def current_step(self) -> Step | None:
        """The current step: the first in progress, else the first pending."""
        order: tuple[StepStatus, ...] = ("in_progress", "pending")
        return next((step for status in order for step in self.steps if step.status == status), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The memory of a finished task."""

    scope: Scope  # whose, and the session it happened in
    trigger_summary: str  # what started it
    outcome: Outcome
    created_at: datetime
    outcome_summary: str = ""  # what was done and with which result
    id: str = field(default_factory=new_id)  # unique within the user
    task_id: str | None = None  # the task it came from
    trigger_type: TriggerType = "user_request"
    steps: tuple[Step, ...] = ()
    target: str | None = None  # what it was about
    tags: tuple[str, ...] = ()
    importance: float = 0.5  # 0..1
    access_count: int = 0  # how often it was recalled
    last_accessed_at: datetime | None = None
    pinned: bool = False  # never forgotten
    consolidated: bool = False  # already part of a Knowledge

    def __post_init__(self) -> None:
        set_utc(self, "created_at", "last_accessed_at")

    @classmethod
    def of_task(cls, task: Task) -> "Episode":
        """Return the episode of an ended task; the same task always gives the same id."""
        assert task.outcome is not None, "only an ended task has an episode"
        return cls(
            id=stable_id("episode", task.scope.user_id, task.id),
            scope=task.scope,
            task_id=task.id,
            trigger_type=task.trigger_type,
            trigger_summary=task.request,
            steps=task.steps,
            outcome=task.outcome,
            outcome_summary=task.summary or "",
            target=task.target,
            tags=task.tags,
            created_at=task.completed_at or task.updated_at,
        )

    @property
    def search_text(self) -> str:
        """What search reads: trigger, target, steps with their tools, outcome, tags."""
        steps = [f"{s.description} {s.tool_name or ''} {s.result or ''}".strip() for s in self.steps]
        parts = [self.trigger_summary, self.target, self.outcome_summary, *steps, " ".join(self.tags)]
        return "\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """A lesson with its sources; raises `InputError`: metadata that cannot be stored."""

    scope: Scope  # whose
    topic: str  # what it is about, a heading
    content: str  # the lesson
    created_at: datetime
    updated_at: datetime
    id: str = field(default_factory=new_id)  # unique within the user
    key_points: tuple[str, ...] = ()
    source_episodes: tuple[str, ...] = ()  # ids of the episodes it was made from
    confidence: float = 0.5  # 0.5..1
    access_count: int = 0  # how often it was recalled
    last_accessed_at: datetime | None = None
    pinned: bool = False  # never forgotten
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the caller's own labels

    def __post_init__(self) -> None:
        if self.metadata != {}:
            object.__setattr__(self, "metadata", check_metadata(self.metadata, InputError))
        set_utc(self, "created_at", "updated_at", "last_accessed_at")

    @property
    def search_text(self) -> str:
        """What search reads: topic, content, key points."""
        return "\n".join([self.topic, self.content, *self.key_points])


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetWeights:
    """What each feature adds to or subtracts from an episode's importance, at most 1; see `ForgetRule`."""

    base: float = 0.5  # of a new episode
    age: float = 0.1  # subtracted for each 720 hours of age
    age_most: float = 0.3  # the most that age subtracts
    access: float = 0.05  # added for each recall
    access_most: float = 0.2  # the most that recalls add
    success: float = 0.1  # added by the outcome
    partial: float = 0.0
    failed: float = -0.05
    alert: float = 0.15  # added if an alert started it
    steps: float = 0.1  # added if it has more than 3 steps

    def __post_init__(self) -> None:
        for name in (weight.name for weight in fields(self)):
            value = getattr(self, name)
            least = 0 if name.startswith(("age", "access")) else -1
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1:
                raise InputError(f"the weight {name}={short_repr(value)} must be a number from {least} to 1")
