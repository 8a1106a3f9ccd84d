"""What every group of verbs works with: the parts of a memory, and whose memory it is."""

from collections.abc import Callable
from datetime import tzinfo

from jiyi.clock import Clock, utc_now
from jiyi.errors import ScopeMissing
from jiyi.long_term import LongTermMemory
from jiyi.records import Scope
from jiyi.settings import Settings
from jiyi.short_term import ShortTermMemory
from jiyi.storage import Store, Upkeep
from jiyi.text import TokenCounter
from jiyi.working import WorkingMemory

__all__ = ["Verbs"]


class Verbs:
    """The parts of a memory."""

    def __init__(
        self,
        *,
        store: Store,
        upkeep: Upkeep,
        long_term: LongTermMemory,
        short_term: ShortTermMemory,
        counter: TokenCounter,
        settings: Settings,
        clock: Clock = utc_now,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._upkeep = upkeep
        self._long_term = long_term
        self._short_term = short_term
        self._working = WorkingMemory(store, clock=clock)
        self._counter = counter
        self._settings = settings
        self._clock = clock
        self._on_close = on_close

    @property
    def zone(self) -> tzinfo:
        """The time zone that dates are shown in."""
        return self._settings.zone

    def _scope(self, user_id: str | None, agent_id: str | None, session_id: str | None = None) -> Scope:
        user = user_id if user_id is not None else self._settings.user_id
        if user is None:
            raise ScopeMissing("whose memory? Pass user_id= to jiyi.open() or to this call")
        agent = agent_id if agent_id is not None else self._settings.agent_id
        return Scope(user_id=user, agent_id=agent, session_id=session_id)
