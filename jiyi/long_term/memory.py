"""The parts of long-term memory together, and their daily upkeep."""

from collections.abc import Callable
from dataclasses import dataclass

from jiyi.clock import Clock
from jiyi.errors import Closed, StorageError
from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.consolidation.writer import ConsolidationReceipt
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.run import GateReceipt
from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.long_term.indexing import Indexer
from jiyi.long_term.reading import Reader, ReadingReceipt
from jiyi.long_term.recall.recall import Recall
from jiyi.long_term.updating import Updating
from jiyi.long_term.worker import Worker
from jiyi.records import Scope
from jiyi.storage import Ledger

__all__ = ["LongTermMemory", "Maintained", "Maintenance", "MaintenanceProgress", "maintain"]

_LOOKS = 60.0  # seconds between looks at the clock

MaintenanceProgress = Callable[[str, int, int | None], None]
"""Is told the part, how far it is, and of how much where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """What outlives the session; every part works on the same database."""

    recall: Recall  # finds it again
    indexer: Indexer  # makes its vectors
    facts: FactMemory  # statements that change with time
    reader: Reader | None  # reads them from talk by a language model; None: there is none, or it is off
    consolidation: Consolidation  # turns episodes into knowledge
    gate: ForgetGate  # lets go of what no longer matters
    forgetting: Forgetting  # forgets what is asked for, and brings it back
    updating: Updating  # changes what records say


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What maintenance did; of a dry run, what the gate would have done."""

    reading: ReadingReceipt | None  # None in a dry run, and without a language model that reads
    expired: int  # facts whose time is over
    consolidation: ConsolidationReceipt | None  # None in a dry run
    gate: GateReceipt


def maintain(
    memory: LongTermMemory,
    scope: Scope,
    *,
    dry_run: bool = False,
    progress: MaintenanceProgress | None = None,
) -> Maintained:
    """Read what is due, end facts that are over, consolidate, then run the forget gate.

    In this order nothing is forgotten before it is learned. Every part may be interrupted and run
    again, and run by several processes at once. A dry run leaves out the consolidation.
    """
    tell = progress or (lambda *_: None)
    reading = consolidation = None
    expired = 0
    if not dry_run:
        memory.forgetting.trash.finish_overwrite()
        memory.recall.settle()
        if memory.reader is not None:
            reading = memory.reader.read_due(scope.user_id, lambda done: tell("reading", done, None))
        expired = memory.facts.expire(scope)
        consolidation = memory.consolidation.run(
            scope, progress=lambda done, total: tell("consolidation", done, total)
        )
    gate = memory.gate.run(scope, dry_run=dry_run, progress=lambda done: tell("forget gate", done, None))
    return Maintained(reading=reading, expired=expired, consolidation=consolidation, gate=gate)


class Maintenance(Worker):
    """Runs `maintain` for every user of a database, once in so many hours.

    Of all processes on the database the first to come does it. One that is killed meanwhile leaves
    the rest to the next time; one that fails tries again.
    """

    def __init__(self, memory: LongTermMemory, ledger: Ledger, *, hours: float, clock: Clock) -> None:
        self._memory, self._ledger, self._clock = memory, ledger, clock
        self._seconds = 3600 * hours
        self._mine = self._done = -1  # numbers of the times that this process took, and looked at
        super().__init__(
            "maintenance",
            poll=min(_LOOKS, self._seconds),
            failed=lambda error: StorageError(f"maintenance failed: {error!r}"),
            final=(Closed,),
        )

    def _turn(self) -> bool:
        number = int(self._clock().timestamp() // self._seconds)
        if number == self._done:
            return False
        if number == self._mine or self._ledger.add(f"maintenance:{number:012}", 1) == 1:
            self._mine = number
            failed: Exception | None = None
            for user_id in self._ledger.users(""):
                if self._stopping.is_set():
                    return False
                try:
                    maintain(self._memory, Scope(user_id=user_id))
                except Exception as error:  # one user's must not keep the others' from being done
                    failed = failed or error
            self._memory.indexer.notify()
            if failed is not None:
                raise failed
        self._done = number
        return False
