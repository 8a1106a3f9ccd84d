"""What a memory can do, in groups; `MemoryManager` is all of them together."""

from jiyi.verbs.facts import FactVerbs
from jiyi.verbs.life import LifeVerbs
from jiyi.verbs.messages import MessageVerbs
from jiyi.verbs.recall import RecallVerbs
from jiyi.verbs.tasks import TaskVerbs
from jiyi.verbs.upkeep import UpkeepVerbs

__all__ = ["FactVerbs", "LifeVerbs", "MessageVerbs", "RecallVerbs", "TaskVerbs", "UpkeepVerbs"]
