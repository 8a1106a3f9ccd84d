"""Bringing back: the same as before, or the best that is possible where the memory moved on."""

from dataclasses import replace
from datetime import timedelta

import pytest
from forgettable import ANA, LATER, Memory, memory
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refused

from jiyi.errors import BadQuery, NotFound
from jiyi.records import Scope
from jiyi.storage import SqliteDatabase

__all__ = ["memory"]


def rich(memory):
    """Messages with pairs and facts of every fate, tasks, episodes, knowledge."""
    memory.say("edge-02 的监听端口是 8443")
    memory.call("c1", at=1)
    memory.answer("c1", at=2)
    memory.say("edge-02 的监听端口改成 8444 了", at=60)
    memory.say("我的生日是 5 月 3 日", "two", at=61)
    memory.say("我的生日是 5 月 3 日", "three", at=62)
    memory.say("edge-02 的监听端口是 8445", "two", at=90)
    for word in ("甲", "乙", "丙", "丁"):
        memory.do(f"nginx 报 502 {word}", "看日志", "重启 nginx", target="nginx")
    memory.consolidation.run(ANA)


def same(before, after):
    """Compare, but for when knowledge was last written."""
    assert after.keys() == before.keys()
    for key, record in before.items():
        assert after[key] == record, key


@pytest.mark.parametrize("scope", [*(ANA.in_session(name) for name in ("s", "two", "three")), ANA])
def test_a_session_and_a_whole_user_come_back_as_they_were(memory, scope):
    rich(memory)
    before = memory.everything()
    receipt = memory.forget(scope=scope)
    assert receipt.total
    assert memory.everything() != before
    assert memory.everything() == {} or scope.session_id
    back = memory.restore(forgotten_at=receipt.at)
    same(before, memory.everything())
    assert (memory.in_trash(), back.left, back.total >= receipt.total) == (set(), {}, True)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data())
def test_whatever_is_forgotten_and_in_whatever_order_it_comes_back(tmp_path_factory, data):
    """Forget record after record, restore them in any order: all is as it was."""
    database = SqliteDatabase(tmp_path_factory.mktemp("any") / "agent.db")
    memory = Memory(database)
    rich(memory)
    before = memory.everything()
    rounds = data.draw(st.integers(1, 3))
    receipts = []
    for number in range(rounds):
        there = sorted(memory.everything())
        if not there:
            break
        _, id_ = data.draw(st.sampled_from(there))
        receipts.append(memory.forget(ids=[id_], at=LATER + timedelta(minutes=number)))
    for receipt in data.draw(st.permutations(receipts)):
        lying = memory.in_trash()
        ids = [item.id for item in receipt.items if (item.kind, item.id) in lying]
        if ids:
            memory.restore(ids=ids)
    after = memory.everything()
    assert after.keys() == before.keys()
    for key, record in before.items():
        if key[0] == "Knowledge":
            assert set(after[key].source_episodes) == set(record.source_episodes)
        elif key[0] == "Fact":
            want = replace(record, confidence=0, created_at=LATER, text="", speaker=None)
            assert replace(after[key], confidence=0, created_at=LATER, text="", speaker=None) == want
        else:
            assert after[key] == record
    database.close()


def test_an_id_brings_its_pair_and_what_rests_on_it_and_nothing_else(memory):
    call, answer = memory.call("c1", at=1), memory.answer("c1", "端口", at=2)
    said, other = memory.say("我的生日是 5 月 3 日", at=3), memory.say("edge-02 的监听端口是 1", at=4)
    fact = memory.fact("生日")
    memory.forget(ids=[call.id, said.id, other.id])
    assert memory.restore(ids=[answer.id]).counts == {"message": 2}
    back = memory.restore(ids=[said.id])
    assert {(i.kind, i.id) for i in back.items} == {("message", said.id), ("fact", fact.id)}
    assert {m.id for m in memory.find("message")} == {call.id, answer.id, said.id}
    assert memory.find("fact") == [fact]


def test_a_fact_brings_the_message_it_rests_on_and_an_episode_its_task(memory):
    said = memory.say("我的生日是 5 月 3 日")
    fact, episode = memory.fact("生日"), memory.do("修 nginx", "看日志")
    task = memory.find("task")[0]
    memory.forget(ids=[said.id, episode.id])
    assert memory.restore(ids=[fact.id]).counts == {"message": 1, "fact": 1}
    assert memory.restore(ids=[episode.id]).counts == {"episode": 1, "task": 1}
    assert memory.find("task") == [task]


def test_a_fact_that_comes_back_finds_its_place_among_what_was_said_meanwhile(memory):
    memory.say("edge-02 的监听端口是 8443")
    gone = memory.say("edge-02 的监听端口改成 8444 了", at=60)
    memory.forget(ids=[gone.id])
    memory.say("edge-02 的监听端口改成 8445 了", at=120)
    memory.restore(ids=[gone.id])
    first, middle, last = (memory.fact(str(port)) for port in (8443, 8444, 8445))
    assert [f.status for f in (first, middle, last)] == ["superseded", "superseded", "active"]
    assert (first.superseded_by, middle.superseded_by, last.superseded_by) == (middle.id, last.id, None)
    assert (first.supersedes, middle.supersedes, last.supersedes) == (None, first.id, middle.id)
    assert middle.valid_to == last.created_at


def test_one_of_two_forgotten_sources_brings_the_fact_back_with_it_alone(memory):
    first, second = memory.say("edge-02 的监听端口是 8444"), memory.say("edge-02 的监听端口是 8444", at=5)
    fact = memory.fact("8444")
    memory.forget(ids=[first.id])
    memory.forget(ids=[second.id], at=LATER + timedelta(hours=1))
    assert memory.find("fact") == []
    memory.restore(ids=[first.id])
    assert memory.fact("8444").sources == (first.id,)
    memory.restore(ids=[second.id])
    assert set(memory.fact("8444").sources) == {first.id, second.id}
    assert (memory.fact("8444").id, memory.in_trash()) == (fact.id, set())


def test_what_was_read_anew_makes_room_for_the_fact_that_comes_back(memory):
    first = memory.say("nginx 容器的监听端口是 8080")
    memory.say("nginx container 的监听端口是 8080", at=5)
    fact = memory.fact("8080")
    memory.forget(ids=[first.id])
    assert memory.fact("8080").id != fact.id
    memory.restore(ids=[first.id])
    assert memory.fact("8080") == fact


def test_episodes_whose_knowledge_was_made_anew_wait_for_the_next_consolidation(memory):
    made, known = memory.consolidate("甲乙丙丁")
    memory.forget(ids=[made[0].id])
    memory.forget(ids=[known.id])
    memory.store.put([replace(known, id="other", source_episodes=(made[1].id,))])
    left = {i.why for i in memory.restore(ids=[made[0].id]).items if i.action == "left"}
    assert left == {"its episodes belong to another knowledge by now"}
    assert [e.id for e in memory.find("episode", consolidated=False)] == [made[0].id]


def test_what_is_there_again_stays_as_it_is(memory):
    said = memory.say("hello", id="m1", learn=False)
    memory.forget(ids=["m1"])
    again = memory.say("other words", "two", id="m1", learn=False)
    back = memory.restore(ids=["m1"])
    assert (back.counts, back.left) == ({}, {"message": 1})
    assert (memory.find("message"), memory.in_trash()) == ([again], {("message", said.id)})


def test_what_is_not_in_the_trash_is_refused(memory):
    said = memory.say("hello")
    memory.forget(ids=[said.id])
    refused(NotFound, "'nobody'", memory.restore, ids=[said.id, "nobody"])
    refused(NotFound, "of 'ben'", memory.restore, scope=Scope(user_id="ben"), ids=[said.id])
    refused(NotFound, "was taken out", memory.restore, forgotten_at=LATER - timedelta(seconds=1))
    for given_ in ({}, {"ids": [said.id], "forgotten_at": LATER}):
        refused(BadQuery, "say what to restore", memory.restore, **given_)
    assert memory.find("message") == []
