"""The forget gate: moves what no longer matters to the trash, by rules."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from jiyi.clock import Clock, to_micros, utc_now
from jiyi.errors import InputError
from jiyi.long_term.finding import find_by_ids, newest_messages
from jiyi.long_term.forget_gate import rules
from jiyi.long_term.forget_gate.rules import ForgetRule, KindRule, Rule
from jiyi.records import FORGETTABLE, Episode, Kind, Message, Query, Record, Scope, Searchable, Session
from jiyi.settings import Settings
from jiyi.storage import Amendment, Key, Store, Trash, batched, key_of
from jiyi.storage.store import all_pages
from jiyi.text import first_words

__all__ = ["SHOWN", "ForgetGate", "GateItem", "GateReceipt", "gate_of", "with_tasks"]

SHOWN = 1_000  # forgotten records that a receipt lists; its counts are complete
_MAX_BATCH = 10_000
_MAX_TEXT_CHARS = 80  # of a listed record
_MIN_CHANGE = 0.001  # of an importance that is written
_LIVE_SESSION = timedelta(days=30)  # since the last message of a live session
_KEPT_TURNS = 20  # newest turns of a live session, which stay
_MAX_COUNT = 10_000  # results of one query
_MAX_LOCK_SECONDS = 0.5  # for which the write lock is held, in all, before a pause
_FREE_SHARE = 0.3  # of that time that the pause lasts: longer than waiting writers sleep

_T = TypeVar("_T")

_Reasons = Mapping[str, str]  # by the ids of the records that go
_Judge = Callable[[Sequence[Any]], _Reasons]
_RankedEpisode = tuple[float, int, str]  # importance, creation time, id
_Discards = list[tuple[str, Mapping[Kind, int], Sequence[Searchable]]]
"""Reasons, each with the counts of discarded records by kind, and these records without tasks of episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateItem:
    """One record that went, or would go."""

    kind: Kind
    id: str
    reason: str  # as stored in the trash
    created_at: datetime | None
    text: str  # its beginning, at most 80 characters
    importance: float | None = None  # of an episode


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReceipt:
    """What a run of the gate did; of a dry run, what it would have done."""

    scope: Scope  # whose memory
    at: datetime  # the moment at which ages were computed
    dry_run: bool  # nothing was changed
    recomputed: int  # episodes whose importance changed
    discarded: Mapping[Kind, Mapping[str, int]]  # records moved to the trash, by kind and reason
    kept: Mapping[Kind, int]  # records left, by kind
    erased: int  # erased from the trash for good; a dry run counts up to 10,000
    seconds: float  # of the run
    items: tuple[GateItem, ...] = ()  # the first 1,000 that went, without the tasks of episodes

    @property
    def total(self) -> int:
        """The number of records moved to the trash, including tasks."""
        return sum(count for reasons in self.discarded.values() for count in reasons.values())


@dataclass(frozen=True, slots=True)
class ForgetGate:
    """Forgets what no longer matters; during a grace period it can be restored. Guarantees:

    - What is pinned never goes.
    - What goes is in the trash with its reason until the grace period is over. The task of an episode goes
      with it; its `Knowledge` stays, as do a message's facts and summaries.
    - Work is done in batches, each in its own transaction: of an episode only importance, date and id are
      held longer, and a run that is killed is finished by the next one.
    - Several processes may run it at once: records are judged again in the transaction that removes them, and
      no more goes than in a single run.

    Raises `InputError`: grace is negative or batch out of its bounds.
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

        ``max_episodes`` counts within the scope; ``progress`` is called after each batch with the number of
        records checked so far. Raises `InputError` if the rule gives no number for an episode; after a
        `StorageError` earlier batches stay done.
        """
        began = time.monotonic()
        run = _GateRun(self, scope, self.clock(), dry_run, progress)
        run.check_episodes()
        for rule in self.others:
            run.check_kind(rule)
        run.erase(run.now - self.grace)
        return GateReceipt(
            scope=scope,
            at=run.now,
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
    days = settings.forget_messages_days
    messages = rules.MessageRule(max_age=timedelta(days=days) if days else None)
    rule = rule or ForgetRule(
        threshold=settings.forget_threshold,
        min_age=timedelta(days=settings.forget_min_age_days),
        max_episodes=settings.forget_max_episodes,
        weights=settings.forget_weights,
    )
    others = (rules.KnowledgeRule(), rules.FactRule(), messages, rules.ItemRule())
    grace = timedelta(days=settings.forget_grace_days)
    return ForgetGate(store, trash, rule=rule, others=others, clock=clock, grace=grace)


def with_tasks(records: Sequence[Record]) -> list[Key]:
    """Return the keys of records and of the tasks of episodes among them."""
    keys = [key_of(record) for record in records]
    keys += [("task", r.task_id) for r in records if isinstance(r, Episode) and r.task_id is not None]
    return keys


@dataclass(slots=True)
class _GateRun:
    """Reads a memory in pages, outside any transaction, and changes it page by page."""

    gate: ForgetGate
    scope: Scope
    now: datetime
    dry_run: bool
    progress: Callable[[int], None] | None
    lock_seconds: float = 0.0  # for which the write lock was held since the last pause
    checked: int = 0
    recomputed: int = 0
    erased: int = 0
    counts: dict[Kind, Counter[str]] = field(default_factory=dict)  # of discarded records, by reason
    items: list[GateItem] = field(default_factory=list)

    def check_episodes(self) -> None:
        """Recompute the importance of every episode; discard those below the threshold, then the excess."""
        rule = self.gate.rule
        reason = f"importance below {rule.threshold:g}"

        def judge(episodes: Sequence[Episode]) -> _Reasons:
            old = [e for e in episodes if not e.pinned and self.now - e.created_at > rule.min_age]
            return {e.id: reason for e in old if self._importance(e) < rule.threshold}

        count, ranked = 0, list[_RankedEpisode]()
        for page in self._pages("episode"):
            episodes = cast("tuple[Episode, ...]", page)
            importance = {e.id: self._importance(e) for e in episodes}
            changed = [e.id for e in episodes if abs(importance[e.id] - e.importance) > _MIN_CHANGE]
            changes = [Amendment(id=id_, importance=importance[id_]) for id_ in changed]
            kept = self._apply("episode", episodes, judge, changes)
            count += len(kept)
            ranked += [(importance[e.id], to_micros(e.created_at), e.id) for e in kept if not e.pinned]
        if count > rule.max_episodes:
            self._discard_excess(sorted(ranked)[: count - rule.max_episodes])

    def check_kind(self, rule: KindRule) -> None:
        until = rule.until(self.now)
        if until is None:
            return

        def judge(records: Sequence[Any]) -> _Reasons:
            protected = self._protected_ids(records) if rule.kind == "message" else set[str]()
            judged = [r for r in records if not r.pinned and r.id not in protected]
            return {r.id: reason for r in judged if (reason := rule.reason(r, self.now)) is not None}

        for page in self._pages(rule.kind, until):
            self._apply(rule.kind, page, judge)

    def erase(self, before: datetime) -> None:
        if self.dry_run:
            query = Query(scope=self.scope, kinds=FORGETTABLE, until=before, limit=_MAX_COUNT)
            self.erased = len(self.gate.trash.discarded(query))
            return
        count = most = self.gate.batch
        while count == most:
            count = self._write(partial(self.gate.trash.erase, self.scope, before=before, limit=most))
            self.erased += count

    def count_kept(self) -> dict[Kind, int]:
        counts = self.gate.store.count(Query(scope=self.scope, kinds=FORGETTABLE))
        discarded = self.counts if self.dry_run else {}
        return {kind: counts[kind] - sum(discarded.get(kind, Counter()).values()) for kind in FORGETTABLE}

    def _write(self, change: Callable[[], _T]) -> _T:
        """Make a change in one transaction, and pause at times to let other writers have the lock.

        SQLite has no queue for its write lock: waiting writers try again every 0.1 s at most, and would find
        it taken each time by a run without pauses.
        """
        began = math.inf

        def timed_change() -> _T:
            nonlocal began
            began = time.monotonic()  # the lock is held from here on
            return change()

        result = self.gate.store.together(timed_change)
        self.lock_seconds += max(0.0, time.monotonic() - began)
        if self.lock_seconds >= _MAX_LOCK_SECONDS:
            time.sleep(_FREE_SHARE * self.lock_seconds)
            self.lock_seconds = 0.0
        return result

    def _pages(self, kind: Kind, until: datetime | None = None) -> Iterator[tuple[Record, ...]]:
        query = Query(scope=self.scope, kinds=(kind,), until=until, limit=self.gate.batch)
        for page in all_pages(self.gate.store, query):
            yield page.records
            self._report_checked(len(page.records))

    def _report_checked(self, count: int) -> None:
        self.checked += count
        if self.progress:
            self.progress(self.checked)

    def _apply(
        self, kind: Kind, page: Sequence[Any], judge: _Judge, changes: Sequence[Amendment] = ()
    ) -> list[Any]:
        """Write new importances and discard what has to go, in one transaction; return what stays."""
        reasons = judge(page)
        ids = [record.id for record in page if record.id in reasons]
        self.recomputed += len(changes)
        if self.dry_run:
            self._record(kind, self._discard(kind, page, reasons))
        elif ids or changes:
            self._record(kind, self._write(partial(self._judge_and_discard, kind, ids, judge, changes)))
        return [record for record in page if record.id not in reasons]

    def _judge_and_discard(
        self, kind: Kind, ids: Sequence[str], judge: _Judge, changes: Sequence[Amendment] = ()
    ) -> _Discards:
        """Write new importances; judge the records that were not deleted or pinned meanwhile, and discard."""
        if changes:
            self.gate.store.amend(self.scope, kind, changes)
        found = {r.id: r for r in find_by_ids(self.gate.store, self.scope, kind, ids, pinned=False)}
        records = [found[id_] for id_ in ids if id_ in found]
        return self._discard(kind, records, judge(records))

    def _discard(self, kind: Kind, records: Sequence[Any], reasons: _Reasons) -> _Discards:
        """Discard, or in a dry run count, the records that have a reason to go."""
        discards: _Discards = []
        for reason in dict.fromkeys(reasons.values()):
            chosen: list[Searchable] = [r for r in records if reasons.get(r.id) == reason]
            keys = with_tasks(chosen)
            if self.dry_run:
                tasks = tuple(id_ for other, id_ in keys if other == "task")
                query = Query(scope=Scope(user_id=self.scope.user_id), kinds=("task",), ids=tasks)
                existing = self.gate.store.count(query)["task"] if tasks else 0
                counts: Mapping[Kind, int] = {kind: len(chosen), "task": existing}
            else:
                counts = self.gate.trash.discard(self.scope, keys, reason=reason, at=self.now)
            discards.append((reason, counts, chosen))
        return discards

    def _record(self, kind: Kind, discards: _Discards) -> None:
        """Count and list what was discarded, after the transaction succeeded."""
        for reason, counts, records in discards:
            for other, count in counts.items():
                if count:
                    self.counts.setdefault(other, Counter())[reason] += count
            self.items += [
                GateItem(
                    kind=kind,
                    id=record.id,
                    reason=reason,
                    created_at=record.created_at,
                    text=first_words(record.search_text, _MAX_TEXT_CHARS),
                    importance=self._importance(record) if isinstance(record, Episode) else None,
                )
                for record in records[: SHOWN - len(self.items)]
            ]

    def _discard_excess(self, excess: Sequence[_RankedEpisode]) -> None:
        """Discard these least important episodes, as long as there are more than the limit."""
        most = self.gate.rule.max_episodes
        reason = f"more than {most:,} episodes"
        for batch in batched(excess, self.gate.batch):
            importance = {id_: value for value, _, id_ in batch}

            def judge(episodes: Sequence[Episode], importance: Mapping[str, float] = importance) -> _Reasons:
                count = len(importance)
                if not self.dry_run:  # other processes may have removed some
                    query = Query(scope=self.scope, kinds=("episode",))
                    count = max(0, self.gate.store.count(query)["episode"] - most)
                chosen = [e.id for e in episodes if self._importance(e) <= importance[e.id]]
                return dict.fromkeys(chosen[:count], reason)

            discard = partial(self._judge_and_discard, "episode", [*importance], judge)
            self._record("episode", discard() if self.dry_run else self._write(discard))
            self._report_checked(len(importance))

    def _importance(self, episode: Episode) -> float:
        importance = self.gate.rule.importance(episode, self.now)
        if not math.isfinite(importance):
            raise InputError(
                f"the rule gives episode {episode.id!r} the importance {importance}; "
                "it must give a number from 0 to 1"
            )
        return min(1.0, max(0.0, importance))

    def _protected_ids(self, messages: Sequence[Message]) -> set[str]:
        """Return the ids of the messages in the newest turns or system prompt of a live session."""
        sessions = {m.id: replace(cast("Scope", m.scope), agent_id=None) for m in messages}
        first = {session: self._first_kept_seq(session) for session in set(sessions.values())}
        return {
            m.id
            for m in messages
            if (seq := first[sessions[m.id]]) is not None and (m.role == "system" or (m.seq or 0) >= seq)
        }

    def _first_kept_seq(self, session: Scope) -> int | None:
        """Return the sequence number at which the newest turns of a live session begin, else None."""
        store = self.gate.store
        found = cast("list[Session]", store.find(Query(scope=session, kinds=("session",), limit=1)))
        if not found or self.now - found[0].last_active_at > _LIVE_SESSION:
            return None
        turns = newest_messages(store, session, _KEPT_TURNS, roles=("user",))
        return (turns[0].seq or 0) if len(turns) == _KEPT_TURNS else 0
