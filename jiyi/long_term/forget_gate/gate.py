"""The forget gate: moves what no longer matters to the trash, by rules."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta

from jiyi.clock import Clock, utc_now
from jiyi.errors import InputError
from jiyi.long_term.forget_gate import rules
from jiyi.long_term.forget_gate.rules import ForgetRule, KindRule, Rule
from jiyi.long_term.forget_gate.run import GateReceipt, GateRun
from jiyi.records import Scope
from jiyi.settings import Settings
from jiyi.storage import Store, Trash

__all__ = ["ForgetGate", "gate_of"]

_MAX_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class ForgetGate:
    """Forgets what no longer matters; during a grace period it can be restored.

    Guarantees:

    - What is pinned never goes.
    - What goes is in the trash with its reason until the grace period is over. The task of an
      episode goes with it; its `Knowledge` stays, as do a message's facts and summaries.
    - Work is done in batches, each in its own transaction: of an episode only importance, date and id
      are held longer, and a run that is killed is finished by the next one.
    - Several processes may run it at once: records are judged again in the transaction that
      removes them, and no more goes than in a single run.

    Raises:
        InputError: grace is negative or batch out of its bounds.
    """

    store: Store
    trash: Trash  # of the same database
    _: KW_ONLY
    rule: Rule = field(default_factory=ForgetRule)  # decides about episodes
    others: Sequence[KindRule] = rules.OTHER_RULES  # about other kinds; a kind without a rule is left alone
    clock: Clock = utc_now  # read once per run
    grace: timedelta = timedelta(days=30)  # how long what went can be restored
    batch: int = 500  # records held and changed at once, 1 to 10,000

    def __post_init__(self) -> None:
        if self.grace < timedelta(0):
            raise InputError(f"grace={self.grace} lies in the past; give a timedelta of zero or more")
        if not 1 <= self.batch <= _MAX_BATCH:
            raise InputError(f"batch={self.batch} must be a whole number from 1 to {_MAX_BATCH:,}")

    def run(
        self, scope: Scope, *, dry_run: bool = False, progress: Callable[[int], None] | None = None
    ) -> GateReceipt:
        """Check a whole memory once and return what went and why.

        Args:
            scope: whose memory; ``max_episodes`` counts within it.
            dry_run: change nothing, report what would go.
            progress: called after each batch with the number of records checked so far.

        Raises:
            InputError: the rule gives no number for an episode.
            StorageError: the database cannot be read or written; earlier batches stay done.
        """
        began, now = time.monotonic(), self.clock()
        run = GateRun(
            store=self.store,
            trash=self.trash,
            batch=self.batch,
            scope=scope,
            now=now,
            dry_run=dry_run,
            progress=progress,
        )
        run.check_episodes(self.rule)
        for rule in self.others:
            run.check_kind(rule)
        run.erase(now - self.grace)
        return GateReceipt(
            scope=scope,
            at=now,
            dry_run=dry_run,
            recomputed=run.recomputed,
            discarded={kind: dict(reasons) for kind, reasons in run.counts.items()},
            kept=run.count_kept(),
            erased=run.erased,
            seconds=time.monotonic() - began,
            items=tuple(run.items),
        )


def gate_of(store: Store, trash: Trash, *, settings: Settings, rule: Rule | None, clock: Clock) -> ForgetGate:
    """Return the gate of these settings; ``rule`` replaces the one for episodes."""
    messages = settings.forget_messages_days
    return ForgetGate(
        store,
        trash,
        rule=rule
        or ForgetRule(
            threshold=settings.forget_threshold,
            min_age=timedelta(days=settings.forget_min_age_days),
            max_episodes=settings.forget_max_episodes,
            weights=settings.forget_weights,
        ),
        others=(
            rules.KnowledgeRule(),
            rules.FactRule(),
            rules.MessageRule(max_age=timedelta(days=messages) if messages else None),
            rules.ItemRule(),
        ),
        clock=clock,
        grace=timedelta(days=settings.forget_grace_days),
    )
