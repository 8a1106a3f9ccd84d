"""Plans what to forget: the selected records and everything derived from them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, cast

from jiyi.long_term.forgetting import provenance
from jiyi.long_term.forgetting.provenance import Forgettable, RecordReader, batched, relink_facts
from jiyi.long_term.forgetting.select import RequiredWords
from jiyi.records import Episode, Kind, Knowledge, Message, Query, Record, Scope, Summary, Task, stable_id
from jiyi.records.fact import Fact
from jiyi.storage import Amendment, Key, key_of, kind_of
from jiyi.text import first_words

__all__ = [
    "MAX_ITEMS",
    "REQUESTED",
    "ForgetReceipt",
    "Forgotten",
    "Learn",
    "Plan",
    "Planner",
    "RestoreReceipt",
    "Rewrite",
    "carry_out",
    "count_kinds",
    "describe",
]

REQUESTED = "asked for"  # `Forgotten.why` of the records that were selected
MAX_ITEMS = 1_000  # records of each sort that a receipt lists; its counts are complete
_MAX_TEXT_CHARS = 80  # of a listed record

_Action = Literal["taken", "changed", "restored", "left"]
Learn = Callable[[Sequence[Message]], object]
"""Reads stored messages and stores the facts in them; reading one again changes nothing."""

Rewrite = Callable[[Knowledge], Knowledge | None]
"""Rewrites a knowledge from its sources that still exist; returns None if it cannot."""

_MAX_TEXTS = 2_000  # records whose beginnings are kept for the receipt
# Filters of messages that do not apply to summaries.
_MESSAGE_FILTERS = ("ids", "roles", "since", "until", "pinned", "where")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """One record that was removed, or changed because others were removed."""

    kind: Kind
    id: str
    action: _Action
    why: str  # "asked for", or what it depended on
    text: str = ""  # its beginning; "" after a purge, or if the agent that asks cannot see it


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What a forget or a purge did, or would do."""

    counts: Mapping[Kind, int]  # removed records, by kind
    changed: Mapping[Kind, int]  # records that stayed but were changed, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 that were asked for, then the first 1,000 others
    reason: str  # as given
    at: datetime  # when all of it was removed; `Forgetting.restore` takes it
    dry_run: bool = False  # nothing was changed
    erased: int = 0  # records a purge deleted for good, including those in the trash
    damaged: int = 0  # damaged records of the scope or ids, deleted for good: they cannot be restored
    overwritten: bool = False  # no byte of what a purge deleted is left in the file; False on a server

    @property
    def total(self) -> int:
        """The number of removed records."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What a restore brought back."""

    counts: Mapping[Kind, int]  # restored records, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 of them, then the first 1,000 that stayed in the trash
    left: Mapping[Kind, int] = field(default_factory=dict)  # what stayed in the trash, by kind

    @property
    def total(self) -> int:
        """The number of restored records."""
        return sum(self.counts.values())


def describe(record: Record, action: _Action, why: str, *, with_text: bool = True) -> Forgotten:
    """Return the item of a receipt for a record, with the beginning of its text on one line."""
    text = record.line if isinstance(record, Fact) else provenance.text_of(record)
    text = record.request if isinstance(record, Task) else text
    shown = first_words(text, _MAX_TEXT_CHARS) if with_text else ""
    return Forgotten(kind=kind_of(record), id=record.id, action=action, why=why, text=shown)


def count_kinds(keys: Iterable[Key]) -> Mapping[Kind, int]:
    """Return the number of keys of each kind."""
    return dict(Counter(kind for kind, _ in keys))


@dataclass(slots=True)
class Plan:
    """What to remove and what to change."""

    agent_id: str | None = None  # of the request: the receipt has no text of records it cannot see
    removed: dict[Key, Forgotten] = field(default_factory=dict)  # in the order found
    changed: dict[Key, Forgotten] = field(default_factory=dict)
    rewritten: list[Fact | Knowledge] = field(default_factory=list)  # the new states of what is changed
    relinked: list[Fact] = field(default_factory=list)  # facts that stay, with other links
    to_relearn: dict[str, Message] = field(default_factory=dict)  # messages to read again
    released: list[str] = field(default_factory=list)  # episodes that lose their knowledge

    def remove(self, record: Forgettable, why: str) -> bool:
        """Plan to remove a record; return False if that was planned already."""
        key = key_of(record)
        if key in self.removed:
            return False
        with_text = len(self.removed) < _MAX_TEXTS and self._is_visible(record)
        self.removed[key] = describe(record, "taken", why, with_text=with_text)
        return True

    def change(self, record: Fact | Knowledge, after: Fact | Knowledge, why: str) -> None:
        """Plan to replace a record by its new state."""
        self.changed[key_of(record)] = describe(record, "changed", why, with_text=self._is_visible(record))
        self.rewritten.append(after)

    def _is_visible(self, record: Forgettable) -> bool:
        """Return whether the requesting agent sees a record, unlike a summary of a whole session."""
        return self.agent_id is None or (record.scope is not None and record.scope.agent_id == self.agent_id)

    def ids(self, kind: Kind) -> list[str]:
        """Return the ids of one kind that are removed."""
        return [id_ for other, id_ in self.removed if other == kind]

    def receipt(self, reason: str, at: datetime, *, dry_run: bool) -> ForgetReceipt:
        """Return the receipt of this plan."""
        relinked: dict[Key, Forgotten] = {
            ("fact", fact.id): describe(fact, "changed", "a fact before or after it goes", with_text=False)
            for fact in self.relinked
            if ("fact", fact.id) not in self.changed
        }
        requested = [item for item in self.removed.values() if item.why == REQUESTED]
        others = [item for item in self.removed.values() if item.why != REQUESTED]
        others += [*self.changed.values(), *relinked.values()]
        return ForgetReceipt(
            counts=count_kinds(self.removed),
            changed=count_kinds([*self.changed, *relinked]),
            items=(*requested[:MAX_ITEMS], *others[:MAX_ITEMS]),
            reason=reason,
            at=at,
            dry_run=dry_run,
        )


def carry_out(reader: RecordReader, plan: Plan, learn: Learn, *, reason: str, at: datetime) -> None:
    """Execute a plan in the current transaction; ``reason`` is stored with what goes to the trash."""
    derived = [key for key in plan.removed if key[0] in ("fact", "knowledge")]
    reader.store.put(reader.merge_trashed_sources([*plan.changed, *derived]))
    facts = reader.find(Fact, plan.ids("fact"))
    for keys in batched([*plan.changed, *(key for key in plan.removed if key[0] != "summary")]):
        reader.trash.discard(reader.user, keys, reason=reason, at=at)
    for ids in batched(plan.ids("summary")):  # for good: what is restored later is summarised again
        reader.store.delete(Query(scope=reader.user, kinds=("summary",), ids=tuple(ids), limit=len(ids)))
    reader.store.put(plan.rewritten)
    if plan.to_relearn:
        learn(list(plan.to_relearn.values()))
    touched = [*facts, *(record for record in plan.rewritten if isinstance(record, Fact))]
    reader.store.put(relink_facts(reader.store, touched, at))
    released = [Amendment(id=id_, consolidated=False) for id_ in plan.released]
    reader.store.amend(reader.user, "episode", released)


@dataclass(slots=True)
class Planner:
    """Finds what must be removed with the requested records, without changing anything."""

    reader: RecordReader
    at: datetime  # now
    rewrite: Rewrite
    already_removed: Sequence[Forgettable] = ()  # records whose derived records are still to be removed
    alone: bool = False  # keep the calls of removed results and the results of removed calls
    kept_facts: Collection[str] = ()  # ids of facts that stay unchanged
    plan: Plan = field(default_factory=Plan)
    facts: dict[str, Fact] = field(default_factory=dict)  # removed ones
    task_ids: list[str] = field(default_factory=list)  # of the tasks of removed episodes
    removed_tasks: list[Task] = field(default_factory=list)
    tool_sessions: set[str] = field(default_factory=set)  # with removed tool calls or results
    # The first version of a session's summary to remove, and why.
    cut_summaries: dict[Scope, tuple[int, str]] = field(default_factory=dict)

    def build(self, requested: Iterable[Forgettable], query: Query | None = None) -> Plan:
        """Return the plan for the requested records, which ``query``, if any, selected."""
        for record in requested:
            self._remove_requested(record)
        if not self.alone:
            self._remove_tool_partners()
        for task in self.reader.find(Task, self.task_ids):
            self.plan.remove(task, "its episode goes")
        for episode in self._episodes_of(self.removed_tasks):
            self.plan.remove(episode, "its task goes")
        self._remove_or_reduce_facts()
        self._remove_or_rewrite_knowledge()
        self.plan.relinked = [
            fact
            for fact in relink_facts(self.reader.store, self.facts.values(), self.at, without=self.facts)
            if ("fact", fact.id) not in self.plan.removed
        ]
        self._remove_summaries(query)
        return self.plan

    def _remove_requested(self, record: Forgettable) -> None:
        if isinstance(record, Summary):
            self._cut_summaries_from(record, REQUESTED)
            return
        if not self.plan.remove(record, REQUESTED):
            return
        if isinstance(record, Fact):
            self.facts[record.id] = record
            self._remove_versions(record)
        elif isinstance(record, Episode) and record.task_id is not None:
            self.task_ids.append(record.task_id)
        elif isinstance(record, Task) and record.status != "in_progress":
            self.removed_tasks.append(replace(record, steps=(), context={}))
        elif isinstance(record, Message) and (record.tool_calls or record.role == "tool"):
            self.tool_sessions.add(cast("Scope", record.scope).session_id or "")

    def _remove_versions(self, fact: Fact) -> None:
        """Remove the values that a fact had before a caller changed it: none of them may hold again."""
        older = fact.supersedes
        while older and (found := self.reader.find(Fact, [older])) and found[0].version_of == fact.id:
            self.facts[older] = found[0]
            self.plan.remove(found[0], "an earlier version of a fact that goes")
            older = found[0].supersedes

    def _remove_tool_partners(self) -> None:
        for session_id in sorted(self.tool_sessions):
            session = self.reader.user.in_session(session_id)
            messages = self.reader.scan(Message, session, roles=("assistant", "tool"))
            # Only what links them: the contents of a long session may be large.
            parts = [
                replace(
                    m, content="", extra={}, tool_calls=tuple(replace(c, arguments="") for c in m.tool_calls)
                )
                for m in messages
                if m.tool_calls or m.role == "tool"
            ]
            for message in provenance.dependent_messages(parts, {id_ for _, id_ in self.plan.removed}):
                (stored,) = self.reader.find(Message, [message.id])
                part = "call of a result" if message.tool_calls else "result of a call"
                self.plan.remove(stored, f"the {part} that goes")

    def _episodes_of(self, tasks: Sequence[Task]) -> Iterator[Episode]:
        """Yield the episodes of tasks; imported ones may not have the id made from the task's."""
        wanted = {task.id for task in tasks}
        usual_ids = [stable_id("episode", self.reader.user.user_id, id_) for id_ in wanted]
        for episode in self.reader.find(Episode, usual_ids):
            if episode.task_id in wanted:
                wanted.discard(episode.task_id)
                yield episode
        if wanted:
            yield from (episode for episode in self.reader.scan(Episode) if episode.task_id in wanted)

    def _remove_or_reduce_facts(self) -> None:
        """Remove the facts that rest on removed messages, or reduce them to what their other messages say."""
        already = {record.id: record for record in self.already_removed if isinstance(record, Message)}
        ids = [*self.plan.ids("message"), *already]
        gone = set(ids)

        def messages(wanted: Sequence[str]) -> list[Message]:
            return self.reader.find(Message, wanted) + [already[id_] for id_ in wanted if id_ in already]

        for fact in self.reader.derived_from(Fact, ids):
            if ("fact", fact.id) in self.plan.removed or fact.id in self.kept_facts:
                continue
            left = messages([id_ for id_ in fact.sources if id_ not in gone])
            lost = messages([id_ for id_ in fact.sources if id_ in gone])
            reduced = provenance.reduce_fact(fact, lost, left)
            if reduced is not None:
                self.plan.change(fact, reduced, "rests on fewer messages")
                continue
            self.facts[fact.id] = fact
            self.plan.to_relearn.update((message.id, message) for message in left)
            again = ", others are read again" if left else ""
            self.plan.remove(fact, f"rests on messages that go{again}")

    def _remove_or_rewrite_knowledge(self) -> None:
        ids = [*self.plan.ids("episode"), *(r.id for r in self.already_removed if isinstance(r, Episode))]
        gone = set(ids)
        for knowledge in self.reader.derived_from(Knowledge, ids):
            if ("knowledge", knowledge.id) in self.plan.removed:
                continue
            left = tuple(id_ for id_ in knowledge.source_episodes if id_ not in gone)
            existing = [episode.id for episode in self.reader.find(Episode, left)]
            rewritten = self.rewrite(replace(knowledge, source_episodes=left)) if existing else None
            if rewritten is None:
                self.plan.released += existing
                self.plan.remove(knowledge, "rests on episodes that go")
            else:
                self.plan.change(
                    knowledge, replace(rewritten, updated_at=self.at), "rewritten from fewer episodes"
                )

    def _remove_summaries(self, query: Query | None) -> None:
        """Remove versions of summaries, each with all later versions of the same summary.

        Removed are versions that were requested or cover a removed message and, if a query selects messages
        by nothing but words, those whose text contains them: their messages may have been deleted earlier.
        """
        lost = [*self.plan.ids("message"), *(r.id for r in self.already_removed if isinstance(r, Message))]
        for summary in self.reader.derived_from(Summary, lost):
            self._cut_summaries_from(summary, "covers a message that goes")
        narrowed = query is None or any(getattr(query, name) is not None for name in _MESSAGE_FILTERS)
        if query is not None and not narrowed and query.text and "message" in query.kinds:
            words = RequiredWords.of(query.text)
            for summary in self.reader.scan(Summary, query.scope):
                if not self._is_cut(summary) and words.are_all_in(summary.text):
                    self._cut_summaries_from(summary, "holds the words")
        for scope, (version, why) in self.cut_summaries.items():
            for summary in self.reader.scan(Summary, scope):
                if summary.scope == scope and summary.version >= version:
                    first = summary.version == version
                    self.plan.remove(summary, why if first else "builds on a version that goes")

    def _cut_summaries_from(self, summary: Summary, why: str) -> None:
        if not self._is_cut(summary):
            self.cut_summaries[summary.scope] = (summary.version, why)

    def _is_cut(self, summary: Summary) -> bool:
        first = self.cut_summaries.get(summary.scope)
        return first is not None and summary.version >= first[0]
