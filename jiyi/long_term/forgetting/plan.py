"""Plans what to forget: the selected records and everything derived from them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, cast

from jiyi.long_term.forgetting import provenance
from jiyi.long_term.forgetting.provenance import Forgettable, RecordReader, earlier_versions, relink_facts
from jiyi.long_term.forgetting.select import RequiredWords
from jiyi.records import Episode, Kind, Knowledge, Message, Query, Record, Scope, Summary, Task, stable_id
from jiyi.records.fact import Fact
from jiyi.storage import Amendment, Key, batched, key_of, kind_of
from jiyi.text import first_words

__all__ = [
    "MAX_ITEMS", "REQUESTED", "ForgetReceipt", "Forgotten", "Learn", "Plan", "RestoreReceipt", "Rewrite",
    "count_kinds", "describe",
]  # fmt: skip

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
    """What must go with the requested records and what must change; `carry_out` does it."""

    reader: RecordReader
    reason: str  # stored with what goes to the trash
    at: datetime  # now
    rewrite: Rewrite
    already_removed: Sequence[Forgettable] = ()  # records whose derived records are still to be removed
    alone: bool = False  # keep the calls of removed results and the results of removed calls
    kept_facts: Collection[str] = ()  # ids of facts that stay unchanged
    agent_id: str | None = None  # of the request: the receipt has no text of records it cannot see
    removed: dict[Key, Forgotten] = field(default_factory=dict)  # in the order found
    changed: dict[Key, Forgotten] = field(default_factory=dict)
    rewritten: list[Fact | Knowledge] = field(default_factory=list)  # the new states of what is changed
    facts: dict[str, Fact] = field(default_factory=dict)  # removed ones
    relinked: dict[Key, Forgotten] = field(default_factory=dict)  # facts that stay, with other links
    to_relearn: dict[str, Message] = field(default_factory=dict)  # messages to read again
    released: list[str] = field(default_factory=list)  # episodes that lose their knowledge
    # The first version of a session's summary to remove, and why.
    cut_summaries: dict[Scope, tuple[int, str]] = field(default_factory=dict)

    def build(self, requested: Iterable[Forgettable], query: Query | None = None) -> "Plan":
        """Find what goes with the requested records, which ``query``, if any, selected; change nothing."""
        task_ids: list[str] = []  # of removed episodes
        tasks: set[str] = set()  # removed ones that have ended
        tool_sessions: set[str] = set()  # with removed tool calls or results
        for record in requested:
            if isinstance(record, Summary):
                self._cut_summaries_from(record, REQUESTED)
                continue
            if not self._remove(record, REQUESTED):
                continue
            match record:
                case Fact():  # none of the values it had before a caller changed it may hold again
                    for version in earlier_versions(record, lambda id_: self.reader.find(Fact, [id_])):
                        self._remove(version, "an earlier version of a fact that goes")
                case Episode() if record.task_id is not None:
                    task_ids.append(record.task_id)
                case Task() if record.status != "in_progress":
                    tasks.add(record.id)
                case Message() if record.tool_calls or record.role == "tool":
                    tool_sessions.add(cast("Scope", record.scope).session_id or "")
        if not self.alone:
            self._remove_tool_partners(tool_sessions)
        for task in self.reader.find(Task, task_ids):
            self._remove(task, "its episode goes")
        for episode in self._episodes_of(tasks):
            self._remove(episode, "its task goes")
        self._remove_or_reduce_facts()
        self._remove_or_rewrite_knowledge()
        for fact in relink_facts(self.reader.store, self.facts.values(), self.at, without=self.facts):
            if (key := key_of(fact)) not in self.removed and key not in self.changed:
                self.relinked[key] = self._describe_change(fact, "a fact before or after it goes")
        self._remove_summaries(query)
        return self

    def carry_out(self, learn: Learn) -> None:
        """Execute the plan in the current transaction."""
        reader = self.reader
        derived = [key for key in self.removed if key[0] in ("fact", "knowledge")]
        reader.store.put(reader.merge_trashed_sources([*self.changed, *derived]))
        for keys in batched([*self.changed, *(key for key in self.removed if key[0] != "summary")]):
            reader.trash.discard(reader.user, keys, reason=self.reason, at=self.at)
        for ids in batched(self._removed_ids("summary")):  # for good: what is restored is summarised again
            reader.store.delete(Query(scope=reader.user, kinds=("summary",), ids=tuple(ids), limit=len(ids)))
        reader.store.put(self.rewritten)
        if self.to_relearn:
            learn(list(self.to_relearn.values()))
        rewritten = (record for record in self.rewritten if isinstance(record, Fact))
        reader.store.put(relink_facts(reader.store, [*self.facts.values(), *rewritten], self.at))
        released = [Amendment(id=id_, consolidated=False) for id_ in self.released]
        reader.store.amend(reader.user, "episode", released)

    def receipt(self, *, dry_run: bool) -> ForgetReceipt:
        """Return the receipt of this plan."""
        requested = [item for item in self.removed.values() if item.why == REQUESTED]
        others = [item for item in self.removed.values() if item.why != REQUESTED]
        others += [*self.changed.values(), *self.relinked.values()]
        return ForgetReceipt(
            counts=count_kinds(self.removed),
            changed=count_kinds([*self.changed, *self.relinked]),
            items=(*requested[:MAX_ITEMS], *others[:MAX_ITEMS]),
            reason=self.reason,
            at=self.at,
            dry_run=dry_run,
        )

    def _remove(self, record: Forgettable, why: str) -> bool:
        """Plan to remove a record; return False if that was planned already."""
        key = key_of(record)
        if key in self.removed:
            return False
        with_text = len(self.removed) < _MAX_TEXTS and self._is_visible(record)
        self.removed[key] = describe(record, "taken", why, with_text=with_text)
        if isinstance(record, Fact):
            self.facts[record.id] = record
        return True

    def _change(self, record: Fact | Knowledge, after: Fact | Knowledge, why: str) -> None:
        """Plan to replace a record by its new state."""
        self.changed[key_of(record)] = self._describe_change(record, why)
        self.rewritten.append(after)

    def _describe_change(self, record: Fact | Knowledge, why: str) -> Forgotten:
        return describe(record, "changed", why, with_text=self._is_visible(record))

    def _is_visible(self, record: Forgettable) -> bool:
        """Return whether the requesting agent sees a record, unlike a summary of a whole session."""
        return self.agent_id is None or (record.scope is not None and record.scope.agent_id == self.agent_id)

    def _removed_ids(self, kind: Kind) -> list[str]:
        return [id_ for other, id_ in self.removed if other == kind]

    def _gone_ids(self, kind: Kind) -> list[str]:
        """Return the ids of the records of a kind that are removed now or were before."""
        return [*self._removed_ids(kind), *(r.id for r in self.already_removed if kind_of(r) == kind)]

    def _remove_tool_partners(self, session_ids: Collection[str]) -> None:
        for session_id in sorted(session_ids):
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
            for message in provenance.dependent_messages(parts, {id_ for _, id_ in self.removed}):
                (stored,) = self.reader.find(Message, [message.id])
                part = "call of a result" if message.tool_calls else "result of a call"
                self._remove(stored, f"the {part} that goes")

    def _episodes_of(self, task_ids: Collection[str]) -> Iterator[Episode]:
        """Yield the episodes of tasks; imported ones may not have the id made from the task's."""
        wanted = set(task_ids)
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
        ids = self._gone_ids("message")
        gone = set(ids)

        def messages(wanted: Sequence[str]) -> list[Message]:
            return self.reader.find(Message, wanted) + [already[id_] for id_ in wanted if id_ in already]

        for fact in self.reader.derived_from(Fact, ids):
            if ("fact", fact.id) in self.removed or fact.id in self.kept_facts:
                continue
            left = messages([id_ for id_ in fact.sources if id_ not in gone])
            lost = messages([id_ for id_ in fact.sources if id_ in gone])
            reduced = provenance.reduce_fact(fact, lost, left)
            if reduced is not None:
                self._change(fact, reduced, "rests on fewer messages")
                continue
            self.to_relearn.update((message.id, message) for message in left)
            self._remove(fact, f"rests on messages that go{', others are read again' if left else ''}")

    def _remove_or_rewrite_knowledge(self) -> None:
        ids = self._gone_ids("episode")
        gone = set(ids)
        for knowledge in self.reader.derived_from(Knowledge, ids):
            if ("knowledge", knowledge.id) in self.removed:
                continue
            left = tuple(id_ for id_ in knowledge.source_episodes if id_ not in gone)
            existing = [episode.id for episode in self.reader.find(Episode, left)]
            rewritten = self.rewrite(replace(knowledge, source_episodes=left)) if existing else None
            if rewritten is None:
                self.released += existing
                self._remove(knowledge, "rests on episodes that go")
            else:
                after = replace(rewritten, updated_at=self.at)
                self._change(knowledge, after, "rewritten from fewer episodes")

    def _remove_summaries(self, query: Query | None) -> None:
        """Remove versions of summaries, each with all later versions of the same summary.

        Removed are versions that were requested or cover a removed message and, if a query selects messages
        by nothing but words, those whose text contains them: their messages may have been deleted earlier.
        """
        for summary in self.reader.derived_from(Summary, self._gone_ids("message")):
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
                    self._remove(summary, why if first else "builds on a version that goes")

    def _cut_summaries_from(self, summary: Summary, why: str) -> None:
        if not self._is_cut(summary):
            self.cut_summaries[summary.scope] = (summary.version, why)

    def _is_cut(self, summary: Summary) -> bool:
        first = self.cut_summaries.get(summary.scope)
        return first is not None and summary.version >= first[0]
