"""What goes with what: from the selected records to everything derived from them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Literal

from jiyi.long_term.forgetting.provenance import (
    Forgettable,
    Rows,
    joined_messages,
    mended,
    pieces,
    text_of,
    with_older_sources,
    without_messages,
)
from jiyi.long_term.forgetting.select import Words
from jiyi.records import (
    Episode,
    Fact,
    Kind,
    Knowledge,
    Message,
    Query,
    Record,
    Scope,
    Summary,
    Task,
    stable_id,
)
from jiyi.storage import Amendment, Key, key_of, kind_of

__all__ = [
    "ASKED",
    "ForgetReceipt",
    "Forgotten",
    "Learn",
    "Plan",
    "Planner",
    "RestoreReceipt",
    "Rewrite",
    "carry_out",
    "counts_of",
    "forgotten",
    "listed",
]

ASKED = "asked for"  # why the records went that were asked for
_LISTED = 1_000  # records a receipt names of each sort; the counts are whole
_SHOWN = 80  # characters of a record's words

_Action = Literal["taken", "changed", "restored", "left"]
Learn = Callable[[Sequence[Message]], object]
"""Reads stored messages and keeps the facts in them; reading one again changes nothing."""

Rewrite = Callable[[Knowledge], Knowledge | None]
"""Rewrites a knowledge from its sources that are still there; None where it cannot."""

_NAMED = 2_000  # records whose first words are kept for the receipt
# Filters that speak of messages, not of summaries.
_OF_MESSAGES = ("ids", "roles", "since", "until", "pinned", "where")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """One record that was taken out, or changed because others were."""

    kind: Kind
    id: str
    action: _Action
    why: str  # "asked for", or what it hung on
    text: str = ""  # its first words; "" after a purge, or where the agent that asks cannot see it


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What a forget or a purge did, or would do."""

    counts: Mapping[Kind, int]  # records taken out, by kind
    changed: Mapping[Kind, int]  # records that stayed without what rested on them, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 that were asked for, then the first 1,000 others
    reason: str  # as it was given
    at: datetime  # the moment all of it was taken out; `Forgetting.restore` takes it
    dry_run: bool = False  # nothing was changed
    erased: int = 0  # records a purge dropped for good, those that lay in the trash too
    damaged: int = 0  # damaged records of the scope or ids, dropped for good: nobody can bring them back
    overwritten: bool = False  # no byte of what a purge dropped is left in the file; never of a server

    @property
    def total(self) -> int:
        """How many records were taken out."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What a restore brought back."""

    counts: Mapping[Kind, int]  # records that are there again, by kind
    items: tuple[Forgotten, ...]  # the first 1,000 of them, then the first 1,000 that stayed in the trash
    left: Mapping[Kind, int] = field(default_factory=dict)  # what stayed in the trash, by kind

    @property
    def total(self) -> int:
        """How many records are there again."""
        return sum(self.counts.values())


def forgotten(record: Record, action: _Action, why: str, *, words: bool = True) -> Forgotten:
    """Return what a receipt says of a record, with the beginning of its words in one line."""
    text = _first_words(record) if words else ""
    return Forgotten(kind=kind_of(record), id=record.id, action=action, why=why, text=text)


def listed(items: Iterable[Forgotten]) -> tuple[Forgotten, ...]:
    """Return as many items as a receipt names."""
    return tuple(islice(items, _LISTED))


def counts_of(keys: Iterable[Key]) -> Mapping[Kind, int]:
    """Return how many keys there are of each kind."""
    return dict(Counter(kind for kind, _ in keys))


def _first_words(record: Record) -> str:
    words = record.request if isinstance(record, Task) else text_of(record)
    line = " ".join(words[: 4 * _SHOWN].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


@dataclass(slots=True)
class Plan:
    """What to take out and what to change."""

    agent_id: str | None = None  # who asks, and is told no words of records that it cannot see
    taken: dict[Key, Forgotten] = field(default_factory=dict)  # in the order found
    changed: dict[Key, Forgotten] = field(default_factory=dict)
    stay: list[Fact | Knowledge] = field(default_factory=list)  # what is changed, as it will be
    links: list[Fact] = field(default_factory=list)  # facts that stay, with other links
    unread: dict[str, Message] = field(default_factory=dict)  # messages to learn from again
    loose: list[str] = field(default_factory=list)  # episodes that belong to no knowledge any more

    def take(self, record: Forgettable, why: str) -> bool:
        """Take a record out, unless it is taken already; say whether it was not."""
        key = key_of(record)
        if key in self.taken:
            return False
        words = len(self.taken) < _NAMED and self._is_seen(record)
        self.taken[key] = forgotten(record, "taken", why, words=words)
        return True

    def change(self, record: Fact | Knowledge, after: Fact | Knowledge, why: str) -> None:
        """Leave a record, but as it is after."""
        self.changed[key_of(record)] = forgotten(record, "changed", why, words=self._is_seen(record))
        self.stay.append(after)

    def _is_seen(self, record: Forgettable) -> bool:
        """Say whether who asks sees a record: the summary of a whole session goes with an agent's message."""
        return self.agent_id is None or (record.scope is not None and record.scope.agent_id == self.agent_id)

    def ids(self, kind: Kind) -> list[str]:
        """Return the ids of one kind that are taken out."""
        return [id_ for other, id_ in self.taken if other == kind]

    def receipt(self, reason: str, at: datetime, *, dry_run: bool) -> ForgetReceipt:
        """Return the receipt of it."""
        links: dict[Key, Forgotten] = {
            ("fact", fact.id): forgotten(fact, "changed", "a fact before or after it goes", words=False)
            for fact in self.links
            if ("fact", fact.id) not in self.changed
        }
        asked = (item for item in self.taken.values() if item.why == ASKED)
        along = [item for item in self.taken.values() if item.why != ASKED]
        return ForgetReceipt(
            counts=counts_of(self.taken),
            changed=counts_of([*self.changed, *links]),
            items=(*listed(asked), *listed([*along, *self.changed.values(), *links.values()])),
            reason=reason,
            at=at,
            dry_run=dry_run,
        )


def carry_out(rows: Rows, plan: Plan, learn: Learn, *, reason: str, at: datetime) -> None:
    """Do what a plan says; joins the transaction it is called in. ``reason`` is kept with what goes."""
    derived = [key for key in plan.taken if key[0] in ("fact", "knowledge")]
    rows.store.put(with_older_sources(rows, [*plan.changed, *derived]))
    facts = rows.find(Fact, plan.ids("fact"))
    for keys in pieces([*plan.changed, *(key for key in plan.taken if key[0] != "summary")]):
        rows.trash.discard(rows.user, keys, reason=reason, at=at)
    for ids in pieces(plan.ids("summary")):  # for good: what is brought back later is summarised again
        rows.store.delete(Query(scope=rows.user, kinds=("summary",), ids=tuple(ids), limit=len(ids)))
    rows.store.put(plan.stay)
    if plan.unread:
        learn(list(plan.unread.values()))
    touched = [*facts, *(record for record in plan.stay if isinstance(record, Fact))]
    rows.store.put(mended(rows.store, touched, at))
    loose = [Amendment(id=id_, consolidated=False) for id_ in plan.loose]
    rows.store.amend(rows.user, "episode", loose)


@dataclass(slots=True)
class Planner:
    """Finds what goes with the records that are asked for. Nothing is changed."""

    rows: Rows  # of the user
    at: datetime  # now
    rewrite: Rewrite
    gone: Sequence[Forgettable] = ()  # records that are out already, but what is derived from them may not be
    alone: bool = False  # leave the calls of results that go, and the results of calls
    staying: Collection[str] = ()  # ids of facts that stay as they are
    made: Plan = field(default_factory=Plan)
    facts: dict[str, Fact] = field(default_factory=dict)  # that go
    tasks: list[str] = field(default_factory=list)  # that episodes which go came from
    ended: list[Task] = field(default_factory=list)  # that go
    calls: set[str] = field(default_factory=set)  # sessions of which tool calls or results go
    # The first version of a session's summary that goes, and why.
    summaries: dict[Scope, tuple[int, str]] = field(default_factory=dict)

    def plan(self, asked: Iterable[Forgettable], query: Query | None = None) -> Plan:
        """Return what goes with records; ``query`` is what was asked, where it was a query."""
        for record in asked:
            self._take_asked(record)
        if not self.alone:
            self._tool_pairs()
        for task in self.rows.find(Task, self.tasks):
            self.made.take(task, "its episode goes")
        for episode in self._episodes_of(self.ended):
            self.made.take(episode, "its task goes")
        self._facts()
        self._knowledge()
        self.made.links = [
            fact
            for fact in mended(self.rows.store, self.facts.values(), self.at, without=self.facts)
            if ("fact", fact.id) not in self.made.taken
        ]
        self._summaries(query)
        return self.made

    def _take_asked(self, record: Forgettable) -> None:
        if isinstance(record, Summary):
            self._summaries_from(record, ASKED)
            return
        if not self.made.take(record, ASKED):
            return
        if isinstance(record, Fact):
            self.facts[record.id] = record
        elif isinstance(record, Episode) and record.task_id is not None:
            self.tasks.append(record.task_id)
        elif isinstance(record, Task) and record.status != "in_progress":
            self.ended.append(replace(record, steps=(), context={}))
        elif isinstance(record, Message) and (record.tool_calls or record.role == "tool"):
            assert record.scope is not None
            assert record.scope.session_id is not None
            self.calls.add(record.scope.session_id)

    def _tool_pairs(self) -> None:
        for session_id in sorted(self.calls):
            session = self.rows.user.in_session(session_id)
            found = self.rows.scan(Message, session, roles=("assistant", "tool"))
            bare = [_bare(message) for message in found if message.tool_calls or message.role == "tool"]
            for message in joined_messages(bare, {id_ for _, id_ in self.made.taken}):
                (whole,) = self.rows.find(Message, [message.id])
                part = "call of a result" if message.tool_calls else "result of a call"
                self.made.take(whole, f"the {part} that goes")

    def _episodes_of(self, tasks: Sequence[Task]) -> Iterator[Episode]:
        """Give the episodes of tasks; those that other users' memories brought have ids of their own."""
        wanted = {task.id for task in tasks}
        usual = [stable_id("episode", self.rows.user.user_id, id_) for id_ in wanted]
        for episode in self.rows.find(Episode, usual):
            if episode.task_id in wanted:
                wanted.discard(episode.task_id)
                yield episode
        if wanted:
            yield from (one for one in self.rows.scan(Episode) if one.task_id in wanted)

    def _facts(self) -> None:
        """Take the facts that rest on the messages that go, or leave what the others say of them."""
        already = {record.id: record for record in self.gone if isinstance(record, Message)}
        ids = [*self.made.ids("message"), *already]
        gone = set(ids)

        def messages(wanted: Sequence[str]) -> list[Message]:
            return self.rows.find(Message, wanted) + [already[id_] for id_ in wanted if id_ in already]

        for fact in self.rows.resting_on(Fact, ids):
            if ("fact", fact.id) in self.made.taken or fact.id in self.staying:
                continue
            left = messages([id_ for id_ in fact.sources if id_ not in gone])
            lost = messages([id_ for id_ in fact.sources if id_ in gone])
            reduced = without_messages(fact, lost, left)
            if reduced is not None:
                self.made.change(fact, reduced, "rests on fewer messages")
                continue
            self.facts[fact.id] = fact
            self.made.unread.update((message.id, message) for message in left)
            again = ", others are read again" if left else ""
            self.made.take(fact, f"rests on messages that go{again}")

    def _knowledge(self) -> None:
        """Take the knowledge that rests on the episodes that go, or rewrite it from the others."""
        ids = [*self.made.ids("episode"), *(r.id for r in self.gone if isinstance(r, Episode))]
        gone = set(ids)
        for one in self.rows.resting_on(Knowledge, ids):
            if ("knowledge", one.id) in self.made.taken:
                continue
            left = tuple(id_ for id_ in one.source_episodes if id_ not in gone)
            there = [episode.id for episode in self.rows.find(Episode, left)]
            written = self.rewrite(replace(one, source_episodes=left)) if there else None
            if written is not None:
                after = replace(written, updated_at=self.at)
                self.made.change(one, after, "rewritten from fewer episodes")
            else:
                self.made.loose += there
                self.made.take(one, "rests on episodes that go")

    def _summaries(self, query: Query | None) -> None:
        """Take versions of summaries: from the first that must go on, all of the same summary.

        Those that cover a lost message; those asked for; and where a query asks for words in
        messages by nothing but words, those whose own text holds them, for the messages may have
        left in another way.
        """
        lost = [*self.made.ids("message"), *(r.id for r in self.gone if isinstance(r, Message))]
        for summary in self.rows.resting_on(Summary, lost):
            self._summaries_from(summary, "covers a message that goes")
        narrowed = query is None or any(getattr(query, name) is not None for name in _OF_MESSAGES)
        if query is not None and not narrowed and query.text and "message" in query.kinds:
            words = Words.of(query.text)
            for summary in self.rows.scan(Summary, query.scope):
                if not self._goes(summary) and words.are_in(summary.text):
                    self._summaries_from(summary, "holds the words")
        for scope, (version, why) in self.summaries.items():
            for summary in self.rows.scan(Summary, scope):
                if summary.scope == scope and summary.version >= version:
                    first = summary.version == version
                    self.made.take(summary, why if first else "builds on a version that goes")

    def _summaries_from(self, summary: Summary, why: str) -> None:
        if not self._goes(summary):
            self.summaries[summary.scope] = (summary.version, why)

    def _goes(self, summary: Summary) -> bool:
        first = self.summaries.get(summary.scope)
        return first is not None and summary.version >= first[0]


def _bare(message: Message) -> Message:
    """Return a message with nothing but what joins it to others."""
    calls = tuple(replace(call, arguments="", extra={}) for call in message.tool_calls)
    return replace(message, content="", tool_calls=calls, extra={})
