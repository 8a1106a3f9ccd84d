"""One group of episodes to one knowledge: read, written down, and stored in one transaction."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, cast

from jiyi.clock import Clock
from jiyi.errors import LLMUnreachable
from jiyi.llm import LLM
from jiyi.long_term.consolidation.lesson import (
    Brief,
    Lesson,
    ask_lesson,
    count_lesson,
    language_of_group,
    one_line,
    with_earlier,
)
from jiyi.prompts import Language
from jiyi.records import Episode, Knowledge, Query, Scope
from jiyi.storage import Amendment, Store

__all__ = [
    "ConsolidatedGroup",
    "ConsolidationMethod",
    "ConsolidationReceipt",
    "Group",
    "GroupWriter",
    "Progress",
    "briefs_of",
]

_MOST_READ = 1_000
"""So many of the newest episodes of a group are read for its lesson; all of them are its sources."""

_PIECE = 200  # episodes read at once
_MOST_FAILURES = 3  # in a row, before a model that cannot be reached is left alone for this run
_BATCH = 50  # groups written in one transaction: a commit waits some milliseconds for the disk
_NOTE = 300  # characters of an error

ConsolidationMethod = Literal["llm", "extractive"]
"""Who wrote the lesson: a language model, or counting."""

Progress = Callable[[int, int], None]
"""Is told how many groups are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedGroup:
    """One group of episodes that became, or went into, a knowledge."""

    knowledge_id: str
    topic: str
    created: bool  # a new knowledge; False: one that was there grew
    episodes: int  # how many went in now
    sources: int  # how many it rests on altogether
    method: ConsolidationMethod
    note: str = ""  # why it was not the language model, or what it was not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReceipt:
    """What one run did; equal runs on unchanged data have no groups."""

    groups: tuple[ConsolidatedGroup, ...]  # in the order they were written
    waiting: int  # episodes left for later: their groups are too small
    skipped: int  # groups that are too small, or that another process changed meanwhile
    notes: tuple[str, ...]  # what else should be known
    seconds: float

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the knowledge that is new."""
        return tuple(group.knowledge_id for group in self.groups if group.created)

    @property
    def updated(self) -> tuple[str, ...]:
        """Ids of the knowledge that grew."""
        return tuple(group.knowledge_id for group in self.groups if not group.created)

    @property
    def episodes(self) -> int:
        """How many episodes went into a knowledge."""
        return sum(group.episodes for group in self.groups)

    @property
    def methods(self) -> Mapping[ConsolidationMethod, int]:
        """How many groups were written in which way."""
        return Counter(group.method for group in self.groups)


@dataclass(slots=True)
class Group:
    """Episodes that belong together and are in no knowledge yet."""

    scope: Scope  # of the knowledge: the user, and the agent whose episodes they are
    knowledge_id: str
    target: str  # the key of what they are about; "" where they are merely alike
    ids: list[str] = field(default_factory=list)  # oldest first
    briefs: deque[Brief] = field(default_factory=lambda: deque(maxlen=_MOST_READ))  # the newest, oldest first

    def add(self, brief: Brief) -> None:
        """Take in the next episode."""
        self.ids.append(brief.id)
        self.briefs.append(brief)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    group: Group
    knowledge: Knowledge  # as it is to be
    known: Knowledge | None  # as it was when the group was read
    done: ConsolidatedGroup  # what the receipt says of it


@dataclass(slots=True, kw_only=True)
class GroupWriter:
    """Writes groups of one user into a store, and records one run."""

    store: Store
    llm: LLM | None
    clock: Clock
    min_episodes: int  # so many make a knowledge
    language: Literal["auto", "zh", "en"]
    progress: Progress | None
    failures: int = 0  # of the model, in a row
    looked_at: int = 0
    groups: list[ConsolidatedGroup] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waiting: int = 0
    skipped: int = 0
    total: int = 0  # groups to look at

    def write(self, groups: Iterable[Group]) -> list[Group]:
        """Write groups; return those that somebody changed since they were read.

        Groups whose lessons are counted share a transaction; what a model was asked for is
        stored at once.
        """
        most = 1 if self.llm else _BATCH
        left: list[Group] = []
        batch: list[Group] = []
        for group in groups:
            batch.append(group)
            if len(batch) >= most or sum(len(one.briefs) for one in batch) >= _MOST_READ:
                left += self._write(batch)
                batch = []
        return left + (self._write(batch) if batch else [])

    def give_up(self, groups: Sequence[Group]) -> None:
        """Leave groups to the next run."""
        self.skipped += len(groups)
        if groups:
            self.notes.append(
                f"{len(groups)} groups were changed by another process meanwhile; the next run takes them up"
            )

    def step(self) -> None:
        """Count a group that was looked at."""
        self.looked_at += 1
        if self.progress:
            self.progress(self.looked_at, self.total)

    def _write(self, groups: Sequence[Group]) -> list[Group]:
        """Write every knowledge with the marks on its sources, in one transaction."""
        known = self._knowledge(groups)
        prepared = []
        for group in groups:
            if group.knowledge_id in known or len(group.ids) >= self.min_episodes:
                prepared.append(self._prepare(group, known.get(group.knowledge_id)))
            else:
                self.skipped += 1
                self.waiting += len(group.ids)
        left = self.store.together(lambda: self._store_all(prepared)) if prepared else []
        ids = {item.knowledge.id for item in left}
        self.groups += [item.done for item in prepared if item.knowledge.id not in ids]
        return [item.group for item in left]

    def _prepare(self, group: Group, known: Knowledge | None) -> _Prepared:
        before = known.source_episodes if known else ()
        held = set(before)
        sources = (*before, *(new for new in group.ids if new not in held))
        older = briefs_of(self.store, group.scope, before)
        briefs = sorted([*older, *group.briefs], key=lambda brief: (brief.created_at, brief.id))
        briefs = briefs[-_MOST_READ:]
        language = language_of_group(briefs, self.language)
        counted = count_lesson(briefs, len(sources), language, about=bool(group.target))
        if known and len(older) < min(len(before), _MOST_READ):
            counted = with_earlier(counted, known.key_points, language)
        lesson, method, note = self._lesson(briefs, counted, language, len(sources), known)
        now = self.clock()
        knowledge = Knowledge(
            scope=group.scope,
            id=group.knowledge_id,
            source_episodes=sources,
            created_at=known.created_at if known else now,
            updated_at=now,
            **asdict(lesson),
        )
        done = ConsolidatedGroup(
            knowledge_id=knowledge.id,
            topic=knowledge.topic,
            created=known is None,
            episodes=len(group.ids),
            sources=len(sources),
            method=method,
            note=note,
        )
        return _Prepared(group=group, knowledge=knowledge, known=known, done=done)

    def _store_all(self, batch: Sequence[_Prepared]) -> list[_Prepared]:
        """Write what was not changed since it was read; return the rest."""
        groups = [item.group for item in batch]
        fresh = self._knowledge(groups)
        whole = self._all_there(groups)  # asked at once: nearly always they all are
        fit = [
            item
            for item in batch
            if _equal(item.known, fresh.get(item.knowledge.id)) and (whole or self._all_there([item.group]))
        ]
        if fit:
            self.store.put([_with_uses(item.knowledge, fresh.get(item.knowledge.id)) for item in fit])
            marks = [Amendment(id=id_, consolidated=True) for item in fit for id_ in item.group.ids]
            self.store.amend(Scope(user_id=fit[0].group.scope.user_id), "episode", marks)
        written = {item.knowledge.id for item in fit}
        return [item for item in batch if item.knowledge.id not in written]

    def _lesson(
        self,
        briefs: Sequence[Brief],
        counted: Lesson,
        language: Language,
        total: int,
        known: Knowledge | None,
    ) -> tuple[Lesson, ConsolidationMethod, str]:
        if self.llm is None:
            return counted, "extractive", ""
        if self.failures >= _MOST_FAILURES:
            return counted, "extractive", f"not asked: unreachable {self.failures} times in a row"
        try:
            lesson, shown = ask_lesson(self.llm, briefs, counted, total, language, known=known)
        except Exception as error:  # a model from outside may raise anything
            self.failures = self.failures + 1 if isinstance(error, LLMUnreachable) else 0
            return counted, "extractive", f"the language model failed: {one_line(str(error), _NOTE)}"
        self.failures = 0
        note = f"shown the newest {shown} of {total} episodes" if shown < total else ""
        return lesson, "llm", note

    def _knowledge(self, groups: Sequence[Group]) -> dict[str, Knowledge]:
        ids = tuple(group.knowledge_id for group in groups)
        scope = Scope(user_id=groups[0].scope.user_id)
        found = self.store.find(Query(scope=scope, kinds=("knowledge",), ids=ids, limit=len(ids)))
        return {one.id: one for one in cast("list[Knowledge]", found)}

    def _all_there(self, groups: Sequence[Group]) -> bool:
        """Say whether all episodes of groups are still there and in no knowledge."""
        ids = tuple(id_ for group in groups for id_ in group.ids)
        scope = Scope(user_id=groups[0].scope.user_id)
        query = Query(scope=scope, kinds=("episode",), ids=ids, consolidated=False)
        return self.store.count(query)["episode"] == len(ids)


def briefs_of(store: Store, scope: Scope, ids: Sequence[str]) -> list[Brief]:
    """Return the briefs of the last `_MOST_READ` of some episodes, as far as they are still there."""
    newest, found = ids[-_MOST_READ:], []
    for start in range(0, len(newest), _PIECE):
        piece = tuple(newest[start : start + _PIECE])
        query = Query(scope=Scope(user_id=scope.user_id), kinds=("episode",), ids=piece, limit=_PIECE)
        found += [Brief.of(cast("Episode", episode)) for episode in store.find(query)]
    return found


def _with_uses(knowledge: Knowledge, fresh: Knowledge | None) -> Knowledge:
    """Return a knowledge with what the one it replaces is kept with: recalls, pin, metadata."""
    kept = ("access_count", "last_accessed_at", "pinned", "metadata") if fresh else ()
    return replace(knowledge, **{name: getattr(fresh, name) for name in kept})


def _equal(one: Knowledge | None, other: Knowledge | None) -> bool:
    """Say whether two states of a knowledge say the same; being recalled or pinned changes nothing."""
    if one is None or other is None:
        return one is other
    return (one.search_text, one.source_episodes) == (other.search_text, other.source_episodes)
