"""A memory with records of all kinds that derive from each other, for tests of forgetting."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from samples import by_words

from jiyi.long_term.consolidation.consolidation import Consolidation
from jiyi.long_term.facts.memory import FactMemory
from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.records import Knowledge, Message, Query, Scope, ToolCall
from jiyi.short_term.summaries import Summaries
from jiyi.short_term.summary import Summarized
from jiyi.storage import SqliteDatabase, Store, Trash
from jiyi.working import WorkingMemory

ANA = Scope(user_id="ana")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=30)
KINDS = ("message", "episode", "knowledge", "fact", "task")


@dataclass
class Memory:
    """The parts of a memory on one file, with short methods for tests."""

    database: SqliteDatabase

    def __post_init__(self):
        self.store = Store(self.database)
        self.trash = Trash(self.database)
        self.facts = FactMemory(self.store, clock=lambda: LATER)
        self.working = WorkingMemory(self.store, clock=lambda: NOON)
        self.summaries = Summaries(self.store, clock=lambda: NOON)
        self.consolidation = Consolidation(self.store, None, clock=lambda: LATER)
        self.forgetting = Forgetting(
            self.store, self.trash, rewrite=self.consolidation.rewritten, learn=self.facts.learn
        )

    def say(self, text, session="s", *, at=0, learn=True, **fields):
        scope = replace(fields.pop("scope", ANA), session_id=session)
        given = {"role": "user", "created_at": NOON + timedelta(minutes=at)} | fields
        message = Message(content=text, scope=scope, **given)
        (stored,) = self.store.put([message])
        if learn:
            self.facts.learn([stored])
        return stored

    def call(self, call_id, session="s", **fields):
        calls = (ToolCall(id=call_id, name="shell", arguments="{}"),)
        return self.say(None, session, role="assistant", tool_calls=calls, **fields)

    def answer(self, call_id, text="ok", session="s", **fields):
        return self.say(text, session, role="tool", tool_call_id=call_id, **fields)

    def do(self, request, *steps, target=None, session="s", summary="完成 done"):
        task = self.working.start(ANA.in_session(session), request, target=target)
        for step in steps:
            self.working.add_step(ANA, task.id, step, result=f"{step} 的结果")
        return self.working.complete(ANA, task.id, summary=summary)

    def consolidate(self, words):
        """Do a task for each word, and make one knowledge of them; the episodes and the knowledge."""
        episodes = [self.do(f"nginx 报 502 {word}", "重启 nginx", target="nginx") for word in words]
        self.consolidation.run(ANA)
        (known,) = self.find("knowledge")
        return episodes, known

    def fold(self, *messages, text="a summary", scope=None):
        """Fold messages into the summary of a session, all up to the last of them."""
        scope = scope or ANA.in_session("s")
        covers, upto = tuple(message.id for message in messages), messages[-1].seq
        made = Summarized(text=text, covers=covers, upto_seq=upto, method="extractive")
        return self.summaries.add(scope, made, self.summaries.latest(scope))

    def find(self, *kinds, scope=ANA, **parts):
        return self.store.find(Query(scope=scope, kinds=kinds or KINDS, limit=10_000, **parts))

    def everything(self, scope=ANA):
        """Return all records by type and id."""
        return {(type(r).__name__, r.id): r for r in self.find(scope=scope)}

    def fact(self, predicate_or_value):
        found = [f for f in self.find("fact") if predicate_or_value in (f.predicate, f.object)]
        assert len(found) == 1, [(f.subject, f.predicate, f.object, f.status) for f in self.find("fact")]
        return found[0]

    def in_trash(self, *kinds):
        query = Query(scope=ANA, kinds=kinds or KINDS, limit=10_000)
        return {(entry.kind, entry.record.id) for entry in self.trash.discarded(query)}

    def words_found(self, text, *kinds):
        return by_words(self.store, Query(scope=ANA, text=text, kinds=kinds or KINDS[:4], limit=100))

    def forget(self, **given):
        scope = given.pop("scope", ANA)
        return self.forgetting.forget(scope, **{"reason": "test", "at": LATER, **given})

    def purge(self, **given):
        scope = given.pop("scope", ANA)
        return self.forgetting.purge(scope, **{"at": LATER, **given})

    def restore(self, **given):
        return self.forgetting.restore(given.pop("scope", ANA), **{"at": LATER, **given})


@pytest.fixture
def memory(database):
    return Memory(database)


def words(text, **parts):
    """Return the query of a forget by words."""
    return Query(scope=ANA, kinds=KINDS, text=text, limit=parts.pop("limit", 100), **parts)


def lesson(text, episodes, **fields):
    ids, at = tuple(episode.id for episode in episodes), {"created_at": NOON, "updated_at": NOON}
    return Knowledge(scope=ANA, topic="磁盘 disks", content=text, source_episodes=ids, **at, **fields)


def reasons(receipt, action="taken"):
    """Return why each record that a receipt lists went, by kind and id."""
    return {(item.kind, item.id): item.why for item in receipt.items if item.action == action}
