"""Forgetting on request: what goes along, what stays in another form, and pins."""

from dataclasses import replace

import pytest
from forgettable import ANA, LATER, lesson, memory, reasons

from jiyi.long_term.forgetting.forgetting import Forgetting
from jiyi.records import Query, Scope

__all__ = ["memory"]


def test_a_call_goes_with_all_its_results_and_a_result_with_its_call(memory):
    for asked in (0, 1, 2):
        one, two, three = memory.call("c1", at=1), memory.answer("c1", at=2), memory.say("between", at=3)
        receipt = memory.forget(ids=[(one, two, one)[asked].id])
        assert receipt.counts == {"message": 2}
        how = ("the result of a call that goes", "the call of a result that goes")[asked % 2]
        assert set(reasons(receipt).values()) == {"asked for", how}
        assert memory.find("message") == [three]
        memory.forget(ids=[three.id])


def test_a_call_id_that_was_used_twice_does_not_take_the_other_pair(memory):
    first, answer = memory.call("c1", at=1), memory.answer("c1", at=2)
    second, other = memory.call("c1", at=3), memory.answer("c1", at=4)
    elsewhere = [memory.call("c1", "two"), memory.answer("c1", session="two")]
    assert set(reasons(memory.forget(ids=[other.id]))) == {("message", second.id), ("message", other.id)}
    assert {m.id for m in memory.find("message")} == {first.id, answer.id, *(m.id for m in elsewhere)}


def test_an_episode_goes_with_its_task_and_a_task_with_its_episode(memory):
    one, two = memory.do("修 nginx", "看日志"), memory.do("修 redis", "看日志")
    receipt = memory.forget(ids=[one.id])
    assert reasons(receipt) == {("episode", one.id): "asked for", ("task", one.task_id): "its episode goes"}
    receipt = memory.forget(ids=[two.task_id])
    assert reasons(receipt) == {("task", two.task_id): "asked for", ("episode", two.id): "its task goes"}
    assert (memory.everything(), memory.find("step")) == ({}, [])


def test_an_episode_with_an_id_of_its_own_goes_with_its_task_too(memory):
    made = memory.do("修 nginx")
    memory.store.delete(Query(scope=ANA, kinds=("episode",), ids=(made.id,)))
    memory.store.put([replace(made, id="brought")])
    assert ("episode", "brought") in reasons(memory.forget(ids=[made.task_id]))


def test_a_fact_goes_with_the_only_message_that_says_it(memory):
    said = memory.say("我的生日是 5 月 3 日")
    fact = memory.fact("生日")
    assert reasons(memory.forget(ids=[said.id]))["fact", fact.id] == "rests on messages that go"
    assert (memory.find("fact"), memory.words_found("生日")) == ([], [])


def test_a_fact_that_others_say_too_stays_with_their_sources_and_less_sure(memory):
    first = memory.say("edge-02 的监听端口是 8444")
    once = memory.fact("8444")
    second = memory.say("edge-02 的监听端口是 8444", at=5)
    assert set(memory.fact("8444").sources) == {first.id, second.id}
    receipt = memory.forget(ids=[first.id])
    left = memory.fact("8444")
    assert (left.id, left.sources, left.status) == (once.id, (second.id,), "active")
    assert reasons(receipt, "changed") == {("fact", left.id): "rests on fewer messages"}
    assert (left.confidence, left.created_at) == (pytest.approx(once.confidence), second.created_at)
    memory.forget(ids=[second.id])
    assert memory.find("fact") == []


def test_a_fact_in_words_that_only_the_forgotten_message_said_is_read_again(memory):
    first = memory.say("nginx 容器的监听端口是 8080")
    second = memory.say("nginx container 的监听端口是 8080", at=5)
    both = memory.fact("8080")
    assert set(both.sources) == {first.id, second.id}, "the names of one thing meet"
    receipt = memory.forget(ids=[first.id])
    left = memory.fact("8080")
    assert left.sources == (second.id,)
    assert "容器" not in left.subject + left.object + left.text
    assert reasons(receipt)["fact", both.id] == "rests on messages that go, others are read again"


def test_without_a_reader_such_a_fact_goes(memory):
    first = memory.say("nginx 容器的监听端口是 8080")
    memory.say("nginx container 的监听端口是 8080", at=5)
    Forgetting(memory.store, memory.trash).forget(ANA, ids=[first.id], reason="r", at=LATER)
    assert memory.find("fact") == []


def test_what_a_forgotten_statement_had_superseded_holds_again(memory):
    memory.say("edge-02 的监听端口是 8443")
    old = memory.fact("8443")
    moved = memory.say("edge-02 的监听端口改成 8444 了", at=60)
    assert memory.fact("8443").status == "superseded"
    receipt = memory.forget(ids=[moved.id])
    assert memory.find("fact") == [old]
    assert reasons(receipt, "changed") == {("fact", old.id): "a fact before or after it goes"}
    assert [item.text for item in receipt.items if item.id == old.id] == [old.line]


def test_a_chain_closes_where_its_middle_goes(memory):
    for at, port in ((0, 8443), (60, 8444), (120, 8445)):
        memory.say(f"edge-02 的监听端口改成 {port} 了" if at else f"edge-02 的监听端口是 {port}", at=at)
    first, middle, last = (memory.fact(str(port)) for port in (8443, 8444, 8445))
    memory.forget(ids=list(middle.sources))
    ended = replace(first, superseded_by=last.id, valid_to=last.valid_from or last.created_at)
    assert memory.find("fact") == [ended, replace(last, supersedes=first.id)]


def test_a_forgotten_fact_leaves_its_message_and_frees_what_it_superseded(memory):
    memory.say("edge-02 的监听端口是 8443")
    said = memory.say("edge-02 的监听端口改成 8444 了", at=60)
    assert memory.forget(ids=[memory.fact("8444").id]).counts == {"fact": 1}
    assert memory.fact("8443").status == "active"
    assert said in memory.find("message")


def test_facts_of_another_user_with_the_same_ids_stay(memory):
    mine = memory.say("edge-02 的监听端口是 8443", id="same")
    ben = Scope(user_id="ben")
    memory.say("edge-02 的监听端口是 8443", id="same", scope=ben)
    memory.forget(ids=[mine.id])
    assert (memory.find("fact"), len(memory.find("fact", scope=ben))) == ([], 1)


def test_knowledge_is_written_anew_from_the_other_episodes(memory):
    (one, two, last), known = memory.consolidate("甲乙丙")
    receipt = memory.forget(ids=[one.id])
    (left,) = memory.find("knowledge")
    assert (left.id, left.source_episodes) == (known.id, (two.id, last.id))
    assert left.confidence <= known.confidence
    assert reasons(receipt, "changed") == {("knowledge", known.id): "rewritten from fewer episodes"}
    assert "甲" not in left.search_text
    memory.forget(ids=[two.id, last.id])
    assert memory.find("knowledge") == []


def test_knowledge_that_cannot_be_written_anew_goes_and_its_episodes_wait(memory):
    episodes, known = memory.consolidate("甲乙丙")
    receipt = Forgetting(memory.store, memory.trash).forget(ANA, ids=[episodes[0].id], reason="r", at=LATER)
    assert reasons(receipt)["knowledge", known.id] == "rests on episodes that go"
    assert {e.id for e in memory.find("episode", consolidated=False)} == {e.id for e in episodes[1:]}


def test_forgetting_knowledge_leaves_its_episodes_and_these_take_a_lesson_of_another_hand_along(memory):
    episodes, known = memory.consolidate("甲乙丙")
    assert memory.forget(ids=[known.id]).counts == {"knowledge": 1}
    assert len(memory.find("episode")) == len(episodes)
    memory.store.put([lesson("别忘了 甲", episodes[:1], id="k1"), lesson("别的", [], id="k2")])
    memory.forget(ids=[episodes[0].id])
    assert {k.id for k in memory.find("knowledge")} == {"k2"}
