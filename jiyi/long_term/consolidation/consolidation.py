"""Consolidation: turns episodes about the same thing into knowledge."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any, Literal, cast

from jiyi.clock import Clock, utc_now
from jiyi.errors import LLMUnreachable, SettingsError
from jiyi.llm import LLM
from jiyi.long_term.consolidation import lesson as lessons
from jiyi.long_term.consolidation.clusters import MAX_READ, WINDOW, Group, group_similar
from jiyi.long_term.consolidation.lesson import Brief, Lesson, extract_lesson, group_language
from jiyi.long_term.finding import find_by_ids
from jiyi.prompts import Language
from jiyi.records import Episode, Knowledge, Query, Scope, stable_id
from jiyi.storage import Amendment, Store, VectorIndex, batched
from jiyi.storage.store import all_records
from jiyi.text.cut import one_line

__all__ = ["ConsolidatedGroup", "Consolidation", "ConsolidationMethod", "ConsolidationReceipt", "Progress"]

_PAGE = 500  # records read at once
_MAX_TRIES = 3  # at a group that another process changed
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


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Turns episodes that are in no knowledge yet into knowledge.

    - Episodes of one agent and one target belong together, however its name is spelled
      (`jiyi.text.entity_key`); of the newest 2,000 without a target, those that are similar.
    - A group of ``min_episodes`` becomes one `Knowledge`, whose id depends on user, agent and group alone,
      and which grows with every new episode: a run on unchanged data changes nothing.
    - A knowledge and the marks on its sources are written in one transaction, which first checks that all of
      them still exist and are unmarked, so two processes may run at once. Up to 50 counted groups share a
      transaction; one that a model wrote has its own.
    - The language model is called outside of transactions. Without one, or if it fails, the lesson is
      extracted by counting, and the receipt says why.
    - The newest 1,000 episodes of a group are held in memory, shortened.

    Raises `SettingsError`: min_episodes is below 2.
    """

    store: Store  # of episodes and knowledge
    vectors: VectorIndex | None  # of episodes without a target; None: these are compared by words alone
    _: KW_ONLY
    llm: LLM | None = None  # writes the lessons
    clock: Clock = utc_now
    min_episodes: int = 3  # needed for a knowledge, at least 2
    language: Literal["auto", "zh", "en"] = "auto"  # of lessons; "auto": of most of the episodes

    def __post_init__(self) -> None:
        if self.min_episodes < 2:
            raise SettingsError(
                f"min_episodes={self.min_episodes} must be at least 2: one episode is no pattern"
            )

    def run(self, scope: Scope, *, progress: Progress | None = None) -> ConsolidationReceipt:
        """Consolidate what is new in the memory of a user, or of one of their agents.

        ``progress`` is called with the number of groups done and of all groups. After a `StorageError`, what
        was written before stays, and the next run continues from there.
        """
        whose = Scope(user_id=scope.user_id, agent_id=scope.agent_id)
        began = time.perf_counter()
        run = _Run(self, Scope(user_id=scope.user_id), progress)
        counts = dict(self.store.targets(_episode_query(whose, consolidated=False)))
        without_target = counts.pop("", 0)
        keys = self._find_targets(whose, counts)
        run.skipped += len(counts) - len(keys)
        run.waiting += sum(counts[key] for key in counts.keys() - keys)
        run.total = len(keys) + bool(without_target)
        self._write_targets(run, whose, sorted(keys))
        if without_target:
            self._write_similar(run, whose, without_target)
        return ConsolidationReceipt(
            groups=tuple(run.groups),
            waiting=run.waiting,
            skipped=run.skipped,
            notes=tuple(run.notes),
            seconds=time.perf_counter() - began,
        )

    def rewritten(self, knowledge: Knowledge) -> Knowledge | None:
        """Return a knowledge rewritten from its sources that still exist; None if there are none.

        Nothing that only removed sources said is left in it. It never calls a language model and
        writes nothing, so it may be called inside a transaction.
        """
        briefs = _get_briefs(self.store, knowledge.scope, knowledge.source_episodes)
        if not briefs:
            return None
        one_target = all(brief.target for brief in briefs)
        language = group_language(briefs, self.language)
        lesson = extract_lesson(briefs, len(knowledge.source_episodes), language, one_target=one_target)
        return replace(knowledge, updated_at=self.clock(), **asdict(lesson))

    def _find_targets(self, scope: Scope, counts: Mapping[str, int]) -> set[str]:
        """Return the targets with enough new episodes, or with a knowledge that they can extend."""
        keys = {key for key, count in counts.items() if count >= self.min_episodes}
        few = counts.keys() - keys
        if few:
            keys |= few & self.store.targets(_episode_query(scope, consolidated=True)).keys()
        # A knowledge whose episodes are gone is found by its id.
        rest = {_knowledge_id(scope, key): key for key in sorted(few - keys)}
        found = self.store.find_by_keys(scope.user_id, [("knowledge", id_) for id_ in rest])
        return keys | {rest[id_] for _, id_ in found}

    def _write_targets(self, run: "_Run", scope: Scope, keys: Sequence[str]) -> None:
        def all_groups() -> Iterator[Group]:
            for key in keys:
                yield from self._read_target(scope, key)
                run.report_group()

        left = run.write(all_groups())
        for _ in range(_MAX_TRIES):
            again = {group.knowledge_id for group in left}
            read = (self._read_target(scope, key) for key in sorted({group.target for group in left}))
            left = run.write(group for groups in read for group in groups if group.knowledge_id in again)
        run.skip(left)

    def _read_target(self, scope: Scope, key: str) -> list[Group]:
        groups: dict[str | None, Group] = {}
        query = _episode_query(scope, consolidated=False, target=key)
        for episode in cast("Iterator[Episode]", all_records(self.store, query)):
            agent = episode.scope.agent_id
            if agent not in groups:
                whose = Scope(user_id=scope.user_id, agent_id=agent)
                groups[agent] = Group(scope=whose, knowledge_id=_knowledge_id(whose, key), target=key)
            groups[agent].add(Brief.of(episode))
        return list(groups.values())

    def _write_similar(self, run: "_Run", scope: Scope, waiting: int) -> None:
        groups, ungrouped, unembedded = group_similar(self.store, self.vectors, scope, self.min_episodes)
        older = max(0, waiting - ungrouped - sum(len(group.ids) for group in groups))
        run.waiting += ungrouped + older
        run.skipped += bool(ungrouped)
        if older:
            old = f"{older} episodes without a target are older than the newest {WINDOW:,}"
            run.notes.append(f"{old}: not compared")
        if unembedded:
            without = f"{unembedded} episodes without a target have no vector yet"
            run.notes.append(f"{without}: compared by their words")
        run.skip(run.write(groups))
        run.report_group()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    group: Group
    knowledge: Knowledge  # to be written
    known: Knowledge | None  # the stored one when the group was read
    result: ConsolidatedGroup  # for the receipt


@dataclass(slots=True)
class _Run:
    """Writes the groups of one user into a store, and counts what one run did."""

    setup: Consolidation
    user: Scope
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
        most = 1 if self.setup.llm else _WRITE_BATCH
        changed, batch = list[Group](), list[Group]()
        for group in groups:
            batch.append(group)
            if len(batch) >= most or sum(len(group.briefs) for group in batch) >= MAX_READ:
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
        due = [g for g in groups if g.knowledge_id in known or len(g.ids) >= self.setup.min_episodes]
        prepared = [self._prepare(group, known.get(group.knowledge_id)) for group in due]
        self.skipped += len(groups) - len(due)
        self.waiting += sum(len(group.ids) for group in groups) - sum(len(group.ids) for group in due)
        written = self.setup.store.together(lambda: self._store_unchanged(prepared)) if prepared else []
        self.groups += [item.result for item in written]
        ids = {item.knowledge.id for item in written}
        return [item.group for item in prepared if item.knowledge.id not in ids]

    def _prepare(self, group: Group, known: Knowledge | None) -> _Prepared:
        before = known.source_episodes if known else ()
        sources = tuple(dict.fromkeys([*before, *group.ids]))
        older = _get_briefs(self.setup.store, group.scope, before)
        briefs = sorted([*older, *group.briefs], key=lambda brief: (brief.created_at, brief.id))[-MAX_READ:]
        language = lessons.group_language(briefs, self.setup.language)
        counted = lessons.extract_lesson(briefs, len(sources), language, one_target=bool(group.target))
        if known and len(older) < min(len(before), MAX_READ):
            counted = lessons.keep_earlier_points(counted, known.key_points, language)
        lesson, method, note = self._write_lesson(briefs, counted, language, len(sources), known)
        now = self.setup.clock()
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
            and _content(item.known) == _content(stored.get(item.knowledge.id))
        ]
        if unchanged:
            kept = ("access_count", "last_accessed_at", "pinned", "metadata")
            pairs = [(item.knowledge, stored.get(item.knowledge.id)) for item in unchanged]
            used = [replace(new, **{name: getattr(old, name) for name in kept if old}) for new, old in pairs]
            self.setup.store.put(used)
            marks = [Amendment(id=id_, consolidated=True) for item in unchanged for id_ in item.group.ids]
            self.setup.store.amend(self.user, "episode", marks)
        return unchanged

    def _write_lesson(
        self,
        briefs: Sequence[Brief],
        counted: Lesson,
        language: Language,
        total: int,
        known: Knowledge | None,
    ) -> tuple[Lesson, ConsolidationMethod, str]:
        if self.setup.llm is None:
            return counted, "extractive", ""
        if self.failures >= _MAX_FAILURES:
            return counted, "extractive", f"not asked: unreachable {self.failures} times in a row"
        try:
            prompt, shown = lessons.lesson_prompt(briefs, counted, total, language, known)
            lesson = lessons.generate_lesson(self.setup.llm, prompt, counted, language)
        except Exception as error:  # third-party models may raise anything
            self.failures = self.failures + 1 if isinstance(error, LLMUnreachable) else 0
            note = f"the language model failed: {one_line(str(error), _MAX_ERROR_CHARS)}"
            return counted, "extractive", note
        self.failures = 0
        note = f"shown the newest {shown} of {total} episodes" if shown < total else ""
        return lesson, "llm", note

    def _load_knowledge(self, groups: Sequence[Group]) -> dict[str, Knowledge]:
        ids = [group.knowledge_id for group in groups]
        return {one.id: one for one in find_by_ids(self.setup.store, self.user, "knowledge", ids)}

    def _are_new(self, groups: Sequence[Group]) -> bool:
        """Return whether all episodes of groups still exist and are in no knowledge."""
        ids = tuple(id_ for group in groups for id_ in group.ids)
        query = Query(scope=self.user, kinds=("episode",), ids=ids, consolidated=False)
        return self.setup.store.count(query)["episode"] == len(ids)


def _get_briefs(store: Store, scope: Scope, ids: Sequence[str]) -> list[Brief]:
    """Return the briefs of the last `MAX_READ` of these episodes that still exist."""
    newest, user = ids[-MAX_READ:], Scope(user_id=scope.user_id)
    batches = batched(newest, _READ_BATCH)
    return [Brief.of(episode) for ids in batches for episode in find_by_ids(store, user, "episode", ids)]


def _content(knowledge: Knowledge | None) -> object:
    return knowledge and (knowledge.search_text, knowledge.source_episodes)


def _episode_query(scope: Scope, **narrow: Any) -> Query:
    return Query(scope=scope, kinds=("episode",), limit=_PAGE, **narrow)


def _knowledge_id(scope: Scope, key: str) -> str:
    return stable_id("knowledge", scope.user_id, scope.agent_id or "", "target", key)
