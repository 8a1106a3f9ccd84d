"""Consolidation: turns episodes about the same thing into knowledge."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from typing import Any, Literal, cast

from jiyi.clock import Clock, utc_now
from jiyi.errors import SettingsError
from jiyi.llm import LLM
from jiyi.long_term.consolidation.clusters import WINDOW, group_similar
from jiyi.long_term.consolidation.lesson import Brief, extract_lesson, group_language
from jiyi.long_term.consolidation.writer import ConsolidationReceipt, Group, GroupWriter, Progress, get_briefs
from jiyi.records import Episode, Knowledge, Query, Scope, stable_id
from jiyi.storage import Store, VectorIndex
from jiyi.storage.store import all_records

__all__ = ["Consolidation"]

_PAGE = 500  # records read at once
_MAX_TRIES = 3  # at a group that another process changed


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
        run = GroupWriter(self.store, self.llm, self.clock, self.min_episodes, self.language, progress)
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
        briefs = get_briefs(self.store, knowledge.scope, knowledge.source_episodes)
        if not briefs:
            return None
        one_target = all(brief.target for brief in briefs)
        language = group_language(briefs, self.language)
        lesson = extract_lesson(briefs, len(knowledge.source_episodes), language, one_target=one_target)
        return replace(knowledge, updated_at=self.clock(), **asdict(lesson))

    # --- by target

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

    def _write_targets(self, run: GroupWriter, scope: Scope, keys: Sequence[str]) -> None:
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

    # --- by similarity

    def _write_similar(self, run: GroupWriter, scope: Scope, waiting: int) -> None:
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


def _episode_query(scope: Scope, **narrow: Any) -> Query:
    return Query(scope=scope, kinds=("episode",), limit=_PAGE, **narrow)


def _knowledge_id(scope: Scope, key: str) -> str:
    return stable_id("knowledge", scope.user_id, scope.agent_id or "", "target", key)
