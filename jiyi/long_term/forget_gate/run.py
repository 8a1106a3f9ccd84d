"""One run of the gate over one memory, batch by batch."""

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import numpy as np

from jiyi.clock import to_micros
from jiyi.errors import InputError
from jiyi.long_term.forget_gate.receipt import Tally
from jiyi.long_term.forget_gate.rules import KindRule, Rule
from jiyi.records import SEARCHABLE, Episode, Kind, Message, Query, Record, Scope, Searchable, Session
from jiyi.storage import Amendment, Cursor, Key, Store, Trash, Upkeep
from jiyi.storage.rows import kind_of

__all__ = ["GateRun", "Parts", "with_tasks"]

_HAIR = 0.001  # a smaller change of importance is not written
_LIVE = timedelta(days=30)  # a session in which something was said since is live
_TURNS = 20  # the newest turns of a live session stay
_MOST = 10_000  # what one query may return

_Reasons = Mapping[str, str]  # why, by the ids of the records that go

_Judge = Callable[[Sequence[Any]], _Reasons]


def with_tasks(records: Sequence[Record]) -> list[Key]:
    """Return the keys of records, and of the tasks that episodes among them came from."""
    keys: list[Key] = [(kind_of(record), record.id) for record in records]
    keys += [("task", r.task_id) for r in records if isinstance(r, Episode) and r.task_id is not None]
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where a memory is kept."""

    store: Store
    upkeep: Upkeep
    trash: Trash


@dataclass(slots=True, kw_only=True)
class GateRun:
    """Looks at a memory in pages, outside any transaction, and changes it page by page.

    What goes is read and judged again inside the transaction that takes it out, so that
    whoever works at the same time is never overruled by what was seen before.
    """

    parts: Parts
    scope: Scope
    now: datetime
    batch: int
    dry_run: bool
    progress: Callable[[int], None] | None = None
    tally: Tally = field(default_factory=Tally)

    def episodes(self, rule: Rule) -> None:
        """Recompute what every episode is worth; take out what is worth too little, then what is too many."""
        reason = f"importance below {rule.threshold:g}"

        def judge(episodes: Sequence[Episode]) -> _Reasons:
            return {e.id: reason for e in episodes if self._unimportant(rule, e)}

        left = _Left()
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
            left.add([(worth[e.id], to_micros(e.created_at), e.pinned) for e in episodes if e.id not in gone])
        cut = left.cut(rule.max_episodes)
        if cut is not None:
            self._above_limit(rule, cut)

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
            lying = Query(scope=self.scope, kinds=(*SEARCHABLE, "task"), until=before, limit=_MOST)
            self.tally.erased = len(self.parts.trash.discarded(lying))
            return
        dropped = self.batch
        while dropped == self.batch:
            dropped = self.parts.trash.erase(self.scope, before=before, limit=self.batch)
            self.tally.erased += dropped

    def kept(self) -> dict[Kind, int]:
        """Return how many records of each kind are left."""
        kinds: tuple[Kind, ...] = (*SEARCHABLE, "task")
        counts = self.parts.store.count(Query(scope=self.scope, kinds=kinds))
        return {kind: counts[kind] - (self.tally.gone(kind) if self.dry_run else 0) for kind in kinds}

    def _pages(self, kind: Kind, until: datetime | None = None) -> Iterator[tuple[Record, ...]]:
        query = Query(scope=self.scope, kinds=(kind,), until=until, limit=self.batch)
        page = self.parts.upkeep.scan(query)
        while True:
            yield page.records
            self._looked(len(page.records))
            if page.next is None:
                return
            page = self.parts.upkeep.scan(query, page.next)

    def _looked(self, count: int) -> None:
        self.tally.looked_at += count
        if self.progress:
            self.progress(self.tally.looked_at)

    def _change(
        self,
        kind: Kind,
        suspects: Sequence[Any],
        judge: _Judge,
        changes: Sequence[Amendment] = (),
        rule: Rule | None = None,
    ) -> None:
        """Write new importances and take out those suspects that are still to go, in one transaction."""
        self.tally.recomputed += len(changes)
        if self.dry_run:
            self._take_out(kind, suspects, judge(suspects), rule)
        elif suspects or changes:
            with self.parts.store.transaction():
                self.parts.upkeep.amend(self.scope, kind, changes)
                fresh = self._again(kind, suspects)
                self._take_out(kind, fresh, judge(fresh), rule)

    def _again(self, kind: Kind, suspects: Sequence[Record]) -> list[Any]:
        """Read records anew, in the same order; those that are gone or became pinned are left out."""
        if not suspects:
            return []
        ids = tuple(record.id for record in suspects)
        query = Query(scope=self.scope, kinds=(kind,), ids=ids, pinned=False, limit=len(ids))
        found = {record.id: record for record in self.parts.store.find(query)}
        return [found[id_] for id_ in ids if id_ in found]

    def _take_out(self, kind: Kind, records: Sequence[Any], reasons: _Reasons, rule: Rule | None) -> None:
        for reason in dict.fromkeys(reasons.values()):
            gone: list[Searchable] = [r for r in records if reasons.get(r.id) == reason]
            keys = with_tasks(gone)
            if self.dry_run:
                self.tally.add(reason, self._counts(kind, keys))
            else:
                discard = self.parts.trash.discard
                self.tally.add(reason, discard(self.scope, keys, reason=reason, at=self.now))
            shown = gone[: self.tally.room]
            worth = {e.id: self._importance(rule, cast("Episode", e)) for e in shown} if rule else {}
            self.tally.show(kind, reason, shown, worth)

    def _counts(self, kind: Kind, keys: Sequence[Key]) -> dict[Kind, int]:
        """Return how many records `Trash.discard` would take out."""
        tasks = tuple(id_ for other, id_ in keys if other == "task")
        user = Scope(user_id=self.scope.user_id)
        there = self.parts.store.count(Query(scope=user, kinds=("task",), ids=tasks))["task"] if tasks else 0
        return {kind: len(keys) - len(tasks), "task": there}

    def _above_limit(self, rule: Rule, cut: "_Cut") -> None:
        """Take out the unpinned episodes up to a cut, oldest first, until no more than the limit are left."""
        reason = f"more than {rule.max_episodes:,} episodes"
        equals = cut.equals
        spare = _Spare(cut.excess) if self.dry_run else _LiveSpare(cut.excess, self, rule.max_episodes)

        def place(episode: Episode) -> tuple[float, int]:
            return self._importance(rule, episode), to_micros(episode.created_at)

        def judge(episodes: Sequence[Episode]) -> _Reasons:
            nonlocal equals
            gone: list[str] = []
            for episode in episodes:
                here = place(episode)
                equal = here == cut.place
                if here < cut.place or (equal and equals > 0):
                    gone.append(episode.id)
                    equals -= equal
            return dict.fromkeys(gone[: spare.left], reason)

        query = Query(scope=self.scope, kinds=("episode",), limit=self.batch)
        after: Cursor | None = None
        while spare.left:
            # Read inside the transaction: nearly all of a page may have to go, and then it is read once.
            with nullcontext() if self.dry_run else self.parts.store.transaction():
                page = self.parts.upkeep.scan(query, after)
                episodes = cast("tuple[Episode, ...]", page.records)
                suspects = [e for e in episodes if not e.pinned and place(e) <= cut.place]
                if self.dry_run:  # what is worth too little is still there, but counted already
                    suspects = [e for e in suspects if not self._unimportant(rule, e)]
                before = self.tally.gone("episode")
                spare.look()
                self._take_out("episode", suspects, judge(suspects), rule)
                spare.take(self.tally.gone("episode") - before)
            self._looked(len(page.records))
            if page.next is None:
                return
            after = page.next

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
            held |= {
                m.id
                for m in messages
                if cast("Scope", m.scope).session_id == session_id
                and floor is not None
                and (m.role == "system" or (m.seq or 0) >= floor)
            }
        return held

    def _floor(self, scope: Scope) -> int | None:
        """Return the place where a session's newest turns begin, None where it is not live."""
        session = Query(scope=scope, kinds=("session",), limit=1)
        found = cast("list[Session]", self.parts.store.find(session))
        if not found or self.now - found[0].last_active_at > _LIVE:
            return None
        query = Query(scope=scope, kinds=("message",), roles=("user",), newest_first=True, limit=_TURNS)
        turns = cast("list[Message]", self.parts.store.find(query))
        return (turns[-1].seq or 0) if len(turns) == _TURNS else 0


class _Spare:
    """How many episodes may still go before too few are left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def look(self) -> None:
        """Bring the number up to date."""

    def take(self, count: int) -> None:
        """Note what went."""
        self.left -= count


class _LiveSpare(_Spare):
    """The same where others may take out episodes, too; used inside the transaction that takes out."""

    def __init__(self, left: int, run: GateRun, most: int) -> None:
        super().__init__(left)
        self._parts = run.parts
        self._scope = run.scope
        self._most = most
        self._changes: int | None = None  # of the memory, when the number was right

    def look(self) -> None:
        """Count anew where others took something out since."""
        if self._changes != self._parts.upkeep.changes(self._scope):
            count = self._parts.store.count(Query(scope=self._scope, kinds=("episode",)))
            self.left = max(0, count["episode"] - self._most)

    def take(self, count: int) -> None:
        """Note what went in this transaction."""
        super().take(count)
        self._changes = self._parts.upkeep.changes(self._scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Up to where unpinned episodes are too many."""

    place: tuple[float, int]  # importance and creation of the last that is
    equals: int  # how many of those at just this place are
    excess: int  # how many are altogether


class _Left:
    """What the episodes that stay are worth, as numbers alone: 16 bytes each."""

    def __init__(self) -> None:
        self._total = 0
        self._worth = array("d")  # of the unpinned ones
        self._created = array("q")

    def add(self, episodes: Sequence[tuple[float, int, bool]]) -> None:
        """Take in importance, creation and pin of some episodes."""
        self._total += len(episodes)
        self._worth.extend(worth for worth, _, pinned in episodes if not pinned)
        self._created.extend(created for _, created, pinned in episodes if not pinned)

    def cut(self, most: int) -> _Cut | None:
        """Return where to cut to keep so many; None where there are not more."""
        excess = min(self._total - most, len(self._worth))
        if excess <= 0:
            return None
        worth, created = np.frombuffer(self._worth), np.frombuffer(self._created, np.int64)
        order = np.lexsort((created, worth))[:excess]
        last = order[-1]
        equals = np.count_nonzero((worth[order] == worth[last]) & (created[order] == created[last]))
        return _Cut(place=(float(worth[last]), int(created[last])), equals=int(equals), excess=excess)
