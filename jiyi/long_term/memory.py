"""The parts of long-term memory, and their regular maintenance."""

from collections.abc import Callable
from dataclasses import dataclass

from jiyi.clock import Clock
from jiyi.errors import Closed, StorageError
from jiyi.long_term.consolidation.consolidation import Consolidation, ConsolidationReceipt
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.forget_gate.gate import ForgetGate, GateReceipt
from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.reading import Reader, ReadingReceipt
from jiyi.long_term.recall.recall import Recall
from jiyi.long_term.updating import Updating
from jiyi.long_term.worker import Worker
from jiyi.records import Scope
from jiyi.storage import Ledger

__all__ = ["LongTermMemory", "Maintained", "Maintenance", "maintain"]

_MAX_POLL = 60.0  # seconds between checks whether a period began


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """The parts of long-term memory, which share one database."""

    recall: Recall  # searches records
    indexer: Indexer  # makes their vectors
    facts: FactMemory  # extracts and merges facts
    reader: Reader | None  # reads facts with a language model; None without a model, or if it is off
    consolidation: Consolidation  # turns episodes into knowledge
    gate: ForgetGate  # forgets by rules what no longer matters
    forgetting: Forgetting  # forgets and restores on request
    updating: Updating  # changes records


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What maintenance did; in a dry run, what the gate would have done."""

    reading: ReadingReceipt | None  # None in a dry run, and without a reader
    expired: int  # facts whose validity has ended
    consolidation: ConsolidationReceipt | None  # None in a dry run
    gate: GateReceipt


def maintain(
    memory: LongTermMemory,
    scope: Scope,
    *,
    dry_run: bool = False,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Maintained:
    """Read what is due, expire facts, consolidate, then run the forget gate.

    In this order nothing is forgotten before it is learned from. Each part may be interrupted and
    repeated, and several processes may run it at once. A dry run only runs the gate. ``progress`` is called
    with the part, how much of it is done, and the total or None.
    """
    report = progress or (lambda *_: None)
    reading = consolidation = None
    expired = 0
    if not dry_run:
        memory.forgetting.trash.finish_overwrite()
        memory.recall.flush_accesses()
        if memory.reader is not None:
            reading = memory.reader.read_due(scope.user_id, lambda done: report("reading", done, None))
        expired = memory.facts.expire(scope)
        consolidation = memory.consolidation.run(
            scope, progress=lambda done, total: report("consolidation", done, total)
        )
    gate = memory.gate.run(scope, dry_run=dry_run, progress=lambda done: report("forget gate", done, None))
    return Maintained(reading=reading, expired=expired, consolidation=consolidation, gate=gate)


class Maintenance(Worker):
    """Runs `maintain` for every user of a database, once per period of ``hours``.

    The first of all processes on the database to claim a period does it. If it is killed, the other
    users wait for the next period; if it fails, it tries again.
    """

    def __init__(self, memory: LongTermMemory, ledger: Ledger, *, hours: float, clock: Clock) -> None:
        self._memory, self._ledger, self._clock = memory, ledger, clock
        self._period_seconds = 3600 * hours
        self._claimed_period = self._done_period = -1  # the last ones claimed and checked by this process
        super().__init__(
            "maintenance",
            poll_seconds=min(_MAX_POLL, self._period_seconds),
            wrap_error=lambda error: StorageError(f"maintenance failed: {error!r}"),
            fatal_errors=(Closed,),
        )

    def _run_once(self) -> bool:
        period = int(self._clock().timestamp() // self._period_seconds)
        if period == self._done_period:
            return False
        if period == self._claimed_period or self._ledger.add(f"maintenance:{period:012}", 1) == 1:
            self._claimed_period = period
            first_error: Exception | None = None
            for user_id in self._ledger.users(""):
                if self._stopping.is_set():
                    return False
                try:
                    maintain(self._memory, Scope(user_id=user_id))
                except Exception as error:  # must not stop the maintenance of other users
                    first_error = first_error or error
            self._memory.indexer.notify()
            if first_error is not None:
                raise first_error
        self._done_period = period
        return False
