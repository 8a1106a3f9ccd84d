"""What goes with what: from the records that are asked for to everything derived from them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from jiyi.long_term.forgetting.facts import mended, without_messages
from jiyi.long_term.forgetting.receipt import ASKED, first_words
from jiyi.long_term.forgetting.select import Forgettable, find_by_ids, pieces, scan
from jiyi.long_term.forgetting.summaries import summaries_that_go
from jiyi.records import Episode, Fact, Kind, Knowledge, Message, Query, Scope, Summary, Task, stable_id
from jiyi.records.atoms import atoms
from jiyi.storage.candidates import Key
from jiyi.storage.rows import kind_of
from jiyi.storage.store import Store
from jiyi.storage.upkeep import Upkeep

__all__ = ["Plan", "Rewrite", "counts_of", "joined_messages", "plan_forgetting"]

Rewrite = Callable[[Knowledge], Knowledge | None]
"""Writes a knowledge anew from its sources that are still there; None where it cannot."""

_PIECE = 500
_NAMED = 2_000  # records whose first words are kept for the receipt
_MOST = 10_000


@dataclass(slots=True)
class Plan:
    """What to take out and what to change."""

    taken: dict[Key, str] = field(default_factory=dict)  # why, in the order found
    changed: dict[Key, tuple[Fact | Knowledge, str]] = field(default_factory=dict)  # as it stays, and why
    links: list[Fact] = field(default_factory=list)  # facts that stay, with other links
    unread: dict[str, Message] = field(default_factory=dict)  # messages to learn from anew
    loose: list[str] = field(default_factory=list)  # episodes that belong to no knowledge any more
    words: dict[Key, str] = field(default_factory=dict)  # first words

    def take(self, record: Forgettable, why: str) -> bool:
        """Take a record out, unless it is taken already; say whether it was not."""
        key = (kind_of(record), record.id)
        if key in self.taken:
            return False
        self.taken[key] = why
        if len(self.words) < _NAMED:
            self.words[key] = first_words(record)
        return True

    def ids(self, kind: Kind) -> list[str]:
        """Return the ids of one kind that are taken out."""
        return [id_ for other, id_ in self.taken if other == kind]


def plan_forgetting(
    store: Store,
    upkeep: Upkeep,
    asked: Iterable[Forgettable],
    *,
    scope: Scope,
    at: datetime,
    rewrite: Rewrite,
    query: Query | None = None,
    gone: Sequence[Forgettable] = (),
) -> Plan:
    """Return what goes with the records that are asked for. Nothing is changed.

    Args:
        store, upkeep: of one database.
        asked: the records, as they are found.
        scope: whose, and whether it is a whole session: its tool calls need no looking after.
        at: now.
        rewrite: writes reduced knowledge anew.
        query: what was asked, where it was a query.
        gone: records that are out already, but what is derived from them may not be.
    """
    planner = _Planner(store, upkeep, Scope(user_id=scope.user_id), at, rewrite, gone)
    made = planner.plan(asked)
    lost = [*made.ids("message"), *(r.id for r in gone if isinstance(r, Message))]
    going = summaries_that_go(store, upkeep, planner.user, lost=lost, asked=planner.summaries, query=query)
    for summary, why in going:
        made.take(summary, why)
    return made


@dataclass(slots=True)
class _Planner:
    store: Store
    upkeep: Upkeep
    user: Scope
    at: datetime
    rewrite: Rewrite
    gone: Sequence[Forgettable]
    made: Plan = field(default_factory=Plan)
    facts: dict[str, Fact] = field(default_factory=dict)  # that go
    messages: dict[str, Message] = field(default_factory=dict)  # that are out already
    calls: set[str] = field(default_factory=set)  # sessions of which tool calls or results go
    summaries: dict[Scope, int] = field(default_factory=dict)  # the first version asked for, of each

    def plan(self, asked: Iterable[Forgettable]) -> Plan:
        tasks: dict[str, None] = {}  # that episodes which go came from
        ended: list[Task] = []  # that go
        for record in asked:
            self._note(record, ASKED, tasks, ended)
        self._tool_pairs()
        for task in find_by_ids(self.store, self.user, "task", list(tasks)):
            self._note(task, "its episode goes", {}, [])
        for episode in self._episodes_of(ended):
            self.made.take(episode, "its task goes")
        self.messages = {r.id: r for r in self.gone if isinstance(r, Message)}
        self._facts()
        self._knowledge()
        self.made.links = [
            fact
            for fact in mended(self.store, self.facts.values(), self.at, without=self.facts)
            if ("fact", fact.id) not in self.made.taken
        ]
        return self.made

    def _note(self, record: Forgettable, why: str, tasks: dict[str, None], ended: list[Task]) -> None:
        if isinstance(record, Summary):
            known = self.summaries.get(record.scope, record.version)
            self.summaries[record.scope] = min(known, record.version)
            return
        if not self.made.take(record, why):
            return
        if isinstance(record, Fact):
            self.facts[record.id] = record
        elif isinstance(record, Episode) and record.task_id is not None:
            tasks[record.task_id] = None
        elif isinstance(record, Task) and record.status != "in_progress":
            ended.append(replace(record, steps=(), context={}))
        elif isinstance(record, Message) and (record.tool_calls or record.role == "tool"):
            assert record.scope is not None
            assert record.scope.session_id is not None
            self.calls.add(record.scope.session_id)

    def _tool_pairs(self) -> None:
        """Take the results of calls that go, and the calls of results."""
        for session_id in sorted(self.calls):
            query = Query(
                scope=self.user.in_session(session_id),
                kinds=("message",),
                roles=("assistant", "tool"),
                limit=_PIECE,
            )
            found = cast("Iterator[Message]", scan(self.store, self.upkeep, query))
            bare = [_bare(message) for message in found if message.tool_calls or message.role == "tool"]
            for message in joined_messages(bare, {id_ for _, id_ in self.made.taken}):
                (whole,) = find_by_ids(self.store, self.user, "message", [message.id])
                part = "call of a result" if message.tool_calls else "result of a call"
                self.made.take(whole, f"the {part} that goes")

    def _episodes_of(self, tasks: Sequence[Task]) -> Iterator[Episode]:
        """Give the episodes of tasks; those that other users' memories brought have ids of their own."""
        wanted = {task.id for task in tasks}
        usual = [stable_id("episode", self.user.user_id, id_) for id_ in wanted]
        for episode in cast("list[Episode]", find_by_ids(self.store, self.user, "episode", usual)):
            if episode.task_id in wanted:
                wanted.discard(episode.task_id)
                yield episode
        if wanted:
            query = Query(scope=self.user, kinds=("episode",), limit=_PIECE)
            for episode in cast("Iterator[Episode]", scan(self.store, self.upkeep, query)):
                if episode.task_id in wanted:
                    yield episode

    def _facts(self) -> None:
        """Take the facts that rest on the messages that go, or leave what the others say of them."""
        ids = [*self.made.ids("message"), *self.messages]
        gone, seen = set(ids), set[str]()
        for fact in cast("Iterator[Fact]", self._resting("fact", ids)):
            if fact.id in seen or ("fact", fact.id) in self.made.taken:
                continue
            seen.add(fact.id)
            left = self._messages([id_ for id_ in fact.sources if id_ not in gone])
            lost = self._messages([id_ for id_ in fact.sources if id_ in gone])
            reduced = without_messages(fact, lost, left)
            if reduced is not None:
                self.made.changed["fact", fact.id] = (reduced, "rests on fewer messages")
                self._name(fact)
                continue
            self.facts[fact.id] = fact
            self.made.unread.update((message.id, message) for message in left)
            why = "rests on messages that go, others are read anew" if left else "rests on messages that go"
            self.made.take(fact, why)

    def _knowledge(self) -> None:
        """Take the knowledge that rests on the episodes that go, or write it anew from the others."""
        ids = [*self.made.ids("episode"), *(r.id for r in self.gone if isinstance(r, Episode))]
        gone, seen = set(ids), set[str]()
        for one in cast("Iterator[Knowledge]", self._resting("knowledge", ids)):
            if one.id in seen or ("knowledge", one.id) in self.made.taken:
                continue
            seen.add(one.id)
            left = tuple(id_ for id_ in one.source_episodes if id_ not in gone)
            there = [e.id for e in find_by_ids(self.store, self.user, "episode", left)]
            written = self.rewrite(replace(one, source_episodes=left)) if there else None
            if written is not None:
                self.made.changed["knowledge", one.id] = (
                    replace(written, updated_at=self.at),
                    "written anew from fewer episodes",
                )
                self._name(one)
                continue
            self.made.loose += there
            self.made.take(one, "rests on episodes that go")

    def _resting(self, kind: Kind, ids: Sequence[str]) -> Iterator[Forgettable]:
        for piece in pieces(ids):
            query = Query(scope=self.user, kinds=(kind,), sources=tuple(piece), limit=_PIECE)
            yield from scan(self.store, self.upkeep, query)

    def _messages(self, ids: Sequence[str]) -> list[Message]:
        found = cast("list[Message]", find_by_ids(self.store, self.user, "message", ids))
        return found + [self.messages[id_] for id_ in ids if id_ in self.messages]

    def _name(self, record: Fact | Knowledge) -> None:
        if len(self.made.words) < 2 * _NAMED:
            self.made.words[kind_of(record), record.id] = first_words(record)


def joined_messages(messages: Iterable[Message], taken: set[str]) -> list[Message]:
    """Return the messages of one session that no model would accept without those that are taken."""
    ordered = sorted(messages, key=lambda message: message.seq or 0)
    out: list[Message] = []
    for atom in atoms(ordered):
        members = [ordered[place] for place in atom.indices]
        if any(message.id in taken for message in members):
            out += [message for message in members if message.id not in taken]
    return out


def _bare(message: Message) -> Message:
    """Return a message with nothing but what joins it to others."""
    calls = tuple(replace(call, arguments="", extra={}) for call in message.tool_calls)
    return replace(message, content="", tool_calls=calls, extra={})


def counts_of(keys: Iterable[Key]) -> Mapping[Kind, int]:
    """Return how many keys there are of each kind."""
    counts: dict[Kind, int] = {}
    for kind, _ in keys:
        counts[kind] = counts.get(kind, 0) + 1
    return counts
