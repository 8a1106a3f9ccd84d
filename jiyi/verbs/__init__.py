"""What a memory can do, in groups; `MemoryManager` is all of them together."""

from jiyi.verbs.base import Parts
from jiyi.verbs.context import ContextVerbs
from jiyi.verbs.facts import FactVerbs
from jiyi.verbs.forgetting import ForgettingVerbs
from jiyi.verbs.items import ItemVerbs
from jiyi.verbs.messages import MessageVerbs
from jiyi.verbs.recall import RecallVerbs
from jiyi.verbs.sessions import SessionVerbs
from jiyi.verbs.tasks import SkillVerbs, TaskVerbs
from jiyi.verbs.upkeep import UpkeepVerbs

__all__ = [
    "ContextVerbs",
    "FactVerbs",
    "ForgettingVerbs",
    "ItemVerbs",
    "MessageVerbs",
    "Parts",
    "RecallVerbs",
    "SessionVerbs",
    "SkillVerbs",
    "TaskVerbs",
    "UpkeepVerbs",
]
