"""Writes groups of episodes as knowledge, each in one transaction with the marks on its sources."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from jiyi.clock import Clock
from jiyi.errors import LLMUnreachable
from jiyi.llm import LLM
from jiyi.long_term.consolidation import lesson as lessons
from jiyi.long_term.consolidation.lesson import Brief, Lesson, one_line
from jiyi.long_term.finding import find_by_ids
from jiyi.prompts import Language
from jiyi.records import Knowledge, Query, Scope
from jiyi.storage import Amendment, Store

__all__ = [
    "ConsolidatedGroup",
    "ConsolidationMethod",
    "ConsolidationReceipt",
    "Group",
    "GroupWriter",
    "Progress",
    "get_briefs",
]

_MAX_READ = 1_000
"""How many of the newest episodes of a group are read for its lesson; all of them are its sources."""

_READ_BATCH = 200  # episodes read at once
_MAX_FAILURES = 3  # in a row, after which an unreachable model is not called again in this run
_WRITE_BATCH = 50  # groups written in one transaction, as a commit waits milliseconds for the disk
_MAX_ERROR_CHARS = 300

ConsolidationMethod = Literal["llm", "extractive"]
"""Who wrote the lesson: a language model, or counting."""

Progress = Callable[[int, int], None]
"""Called with the number of groups done, and of all groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidatedGroup:
    """One group of episodes that became, or extended, a knowledge."""

    knowledge_id: str
    topic: str
    created: bool  # a new knowledge; False: an existing one was extended
    episodes: int  # that were added now
    sources: int  # of the knowledge in all
    method: ConsolidationMethod
    note: str = ""  # why the language model was not used, or what it was not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReceipt:
    """What one run did; a second run on unchanged data has no groups."""

    groups: tuple[ConsolidatedGroup, ...]  # in the order they were written
    waiting: int  # episodes whose groups are too small yet
    skipped: int  # groups that are too small, or that another process changed meanwhile
    notes: tuple[str, ...]
    seconds: float

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of new knowledge."""
        return tuple(group.knowledge_id for group in self.groups if group.created)

    @property
    def updated(self) -> tuple[str, ...]:
        """Ids of extended knowledge."""
        return tuple(group.knowledge_id for group in self.groups if not group.created)

    @property
    def episodes(self) -> int:
        """The number of episodes that were consolidated."""
        return sum(group.episodes for group in self.groups)

    @property
    def methods(self) -> Mapping[ConsolidationMethod, int]:
        """The number of groups by method."""
        return Counter(group.method for group in self.groups)


@dataclass(slots=True)
class Group:
    """Episodes that belong together and are in no knowledge yet."""

    scope: Scope  # of the knowledge: the user, and the agent of the episodes
    knowledge_id: str
    target: str  # its key; "" if they are only similar
    ids: list[str] = field(default_factory=list)  # oldest first
    briefs: deque[Brief] = field(default_factory=lambda: deque(maxlen=_MAX_READ))  # the newest, oldest first

    def add(self, brief: Brief) -> None:
        """Add the next episode."""
        self.ids.append(brief.id)
        self.briefs.append(brief)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    group: Group
    knowledge: Knowledge  # to be written
    known: Knowledge | None  # the stored one when the group was read
    result: ConsolidatedGroup  # for the receipt


@dataclass(slots=True)
class GroupWriter:
    """Writes the groups of one user into a store, and counts what one run did."""

    store: Store
    llm: LLM | None
    clock: Clock
    min_episodes: int  # of a new knowledge
    language: Literal["auto", "zh", "en"]
    progress: Progress | None
    failures: int = 0  # of the model, in a row
    done_groups: int = 0
    groups: list[ConsolidatedGroup] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waiting: int = 0
    skipped: int = 0
    total: int = 0  # groups of the run

    def write(self, groups: Iterable[Group]) -> list[Group]:
        """Write groups, those with a model's lesson at once; return what another process changed since."""
        most = 1 if self.llm else _WRITE_BATCH
        changed: list[Group] = []
        batch: list[Group] = []
        for group in groups:
            batch.append(group)
            if len(batch) >= most or sum(len(group.briefs) for group in batch) >= _MAX_READ:
                changed += self._write(batch)
                batch = []
        return changed + (self._write(batch) if batch else [])

    def skip(self, groups: Sequence[Group]) -> None:
        """Leave groups to the next run."""
        self.skipped += len(groups)
        if groups:
            changed = f"{len(groups)} groups were changed by another process meanwhile"
            self.notes.append(f"{changed}; the next run takes them up")

    def report_group(self) -> None:
        """Count a group as done."""
        self.done_groups += 1
        if self.progress:
            self.progress(self.done_groups, self.total)

    def _write(self, groups: Sequence[Group]) -> list[Group]:
        known = self._load_knowledge(groups)
        prepared = []
        for group in groups:
            if group.knowledge_id in known or len(group.ids) >= self.min_episodes:
                prepared.append(self._prepare(group, known.get(group.knowledge_id)))
            else:
                self.skipped += 1
                self.waiting += len(group.ids)
        written = self.store.together(lambda: self._store_unchanged(prepared)) if prepared else []
        self.groups += [item.result for item in written]
        ids = {item.knowledge.id for item in written}
        return [item.group for item in prepared if item.knowledge.id not in ids]

    def _prepare(self, group: Group, known: Knowledge | None) -> _Prepared:
        before = known.source_episodes if known else ()
        sources = tuple(dict.fromkeys([*before, *group.ids]))
        older = get_briefs(self.store, group.scope, before)
        briefs = sorted([*older, *group.briefs], key=lambda brief: (brief.created_at, brief.id))
        briefs = briefs[-_MAX_READ:]
        language = lessons.group_language(briefs, self.language)
        counted = lessons.extract_lesson(briefs, len(sources), language, one_target=bool(group.target))
        if known and len(older) < min(len(before), _MAX_READ):
            counted = lessons.keep_earlier_points(counted, known.key_points, language)
        lesson, method, note = self._write_lesson(briefs, counted, language, len(sources), known)
        now = self.clock()
        knowledge = Knowledge(
            scope=group.scope,
            id=group.knowledge_id,
            source_episodes=sources,
            created_at=known.created_at if known else now,
            updated_at=now,
            **asdict(lesson),
        )
        result = ConsolidatedGroup(
            knowledge_id=knowledge.id,
            topic=knowledge.topic,
            created=known is None,
            episodes=len(group.ids),
            sources=len(sources),
            method=method,
            note=note,
        )
        return _Prepared(group=group, knowledge=knowledge, known=known, result=result)

    def _store_unchanged(self, batch: Sequence[_Prepared]) -> list[_Prepared]:
        """Write and return the groups that did not change since they were read."""
        groups = [item.group for item in batch]
        stored = self._load_knowledge(groups)
        all_new = self._are_new(groups)  # one query, as nearly always they all are
        unchanged = [
            item
            for item in batch
            if (all_new or self._are_new([item.group]))
            and _says_same(item.known, stored.get(item.knowledge.id))
        ]
        if unchanged:
            self.store.put([_keep_usage(item.knowledge, stored.get(item.knowledge.id)) for item in unchanged])
            marks = [Amendment(id=id_, consolidated=True) for item in unchanged for id_ in item.group.ids]
            self.store.amend(Scope(user_id=groups[0].scope.user_id), "episode", marks)
        return unchanged

    def _write_lesson(
        self,
        briefs: Sequence[Brief],
        counted: Lesson,
        language: Language,
        total: int,
        known: Knowledge | None,
    ) -> tuple[Lesson, ConsolidationMethod, str]:
        if self.llm is None:
            return counted, "extractive", ""
        if self.failures >= _MAX_FAILURES:
            return counted, "extractive", f"not asked: unreachable {self.failures} times in a row"
        try:
            prompt, shown = lessons.lesson_prompt(briefs, counted, total, language, known)
            lesson = lessons.generate_lesson(self.llm, prompt, counted, language)
        except Exception as error:  # third-party models may raise anything
            self.failures = self.failures + 1 if isinstance(error, LLMUnreachable) else 0
            note = f"the language model failed: {one_line(str(error), _MAX_ERROR_CHARS)}"
            return counted, "extractive", note
        self.failures = 0
        note = f"shown the newest {shown} of {total} episodes" if shown < total else ""
        return lesson, "llm", note

    def _load_knowledge(self, groups: Sequence[Group]) -> dict[str, Knowledge]:
        scope = Scope(user_id=groups[0].scope.user_id)
        found = find_by_ids(self.store, scope, "knowledge", [group.knowledge_id for group in groups])
        return {knowledge.id: knowledge for knowledge in found}

    def _are_new(self, groups: Sequence[Group]) -> bool:
        """Return whether all episodes of groups still exist and are in no knowledge."""
        ids = tuple(id_ for group in groups for id_ in group.ids)
        scope = Scope(user_id=groups[0].scope.user_id)
        query = Query(scope=scope, kinds=("episode",), ids=ids, consolidated=False)
        return self.store.count(query)["episode"] == len(ids)


def get_briefs(store: Store, scope: Scope, ids: Sequence[str]) -> list[Brief]:
    """Return the briefs of the last `_MAX_READ` of these episodes that still exist."""
    newest, user = ids[-_MAX_READ:], Scope(user_id=scope.user_id)
    batches = (newest[start : start + _READ_BATCH] for start in range(0, len(newest), _READ_BATCH))
    return [Brief.of(episode) for ids in batches for episode in find_by_ids(store, user, "episode", ids)]


def _keep_usage(knowledge: Knowledge, stored: Knowledge | None) -> Knowledge:
    """Return a knowledge with the accesses, pin and metadata of the one it replaces."""
    kept = ("access_count", "last_accessed_at", "pinned", "metadata") if stored else ()
    return replace(knowledge, **{name: getattr(stored, name) for name in kept})


def _says_same(first: Knowledge | None, second: Knowledge | None) -> bool:
    """Return whether two states of a knowledge have the same text and sources."""
    if first is None or second is None:
        return first is second
    return (first.search_text, first.source_episodes) == (second.search_text, second.source_episodes)
