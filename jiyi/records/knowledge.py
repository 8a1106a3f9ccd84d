"""What several episodes taught."""

from dataclasses import dataclass, field
from datetime import datetime

from jiyi.records.checks import set_utc
from jiyi.records.ids import new_id
from jiyi.records.scope import Scope

__all__ = ["Knowledge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """A lesson with its sources."""

    scope: Scope  # whose
    topic: str  # what it is about, a heading
    content: str  # the lesson
    created_at: datetime
    updated_at: datetime
    id: str = field(default_factory=new_id)  # unique within the user
    key_points: tuple[str, ...] = ()
    source_episodes: tuple[str, ...] = ()  # ids of the episodes it rests on
    confidence: float = 0.5  # 0.5..1
    access_count: int = 0  # how often it was recalled
    last_accessed_at: datetime | None = None
    pinned: bool = False  # never forgotten

    def __post_init__(self) -> None:
        """Bring the times to UTC."""
        set_utc(self, "created_at", "updated_at", "last_accessed_at")

    @property
    def search_text(self) -> str:
        """What search reads: topic, content, key points."""
        return "\n".join([self.topic, self.content, *self.key_points])
