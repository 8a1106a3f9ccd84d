"""What every group of verbs works with: the parts of a memory, and whose memory it is."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from jiyi.clock import Clock, utc_now
from jiyi.errors import ScopeMissing
from jiyi.long_term import LongTermMemory
from jiyi.monitor import ContextMonitor
from jiyi.records import Scope
from jiyi.settings import Settings
from jiyi.short_term import Folding, ShortTermMemory
from jiyi.skills import SkillShelf
from jiyi.storage import Store, Upkeep
from jiyi.text import TokenCounter
from jiyi.working import WorkingMemory

__all__ = ["Parts", "Verbs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a memory, put together by `jiyi.open`."""

    store: Store  # records
    upkeep: Upkeep  # of the same database
    long_term: LongTermMemory  # what outlives the session
    short_term: ShortTermMemory  # the conversations in hand
    folding: Folding  # their running summaries
    skills: SkillShelf | None  # know-how shown when needed; None where no folder was named
    monitor: ContextMonitor | None  # watches windows and replies; None: off
    counter: TokenCounter  # of the model the windows are for
    settings: Settings  # everything else
    clock: Clock = utc_now  # where "now" comes from
    on_close: Callable[[], None] = lambda: None  # releases what was made for this memory


class Verbs:
    """The parts of a memory."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._upkeep = parts.upkeep
        self._long_term = parts.long_term
        self._short_term = parts.short_term
        self._folding = parts.folding
        self._skills = parts.skills
        self._monitor = parts.monitor
        self._working = WorkingMemory(
            parts.store, clock=parts.clock, target_key=parts.settings.consolidation_target_key
        )
        self._counter = parts.counter
        self._settings = parts.settings
        self._clock = parts.clock
        self._on_close = parts.on_close

    @property
    def zone(self) -> tzinfo:
        """The time zone that dates are shown in."""
        return self._settings.zone

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens as windows are counted."""
        return self._counter

    def _scope(self, user_id: str | None, agent_id: str | None, session_id: str | None = None) -> Scope:
        user = user_id if user_id is not None else self._settings.user_id
        if user is None:
            raise ScopeMissing("whose memory? Pass user_id= to jiyi.open() or to this call")
        agent = agent_id if agent_id is not None else self._settings.agent_id
        return Scope(user_id=user, agent_id=agent, session_id=session_id)
