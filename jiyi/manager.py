"""MemoryManager, the object that users work with."""

from jiyi.monitor import traced
from jiyi.verbs.checks import guard_methods
from jiyi.verbs.context import ContextVerbs
from jiyi.verbs.facts import FactVerbs
from jiyi.verbs.forgetting import ForgettingVerbs
from jiyi.verbs.items import ItemVerbs
from jiyi.verbs.messages import MessageVerbs
from jiyi.verbs.recall import RecallVerbs
from jiyi.verbs.sessions import SessionVerbs
from jiyi.verbs.tasks import SkillVerbs, TaskVerbs


@traced
@guard_methods
class MemoryManager(
    MessageVerbs,
    TaskVerbs,
    RecallVerbs,
    ContextVerbs,
    SessionVerbs,
    SkillVerbs,
    FactVerbs,
    ItemVerbs,
    ForgettingVerbs,
):
    """An agent's memory: save what happens, ask what the model should see now.

    Make one with `jiyi.open`. ``user_id`` and ``agent_id``, whose memory it is, may be given there or in each
    call; the call wins; without a user any verb that reads or writes records raises `ScopeMissing`.
    Thread-safe; several processes may use one database. Use it in a ``with`` block or call `close`.
    """
