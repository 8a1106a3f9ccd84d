"""One run of the gate over one memory, batch by batch, and what it did."""

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

SHOWN = 1_000  # how many of the forgotten a receipt lists one by one; its counts are of all
_WORDS = 80  # characters of a record that a receipt shows
_HAIR = 0.001  # a smaller change of importance is not written
_LIVE = timedelta(days=30)  # a session in which something was said since is live
_TURNS = 20  # the newest turns of a live session stay
_MOST = 10_000  # what one query may return
_HELD = 0.5  # seconds for which the write lock is held, in all, before it is left free
_FREE = 0.3  # part of the time it was held, for which it is left free then: longer than a waiter sleeps

_T = TypeVar("_T")

_Reasons = Mapping[str, str]  # why, by the ids of the records that go
_Judge = Callable[[Sequence[Any]], _Reasons]
_Loose = tuple[float, int, str]  # what an episode is worth, when it was made, its id
_TakenOut = list[tuple[str, Mapping[Kind, int], Sequence[Searchable]]]
"""Reasons, each with how many went of each kind, and these records without the tasks of episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateItem:
    """One record that went, or would go."""

    kind: Kind
    id: str
    reason: str  # why, as it stands in the trash
    created_at: datetime | None
    text: str  # how it begins, at most 80 characters
    importance: float | None = None  # what an episode was worth at last


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReceipt:
    """What a run of the gate did; of a dry run, what it would have done."""

    scope: Scope  # whose memory
    at: datetime  # the moment that ages were counted to
    dry_run: bool  # nothing was changed
    recomputed: int  # episodes whose importance changed
    discarded: Mapping[Kind, Mapping[str, int]]  # how many went into the trash, by kind and reason
    kept: Mapping[Kind, int]  # how many are left of each kind
    erased: int  # dropped from the trash for good; a dry run counts up to 10,000
    seconds: float  # how long it took
    items: tuple[GateItem, ...] = ()  # the first 1,000 that went, without the tasks of episodes

    @property
    def total(self) -> int:
        """How many records went into the trash, tasks included."""
        return sum(count for reasons in self.discarded.values() for count in reasons.values())


def with_tasks(records: Sequence[Record]) -> list[Key]:
    """Return the keys of records, and of the tasks that episodes among them came from."""
    keys = [key_of(record) for record in records]
    keys += [("task", r.task_id) for r in records if isinstance(r, Episode) and r.task_id is not None]
    return keys


@dataclass(slots=True, kw_only=True)
class GateRun:
    """Looks at a memory in pages, outside any transaction, and changes it page by page.

    What goes is read and judged again inside the transaction that removes it, so that
    concurrent changes are respected.
    """

    store: Store
    trash: Trash
    batch: int  # records that are held and changed at once
    scope: Scope
    now: datetime
    dry_run: bool
    progress: Callable[[int], None] | None = None
    held: float = 0.0  # seconds the write lock was held since it was last left free on purpose
    looked_at: int = 0
    recomputed: int = 0
    erased: int = 0
    counts: dict[Kind, Counter[str]] = field(default_factory=dict)  # what went, by reason
    items: list[GateItem] = field(default_factory=list)

    def episodes(self, rule: Rule) -> None:
        """Recompute the importance of every episode; remove those below the threshold, then the excess."""
        reason = f"importance below {rule.threshold:g}"

        def judge(episodes: Sequence[Episode]) -> _Reasons:
            return {e.id: reason for e in episodes if self._unimportant(rule, e)}

        left, loose = 0, list[_Loose]()
        for page in self._pages("episode"):
            episodes = cast("tuple[Episode, ...]", page)
            worth = {e.id: self._importance(rule, e) for e in episodes}
            gone = judge(episodes)
            changes = [
                Amendment(id=e.id, importance=worth[e.id])
                for e in episodes
                if abs(worth[e.id] - e.importance) > _HAIR
            ]
            self._change("episode", [e for e in episodes if e.id in gone], judge, changes, rule)
            stay = [e for e in episodes if e.id not in gone]
            left += len(stay)
            loose += [(worth[e.id], to_micros(e.created_at), e.id) for e in stay if not e.pinned]
        if left > rule.max_episodes:
            self._above_limit(rule, sorted(loose)[: left - rule.max_episodes])

    def others(self, rule: KindRule) -> None:
        """Take out records of one other kind by its own rule."""
        until = rule.until(self.now)
        if until is None:
            return

        def judge(records: Sequence[Any]) -> _Reasons:
            held = self._newest_turns(records) if rule.kind == "message" else set[str]()
            asked = ((r.id, rule.reason(r, self.now)) for r in records if not r.pinned and r.id not in held)
            return {id_: reason for id_, reason in asked if reason is not None}

        for page in self._pages(rule.kind, until):
            gone = judge(page)
            self._change(rule.kind, [r for r in page if r.id in gone], judge)

    def erase(self, before: datetime) -> None:
        """Drop from the trash what was taken out before."""
        if self.dry_run:
            lying = Query(scope=self.scope, kinds=FORGETTABLE, until=before, limit=_MOST)
            self.erased = len(self.trash.discarded(lying))
            return
        dropped = most = self.batch
        while dropped == most:
            dropped = self._write(partial(self.trash.erase, self.scope, before=before, limit=most))
            self.erased += dropped

    def kept(self) -> dict[Kind, int]:
        """Return how many records of each kind are left."""
        counts = self.store.count(Query(scope=self.scope, kinds=FORGETTABLE))
        gone = self.counts if self.dry_run else {}
        return {kind: counts[kind] - sum(gone.get(kind, Counter()).values()) for kind in FORGETTABLE}

    def _write(self, change: Callable[[], _T]) -> _T:
        """Make a change in one transaction, and let writers who wait have their turn after it.

        SQLite has no queue for its write lock: who waits looks again every 0.1 s at most, and would find
        it taken each time by a run that only lets go of it to take it again.
        """
        began = math.inf

        def timed() -> _T:
            nonlocal began
            began = time.monotonic()  # the lock is held from here on
            return change()

        done = self.store.together(timed)
        self.held += max(0.0, time.monotonic() - began)
        if self.held >= _HELD:
            time.sleep(_FREE * self.held)
            self.held = 0.0
        return done

    def _pages(self, kind: Kind, until: datetime | None = None) -> Iterator[tuple[Record, ...]]:
        query = Query(scope=self.scope, kinds=(kind,), until=until, limit=self.batch)
        for page in all_pages(self.store, query):
            yield page.records
            self._looked(len(page.records))

    def _looked(self, count: int) -> None:
        self.looked_at += count
        if self.progress:
            self.progress(self.looked_at)

    def _change(
        self,
        kind: Kind,
        suspects: Sequence[Any],
        judge: _Judge,
        changes: Sequence[Amendment] = (),
        rule: Rule | None = None,
    ) -> None:
        """Write new importances and take out those suspects that are still to go, in one transaction."""
        self.recomputed += len(changes)

        def change() -> _TakenOut:
            self.store.amend(self.scope, kind, changes)
            ids = tuple(record.id for record in suspects)
            query = Query(scope=self.scope, kinds=(kind,), ids=ids, pinned=False, limit=max(1, len(ids)))
            found = {record.id: record for record in self.store.find(query)} if ids else {}
            fresh = [found[id_] for id_ in ids if id_ in found]  # not gone, not pinned meanwhile
            return self._take_out(kind, fresh, judge(fresh))

        if self.dry_run:
            self._note(kind, self._take_out(kind, suspects, judge(suspects)), rule)
        elif suspects or changes:
            self._note(kind, self._write(change), rule)

    def _take_out(self, kind: Kind, records: Sequence[Any], reasons: _Reasons) -> _TakenOut:
        """Take out, or only count, the records that have a reason to go."""
        out: _TakenOut = []
        for reason in dict.fromkeys(reasons.values()):
            gone: list[Searchable] = [r for r in records if reasons.get(r.id) == reason]
            keys = with_tasks(gone)
            if self.dry_run:
                counts = self._counts(kind, keys)
            else:
                counts = self.trash.discard(self.scope, keys, reason=reason, at=self.now)
            out.append((reason, counts, gone))
        return out

    def _note(self, kind: Kind, out: _TakenOut, rule: Rule | None) -> None:
        """Count and show what went, once that is certain."""
        for reason, counts, gone in out:
            for other, count in counts.items():
                if count:
                    self.counts.setdefault(other, Counter())[reason] += count
            self.items += [
                GateItem(
                    kind=kind,
                    id=record.id,
                    reason=reason,
                    created_at=record.created_at,
                    text=" ".join(record.search_text[: 2 * _WORDS].split())[:_WORDS],
                    importance=self._importance(rule, cast("Episode", record)) if rule else None,
                )
                for record in gone[: SHOWN - len(self.items)]
            ]

    def _counts(self, kind: Kind, keys: Sequence[Key]) -> Mapping[Kind, int]:
        """Return how many records `Trash.discard` would take out."""
        tasks = tuple(id_ for other, id_ in keys if other == "task")
        user = Scope(user_id=self.scope.user_id)
        there = self.store.count(Query(scope=user, kinds=("task",), ids=tasks))["task"] if tasks else 0
        return {kind: len(keys) - len(tasks), "task": there}

    def _above_limit(self, rule: Rule, least: Sequence[_Loose]) -> None:
        """Take out the episodes that matter least, as long as more than the limit are there."""
        reason = f"more than {rule.max_episodes:,} episodes"
        everything = Query(scope=self.scope, kinds=("episode",))
        for start in range(0, len(least), self.batch):
            worth = {id_: worth for worth, _, id_ in least[start : start + self.batch]}
            some = replace(everything, ids=tuple(worth), pinned=False, limit=len(worth))

            def take(worth: Mapping[str, float] = worth, some: Query = some) -> _TakenOut:
                found = {e.id: e for e in cast("list[Episode]", self.store.find(some))}
                most = len(worth)
                if not self.dry_run:  # others take out episodes, too
                    most = max(0, self.store.count(everything)["episode"] - rule.max_episodes)
                fresh = [found[id_] for id_ in worth if id_ in found]
                gone = [e for e in fresh if self._importance(rule, e) <= worth[e.id]][:most]
                return self._take_out("episode", gone, dict.fromkeys([e.id for e in gone], reason))

            self._note("episode", take() if self.dry_run else self._write(take), rule)
            self._looked(len(worth))

    def _unimportant(self, rule: Rule, episode: Episode) -> bool:
        return (
            not episode.pinned
            and self.now - episode.created_at > rule.min_age
            and self._importance(rule, episode) < rule.threshold
        )

    def _importance(self, rule: Rule, episode: Episode) -> float:
        worth = rule.importance(episode, self.now)
        if not math.isfinite(worth):
            raise InputError(
                f"the rule gives episode {episode.id!r} the importance {worth}; "
                "it must give a number from 0 to 1"
            )
        return min(1.0, max(0.0, worth))

    def _newest_turns(self, messages: Sequence[Message]) -> set[str]:
        """Return the ids of those messages that belong to a live session's newest turns or system prompt."""
        held: set[str] = set()
        for session_id in {cast("Scope", m.scope).session_id for m in messages}:
            scope = Scope(user_id=self.scope.user_id, session_id=session_id)
            floor = self._floor(scope)
            mine = [m for m in messages if cast("Scope", m.scope).session_id == session_id]
            if floor is not None:
                held |= {m.id for m in mine if m.role == "system" or (m.seq or 0) >= floor}
        return held

    def _floor(self, scope: Scope) -> int | None:
        """Return the place where a session's newest turns begin, None where it is not live."""
        session = Query(scope=scope, kinds=("session",), limit=1)
        found = cast("list[Session]", self.store.find(session))
        if not found or self.now - found[0].last_active_at > _LIVE:
            return None
        query = Query(scope=scope, kinds=("message",), roles=("user",), newest_first=True, limit=_TURNS)
        turns = cast("list[Message]", self.store.find(query))
        return (turns[-1].seq or 0) if len(turns) == _TURNS else 0
