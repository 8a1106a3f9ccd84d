"""One run of the forget gate over one memory, in batches, and its receipt."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from jiyi.clock import to_micros
from jiyi.errors import InputError
from jiyi.long_term.forget_gate.rules import KindRule, Rule
from jiyi.records import FORGETTABLE, Episode, Kind, Message, Query, Record, Scope, Searchable, Session
from jiyi.storage import Amendment, Key, Store, Trash, key_of
from jiyi.storage.pages import all_pages

__all__ = ["SHOWN", "GateItem", "GateReceipt", "GateRun", "with_tasks"]

SHOWN = 1_000  # forgotten records that a receipt lists; its counts are complete
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


def with_tasks(records: Sequence[Record]) -> list[Key]:
    """Return the keys of records and of the tasks of episodes among them."""
    keys = [key_of(record) for record in records]
    keys += [("task", r.task_id) for r in records if isinstance(r, Episode) and r.task_id is not None]
    return keys


@dataclass(slots=True, kw_only=True)
class GateRun:
    """Reads a memory in pages, outside any transaction, and changes it page by page.

    What goes is read and judged again in the transaction that removes it, so that
    concurrent changes are respected.
    """

    store: Store
    trash: Trash
    batch: int  # records held and changed at once
    scope: Scope
    now: datetime
    dry_run: bool
    progress: Callable[[int], None] | None = None
    lock_seconds: float = 0.0  # for which the write lock was held since the last pause
    checked: int = 0
    recomputed: int = 0
    erased: int = 0
    counts: dict[Kind, Counter[str]] = field(default_factory=dict)  # of discarded records, by reason
    items: list[GateItem] = field(default_factory=list)

    def check_episodes(self, rule: Rule) -> None:
        """Recompute the importance of every episode; discard those below the threshold, then the excess."""
        reason = f"importance below {rule.threshold:g}"

        def judge(episodes: Sequence[Episode]) -> _Reasons:
            old = [e for e in episodes if not e.pinned and self.now - e.created_at > rule.min_age]
            return {e.id: reason for e in old if self._importance(rule, e) < rule.threshold}

        count, ranked = 0, list[_RankedEpisode]()
        for page in self._pages("episode"):
            episodes = cast("tuple[Episode, ...]", page)
            importance = {e.id: self._importance(rule, e) for e in episodes}
            reasons = judge(episodes)
            changes = [
                Amendment(id=e.id, importance=importance[e.id])
                for e in episodes
                if abs(importance[e.id] - e.importance) > _MIN_CHANGE
            ]
            self._apply("episode", [e for e in episodes if e.id in reasons], judge, changes, rule)
            kept = [e for e in episodes if e.id not in reasons]
            count += len(kept)
            ranked += [(importance[e.id], to_micros(e.created_at), e.id) for e in kept if not e.pinned]
        if count > rule.max_episodes:
            self._discard_excess(rule, sorted(ranked)[: count - rule.max_episodes])

    def check_kind(self, rule: KindRule) -> None:
        """Discard records of one other kind by its rule."""
        until = rule.until(self.now)
        if until is None:
            return

        def judge(records: Sequence[Any]) -> _Reasons:
            protected = self._protected_ids(records) if rule.kind == "message" else set[str]()
            judged = [r for r in records if not r.pinned and r.id not in protected]
            return {r.id: reason for r in judged if (reason := rule.reason(r, self.now)) is not None}

        for page in self._pages(rule.kind, until):
            reasons = judge(page)
            self._apply(rule.kind, [r for r in page if r.id in reasons], judge)

    def erase(self, before: datetime) -> None:
        """Erase from the trash what was discarded earlier than ``before``."""
        if self.dry_run:
            query = Query(scope=self.scope, kinds=FORGETTABLE, until=before, limit=_MAX_COUNT)
            self.erased = len(self.trash.discarded(query))
            return
        count = self.batch
        while count == self.batch:
            count = self._write(partial(self.trash.erase, self.scope, before=before, limit=self.batch))
            self.erased += count

    def count_kept(self) -> dict[Kind, int]:
        """Return the number of records left of each kind."""
        counts = self.store.count(Query(scope=self.scope, kinds=FORGETTABLE))
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

        result = self.store.together(timed_change)
        self.lock_seconds += max(0.0, time.monotonic() - began)
        if self.lock_seconds >= _MAX_LOCK_SECONDS:
            time.sleep(_FREE_SHARE * self.lock_seconds)
            self.lock_seconds = 0.0
        return result

    def _pages(self, kind: Kind, until: datetime | None = None) -> Iterator[tuple[Record, ...]]:
        query = Query(scope=self.scope, kinds=(kind,), until=until, limit=self.batch)
        for page in all_pages(self.store, query):
            yield page.records
            self._report_checked(len(page.records))

    def _report_checked(self, count: int) -> None:
        self.checked += count
        if self.progress:
            self.progress(self.checked)

    def _apply(
        self,
        kind: Kind,
        candidates: Sequence[Any],
        judge: _Judge,
        changes: Sequence[Amendment] = (),
        rule: Rule | None = None,
    ) -> None:
        """Write new importances and discard those candidates that still have to go, in one transaction."""
        self.recomputed += len(changes)

        def change() -> _Discards:
            self.store.amend(self.scope, kind, changes)
            ids = tuple(record.id for record in candidates)
            query = Query(scope=self.scope, kinds=(kind,), ids=ids, pinned=False, limit=max(1, len(ids)))
            found = {record.id: record for record in self.store.find(query)} if ids else {}
            fresh = [found[id_] for id_ in ids if id_ in found]  # not deleted or pinned meanwhile
            return self._discard(kind, fresh, judge(fresh))

        if self.dry_run:
            self._record(kind, self._discard(kind, candidates, judge(candidates)), rule)
        elif candidates or changes:
            self._record(kind, self._write(change), rule)

    def _discard(self, kind: Kind, records: Sequence[Any], reasons: _Reasons) -> _Discards:
        """Discard, or in a dry run count, the records that have a reason to go."""
        discards: _Discards = []
        for reason in dict.fromkeys(reasons.values()):
            chosen: list[Searchable] = [r for r in records if reasons.get(r.id) == reason]
            keys = with_tasks(chosen)
            if self.dry_run:
                counts = self._count_discards(kind, keys)
            else:
                counts = self.trash.discard(self.scope, keys, reason=reason, at=self.now)
            discards.append((reason, counts, chosen))
        return discards

    def _record(self, kind: Kind, discards: _Discards, rule: Rule | None) -> None:
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
                    text=" ".join(record.search_text[: 2 * _MAX_TEXT_CHARS].split())[:_MAX_TEXT_CHARS],
                    importance=self._importance(rule, cast("Episode", record)) if rule else None,
                )
                for record in records[: SHOWN - len(self.items)]
            ]

    def _count_discards(self, kind: Kind, keys: Sequence[Key]) -> Mapping[Kind, int]:
        """Return how many records of each kind `Trash.discard` would move."""
        tasks = tuple(id_ for other, id_ in keys if other == "task")
        user = Scope(user_id=self.scope.user_id)
        existing = self.store.count(Query(scope=user, kinds=("task",), ids=tasks))["task"] if tasks else 0
        return {kind: len(keys) - len(tasks), "task": existing}

    def _discard_excess(self, rule: Rule, excess: Sequence[_RankedEpisode]) -> None:
        """Discard these least important episodes, as long as there are more than the limit."""
        reason = f"more than {rule.max_episodes:,} episodes"
        all_episodes = Query(scope=self.scope, kinds=("episode",))
        for start in range(0, len(excess), self.batch):
            importance = {id_: value for value, _, id_ in excess[start : start + self.batch]}
            query = replace(all_episodes, ids=tuple(importance), pinned=False, limit=len(importance))

            def discard(importance: Mapping[str, float] = importance, query: Query = query) -> _Discards:
                found = {e.id: e for e in cast("list[Episode]", self.store.find(query))}
                most = len(importance)
                if not self.dry_run:  # other processes may have removed some
                    most = max(0, self.store.count(all_episodes)["episode"] - rule.max_episodes)
                fresh = [found[id_] for id_ in importance if id_ in found]
                chosen = [e for e in fresh if self._importance(rule, e) <= importance[e.id]][:most]
                return self._discard("episode", chosen, dict.fromkeys([e.id for e in chosen], reason))

            self._record("episode", discard() if self.dry_run else self._write(discard), rule)
            self._report_checked(len(importance))

    def _importance(self, rule: Rule, episode: Episode) -> float:
        importance = rule.importance(episode, self.now)
        if not math.isfinite(importance):
            raise InputError(
                f"the rule gives episode {episode.id!r} the importance {importance}; "
                "it must give a number from 0 to 1"
            )
        return min(1.0, max(0.0, importance))

    def _protected_ids(self, messages: Sequence[Message]) -> set[str]:
        """Return the ids of the messages in the newest turns or system prompt of a live session."""
        protected: set[str] = set()
        for session_id in {cast("Scope", m.scope).session_id for m in messages}:
            first = self._first_kept_seq(Scope(user_id=self.scope.user_id, session_id=session_id))
            in_session = [m for m in messages if cast("Scope", m.scope).session_id == session_id]
            if first is not None:
                protected |= {m.id for m in in_session if m.role == "system" or (m.seq or 0) >= first}
        return protected

    def _first_kept_seq(self, scope: Scope) -> int | None:
        """Return the sequence number at which the newest turns of a live session begin, else None."""
        session = Query(scope=scope, kinds=("session",), limit=1)
        found = cast("list[Session]", self.store.find(session))
        if not found or self.now - found[0].last_active_at > _LIVE_SESSION:
            return None
        query = Query(scope=scope, kinds=("message",), roles=("user",), newest_first=True, limit=_KEPT_TURNS)
        turns = cast("list[Message]", self.store.find(query))
        return (turns[-1].seq or 0) if len(turns) == _KEPT_TURNS else 0
