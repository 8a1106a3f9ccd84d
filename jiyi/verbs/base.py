"""The base of all verbs: the parts of a memory, scopes, and pages."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Self, TypeVar

from jiyi.clock import Clock, utc_now
from jiyi.errors import Closed, ScopeMissing
from jiyi.forks import leave_at_fork
from jiyi.long_term import LongTermMemory, Worker
from jiyi.monitor import ContextMonitor
from jiyi.records import Kind, Listing, Query, Scope, TaskStatus
from jiyi.settings import Settings
from jiyi.short_term import ShortTermMemory, SummaryUpdater
from jiyi.skills import SkillShelf
from jiyi.storage import Ledger, Store
from jiyi.text import TokenCounter
from jiyi.verbs.checks import Filters, Id
from jiyi.verbs.cursors import list_page
from jiyi.working import WorkingMemory

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a memory, assembled by `jiyi.open`."""

    store: Store  # records
    long_term: LongTermMemory
    workers: Sequence[Worker]  # background workers, to be stopped in this order
    short_term: ShortTermMemory  # the sessions in use
    summaries: SummaryUpdater  # their running summaries
    ledger: Ledger  # keys and answers of servers
    skills: SkillShelf | None  # None without a folder of skills
    monitor: ContextMonitor | None  # observes windows and replies; None: off
    counter: TokenCounter  # of the model the windows are for
    settings: Settings  # everything else
    clock: Clock = utc_now  # where "now" comes from
    on_close: Callable[[], None] = lambda: None  # releases what was created for this memory

    def run_in_transaction(self, work: Callable[[], _T], user_id: Id) -> _T:
        """Call ``work``, whose verbs for this user become one transaction, and return its result."""
        try:
            return self.store.together(work)
        except BaseException:  # cached windows may contain what was rolled back
            if user := user_id or self.settings.user_id:
                self.short_term.drop(Scope(user_id=user))
            raise
        finally:
            self.long_term.indexer.notify()


class Verbs:
    """Holds the parts of a memory; ``reopen`` makes new ones for the first call in a forked process."""

    def __init__(self, parts: Parts, *, reopen: Callable[[], Parts] | None = None) -> None:
        self._set_parts(parts)
        self._reopen = reopen or _closed
        leave_at_fork(self)

    def _set_parts(self, parts: Parts) -> None:
        self._parts = parts
        self._store = parts.store
        self._long_term = parts.long_term
        self._short_term = parts.short_term
        self._summaries = parts.summaries
        self._skills = parts.skills
        self._monitor = parts.monitor
        target_key = parts.settings.consolidation_target_key
        self._working = WorkingMemory(parts.store, clock=parts.clock, target_key=target_key)
        self._counter = parts.counter
        self._settings = parts.settings
        self._clock = parts.clock

    def _left_behind(self, quiet: bool) -> None:  # noqa: ARG002
        """Drop the parts after a fork, see `jiyi.forks.LeftAtFork`; the next access creates new ones."""
        for name in _PART_ATTRIBUTES:
            vars(self).pop(name, None)
        self._opening = threading.RLock()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _PART_ATTRIBUTES or "_opening" not in vars(self):
                from jiyi.names import missing_verb_error

                raise missing_verb_error(self, name)
            with self._opening:
                if "_parts" not in vars(self):
                    self._set_parts(self._reopen())
            return getattr(self, name)

    @property
    def parts(self) -> Parts:
        """The components of the memory, for servers and adapters."""
        return self._parts

    @property
    def zone(self) -> tzinfo:
        """The time zone of dates shown."""
        return self._settings.zone

    @property
    def counter(self) -> TokenCounter:
        """Counts tokens as windows are counted."""
        return self._counter

    def close(self) -> None:
        """Stop the background work and release the database; what is pending waits for the next open.

        A summary being written has five seconds to be stored; otherwise a later window folds again.
        """
        if "_parts" not in vars(self):  # opened before a fork, and not used in this process
            self._reopen = _closed
            return
        self._short_term.close()
        self._summaries.close()
        for worker in self._parts.workers:
            worker.close()
        self._long_term.recall.close()
        self._store.close()
        self._parts.on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _scope(self, user_id: Id, agent_id: Id, session_id: Id = None) -> Scope:
        user = user_id if user_id is not None else self._settings.user_id
        if user is None:
            raise ScopeMissing("whose memory? Pass user_id= to jiyi.open() or to this call")
        agent = agent_id if agent_id is not None else self._settings.agent_id
        return Scope(user_id=user, agent_id=agent, session_id=session_id)

    def _list_page(
        self,
        kind: Kind,
        scope: Scope,
        limit: int,
        after: str | None,
        filters: Filters = None,
        *,
        status: TaskStatus | None = None,
    ) -> Listing[Any]:
        query = Query(scope=scope, kinds=(kind,), newest_first=True, limit=limit, status=status)
        return list_page(self._store, query.with_filters(filters), after)

    def _indexed(self, result: _T) -> _T:
        """Return the result of a write after waking the indexer."""
        self._long_term.indexer.notify()
        return result


# What `_set_parts` sets.
_PART_ATTRIBUTES = frozenset(name for name in Verbs._set_parts.__code__.co_names if name.startswith("_"))


def _closed() -> Parts:
    raise Closed("this memory is not open in this process; open it with jiyi.open()")
