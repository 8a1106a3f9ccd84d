"""What a memory can do, in groups; `MemoryManager` is all of them together."""

from jiyi.verbs.base import Parts
from jiyi.verbs.context import ContextVerbs
from jiyi.verbs.facts import FactVerbs
from jiyi.verbs.forgetting import LifeVerbs
from jiyi.verbs.lifecycle import LifecycleVerbs
from jiyi.verbs.messages import MessageVerbs
from jiyi.verbs.recall import RecallVerbs
from jiyi.verbs.tasks import SkillVerbs, TaskVerbs
from jiyi.verbs.upkeep import UpkeepVerbs

__all__ = [
    "ContextVerbs",
    "FactVerbs",
    "LifeVerbs",
    "LifecycleVerbs",
    "MessageVerbs",
    "Parts",
    "RecallVerbs",
    "SkillVerbs",
    "TaskVerbs",
    "UpkeepVerbs",
]
