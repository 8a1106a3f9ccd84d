"""An experience: a task that ended, and what came of it."""

from dataclasses import dataclass, field
from datetime import datetime

from jiyi.records.checks import set_utc
from jiyi.records.ids import new_id, stable_id
from jiyi.records.scope import Scope
from jiyi.records.task import Outcome, Step, Task, TriggerType

__all__ = ["Episode"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """What is remembered of a finished task."""

    scope: Scope  # whose, and the session it happened in
    trigger_summary: str  # what set it off
    outcome: Outcome
    created_at: datetime
    outcome_summary: str = ""  # what was done and what came of it
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
        """Bring the times to UTC."""
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
