"""Forgetting on request: what is asked for, and what is refused."""

from dataclasses import replace
from datetime import timedelta

import pytest
from forgettable import ANA, NOON, memory, reasons, words
from refusing import refused
from tables import read_tables

from jiyi.errors import BadQuery, NotFound
from jiyi.records import Query

__all__ = ["memory"]

TABLES = read_tables(__file__)


@pytest.mark.parametrize(("text", "meant"), TABLES["words, and the lines that hold them all"])
def test_by_words_every_word_must_be_in_the_record(memory, text, meant):
    for line in TABLES["lines"]:
        memory.say(line, learn=False)
    receipt = memory.forget(query=words(text))
    assert sorted(item.text for item in receipt.items) == sorted(meant.split(" / "))
    assert receipt.counts == {"message": len(receipt.items)}


def test_words_find_the_same_in_a_memory_where_the_index_cannot_tell(memory, monkeypatch):
    """Where more records hold one of the words than a search returns, all are read."""
    from jiyi.long_term.forgetting import select as forgetting_select

    for n in range(30):
        memory.say(f"server {n} {'secret' if n % 10 == 0 else 'plain'}", learn=False)
    seen = memory.forget(query=words("server secret"), dry_run=True)
    monkeypatch.setattr(forgetting_select, "_MAX_FOUND", 5)
    assert memory.forget(query=words("server secret"), dry_run=True).items == seen.items
    assert seen.counts == {"message": 3}


def test_words_meet_filters_and_kinds(memory):
    early, late = memory.say("密码 abc", learn=False), memory.say("密码 abc", at=60, learn=False)
    said = memory.say("密码 abc", at=61, role="assistant", learn=False)
    episode = memory.do("换密码 abc")
    only = words("abc", since=NOON - timedelta(minutes=1), until=NOON + timedelta(minutes=30))
    early_ones = {("message", early.id), ("episode", episode.id), ("task", episode.task_id)}
    assert set(reasons(memory.forget(query=only, dry_run=True))) == early_ones
    by_role = replace(words("abc"), kinds=("message",), roles=("assistant",))
    assert set(reasons(memory.forget(query=by_role, dry_run=True))) == {("message", said.id)}
    taken = reasons(memory.forget(query=replace(words("abc"), kinds=("episode",))))
    assert taken == {("episode", episode.id): "asked for", ("task", episode.task_id): "its episode goes"}
    assert late in memory.find("message")


def test_filters_alone_take_all_they_describe(memory):
    old = [memory.say(f"old {n}", at=n, learn=False) for n in range(5)]
    new = memory.say("new", at=60, learn=False)
    receipt = memory.forget(query=Query(scope=ANA, until=NOON + timedelta(minutes=30), limit=1))
    assert set(reasons(receipt)) == {("message", m.id) for m in old}
    assert memory.find("message") == [new]


def test_a_task_in_progress_is_found_by_all_it_says(memory):
    task = memory.working.start(ANA.in_session("s"), "重启", context={"note": "口令 xyzzy"})
    memory.working.add_step(ANA, task.id, "login", args={"password": "plugh"})
    assert set(reasons(memory.forget(query=words("口令"), dry_run=True))) == {("task", task.id)}
    assert set(reasons(memory.forget(query=words("plugh")))) == {("task", task.id)}
    assert memory.find("task") == []


def test_more_than_the_limit_is_refused(memory):
    for n in range(4):
        memory.say(f"nginx {n}", learn=False)
    refused(BadQuery, "more than 3 records", memory.forget, query=words("nginx", limit=3))
    assert len(memory.find("message")) == 4
    assert memory.forget(query=words("nginx", limit=4)).total == 4


NOTHING = [{"query": Query(scope=ANA, text="")}, {"query": Query(scope=ANA, text="  ！？ ")}, {"ids": []}]
NOTHING += [{"query": Query(scope=ANA, kinds=("session",), text="x")}, {"ids": "m1"}]


@pytest.mark.parametrize("asked", [*NOTHING, {"ids": ["m1"], "query": Query(scope=ANA, text="x")}])
def test_what_says_nothing_is_refused(memory, asked):
    memory.say("m1", id="m1")
    for verb in (memory.forget, memory.purge):
        refused(BadQuery, "give|list of|there are|name at least", verb, **asked)
    assert len(memory.find("message")) == 1


def test_a_whole_session_and_nothing_beside_it(memory):
    gone = [memory.say(f"第 {n} 句", "one", at=n) for n in range(3)]
    kept = memory.say("另一句", "two")
    episode, other = memory.do("修 nginx", session="one"), memory.do("修 redis", session="two")
    receipt = memory.forget(scope=ANA.in_session("one"))
    assert receipt.counts == {"message": 3, "episode": 1, "task": 1}
    assert set(reasons(receipt)) >= {("message", m.id) for m in gone} | {("episode", episode.id)}
    assert {r.id for r in memory.find("message", "episode")} == {kept.id, other.id}
    assert [s.id for s in memory.find("session")] == ["two"]


def test_a_failure_in_the_middle_changes_nothing(memory, monkeypatch):
    made = memory.fold(memory.say("我的生日是 5 月 3 日"))
    before = memory.everything()

    def fail(*args, **given):
        raise RuntimeError("the power went")

    monkeypatch.setattr(memory.store, "amend", fail)
    refused(RuntimeError, "power", memory.forget, query=words("生日"))
    assert (memory.everything(), memory.in_trash()) == (before, set())
    assert memory.summaries.versions(ANA.in_session("s")) == [made]


def test_unknown_ids_are_refused_and_nothing_changes(memory):
    known = memory.say("hello")
    refused(NotFound, "'nobody'", memory.forget, ids=[known.id, "nobody"])
    assert [m.id for m in memory.find("message")] == [known.id]
    memory.forget(ids=[known.id])
    refused(NotFound, "restore or purge", memory.forget, ids=[known.id])
