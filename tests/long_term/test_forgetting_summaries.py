"""Forgetting and summaries: no version stays that holds it, and the one before stands again."""

from dataclasses import replace
from datetime import timedelta

import pytest
from forgettable import ANA, LATER, NOON, memory, reasons, words
from refusing import refused

from jiyi.errors import NotFound
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import MessageRule
from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase

S = ANA.in_session("s")
OPS = Scope(user_id="ana", agent_id="ops", session_id="s")

__all__ = ["memory"]


def folded(memory, count=4, session="s"):
    """A session of so many messages, each in a version of its own; both."""
    scope = ANA.in_session(session)
    said = [memory.say(f"第 {n} 句 word{n}", session, at=n, learn=False) for n in range(count)]
    return said, [memory.fold(m, text=f"up to {n} words", scope=scope) for n, m in enumerate(said)]


def test_a_message_takes_the_versions_from_the_first_that_covers_it_on(memory):
    said, made = folded(memory)
    _, others = folded(memory, session="two")
    receipt = memory.forget(ids=[said[2].id])
    assert receipt.counts == {"message": 1, "summary": 2}
    why = ["asked for", "covers a message that goes", "builds on a version that goes"]
    gone = [("message", said[2].id), ("summary", made[2].id), ("summary", made[3].id)]
    assert reasons(receipt) == dict(zip(gone, why, strict=True))
    told = [item.text for item in receipt.items if item.kind == "summary"]
    assert told == ["up to 2 words", "up to 3 words"]
    assert memory.summaries.latest(S) == made[1]
    assert memory.summaries.versions(ANA.in_session("two")) == others
    assert [m.id for m in memory.summaries.unfolded(S, made[1].upto_seq)] == [said[3].id]


def test_summaries_of_the_session_and_of_each_agent_by_what_they_cover(memory):
    first, second = memory.say("one", scope=OPS, learn=False), memory.say("two", scope=OPS, at=1, learn=False)
    other = memory.say("three", at=2, learn=False)
    whole = [memory.fold(first), memory.fold(second, other)]
    of_agent = [memory.fold(first, second, scope=OPS)]
    of_nobody = memory.fold(other, scope=replace(OPS, agent_id="b"))
    assert memory.forget(ids=[second.id]).counts == {"message": 1, "summary": 2}
    assert (memory.summaries.versions(S), memory.summaries.versions(OPS)) == (whole[:1], [])
    assert memory.summaries.latest(replace(OPS, agent_id="b")) == of_nobody
    assert of_agent[0].scope == OPS


def test_words_are_looked_for_in_summaries_of_messages_that_left_otherwise(memory):
    said = [memory.say(text, at=n, learn=False) for n, text in enumerate(["port 8443", "口令 xyzzy", "bye"])]
    texts = ("端口", "端口，口令 xyzzy", "a summary")
    made = [memory.fold(one, text=text) for one, text in zip(said, texts, strict=True)]
    memory.store.delete(Query(scope=ANA, kinds=("message",), ids=(said[1].id,)))
    told = memory.forget(query=words("xyzzy"), dry_run=True)
    why = ["holds the words", "builds on a version that goes"]
    assert reasons(told) == {("summary", version.id): w for version, w in zip(made[1:], why, strict=True)}
    assert memory.summaries.versions(S) == made
    assert memory.forget(query=replace(words("xyzzy"), kinds=("episode",))).counts == {}
    assert memory.forget(query=words("xyzzy", since=LATER)).counts == {}
    assert memory.forget(scope=Scope(user_id="ben"), query=words("xyzzy")).counts == {}
    assert memory.forget(query=words("xyzzy")).counts == {"summary": 2}
    assert memory.summaries.versions(S) == made[:1]


def test_many_versions_with_the_words_are_no_reason_to_refuse(memory):
    said, _ = folded(memory, 5)
    assert memory.forget(query=words("word1", limit=1)).counts == {"message": 1, "summary": 4}
    memory.fold(said[0], said[2], text="word2 and others")
    assert memory.forget(query=words("word2", limit=1)).counts == {"message": 1, "summary": 1}


def test_a_session_and_a_user_leave_none(memory):
    folded(memory)
    _, others = folded(memory, 2, session="two")
    mine = memory.say("别人的", scope=Scope(user_id="ben"), learn=False)
    theirs = memory.fold(mine, scope=Scope(user_id="ben", session_id="s"))
    assert memory.forget(scope=S).counts == {"message": 4, "summary": 4}
    assert memory.summaries.versions(S) == []
    assert memory.summaries.versions(ANA.in_session("two")) == others
    told = memory.forget(dry_run=True)
    assert told.counts == {"message": 2, "summary": 2}
    assert (memory.forget().counts, memory.find("summary")) == (told.counts, [])
    assert memory.find("summary", scope=Scope(user_id="ben")) == [theirs]


def test_a_session_of_which_only_the_summary_is_left(memory):
    _, made = folded(memory, 2)
    memory.store.delete(Query(scope=ANA, kinds=("message",), limit=100))
    receipt = memory.forget(scope=S)
    assert receipt.counts == {"summary": 2}
    assert ("summary", made[0].id) in reasons(receipt)
    assert memory.find("summary") == []


def test_by_its_own_id(memory):
    said, made = folded(memory, 3)
    assert memory.forget(ids=[made[1].id]).counts == {"summary": 2}
    assert memory.summaries.versions(S) == made[:1]
    assert [m.id for m in memory.find("message")] == [m.id for m in said]
    refused(NotFound, "restore or purge", memory.forget, ids=[made[1].id])


def test_a_message_that_comes_back_is_folded_again(memory):
    said, made = folded(memory)
    memory.restore(forgotten_at=memory.forget(ids=[said[1].id]).at)
    assert memory.summaries.latest(S) == made[0], "the versions do not come back"
    assert [m.id for m in memory.summaries.unfolded(S, made[0].upto_seq)] == [m.id for m in said[1:]]


def test_the_gate_lets_messages_go_and_keeps_their_summary(memory, path):
    said, made = folded(memory)
    rules = [MessageRule(max_age=timedelta(days=1))]
    clock = lambda: NOON + timedelta(days=90)  # noqa: E731
    gate = ForgetGate(memory.store, memory.trash, others=rules, clock=clock)
    assert gate.run(ANA).discarded == {"message": {"older than 1 days": 4}}
    assert (memory.find("message"), memory.summaries.versions(S)) == ([], made)
    new = memory.say("months later", at=60 * 24 * 91, learn=False)
    assert [m.id for m in memory.summaries.unfolded(S, made[-1].upto_seq)] == [new.id]
    memory.restore(ids=[said[0].id])
    assert memory.summaries.versions(S) == made, "it holds what came back"
    assert memory.forget(ids=[said[0].id]).counts == {"message": 1, "summary": 4}
    SqliteDatabase(path).check()


@pytest.mark.slow
def test_thousands_of_messages(memory):
    first = memory.say("first", learn=False)
    said = memory.store.put([replace(first, id=f"m{n}", seq=None) for n in range(3_000)])
    for start in range(0, 3_000, 100):
        memory.fold(*said[start : start + 100])
    told = memory.forget(query=Query(scope=ANA, until=LATER), dry_run=True)
    assert told.counts == {"message": 3_001, "summary": 30}
    assert memory.forget(ids=[said[2_999].id]).counts == {"message": 1, "summary": 1}
    assert memory.forget(query=Query(scope=ANA, until=LATER)).counts == {"message": 3_000, "summary": 29}
