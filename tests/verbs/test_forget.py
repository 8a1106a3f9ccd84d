"""Forgetting by the verbs: what is asked for and what hangs on it, back again, or gone for good."""

import json

import pytest
from doing import counts, say, work
from refusing import raises, refused
from tables import read_tables

from jiyi.errors import BadQuery, NotFound

MARK = "zyxomarkerqwv"


def test_there_are_five_ways_to_say_what_to_forget(memory):
    one, two = say(memory, "the disk is full"), say(memory, "the disk is new", session="t")
    fact = memory.remember("buy milk").new[0]
    episode = work(memory, "look at the disk")

    def would(*words, **options):
        return {item.id for item in memory.forget(*words, dry_run=True, **options).items}

    assert would("disk") == {one.id, two.id, episode.id, episode.task_id}
    assert would("disk full") == {one.id}
    assert would("disk", kinds="message") == {one.id, two.id}
    assert would("disk", session_id="t") == {two.id}
    assert would(ids=one.id) == would(ids=[one.id]) == would(ids={one.id}) == {one.id}
    assert would(filters={"role": "user"}) == {one.id, two.id}
    assert would(filters={"role": "user"}, session_id="t") == {two.id}
    assert would(session_id="t") == {two.id}
    assert would(everything=True) == {one.id, two.id, fact, episode.id, episode.task_id}
    assert would(everything=True, kinds="fact") == {fact}
    assert would(everything=True, kinds=["message", "fact"], session_id="t") == {two.id}
    assert would(session_id="t", kinds="message") == {two.id}
    assert counts(memory) == {"message": 2, "session": 2, "task": 1, "episode": 1, "fact": 1}


def test_a_preview_shows_the_words_of_all_that_goes(memory):
    say(memory, "we adopted a dog, a greyhound in Lisbon")
    items = memory.forget("Lisbon", dry_run=True).items
    assert {item.kind for item in items} == {"message", "fact"}
    assert all(item.text for item in items)


@pytest.mark.parametrize("what", read_tables(__file__)["slips"], ids=str)
def test_a_slip_costs_no_memory(memory, what):
    say(memory, "buy milk", id="a")
    raises(BadQuery, memory.forget, **json.loads(what))
    assert counts(memory) == {"message": 1, "session": 1}


def test_forgetting_takes_what_was_derived_and_brings_it_back(memory, clock):
    say(memory, "edge-02 的端口是 8443")
    clock.forward(days=1)
    said = say(memory, "edge-02 的端口改成 8444 了")
    clock.forward(days=1)
    before = memory.history("edge-02")
    receipt = memory.forget("8444", reason="a slip of the tongue")
    assert (receipt.at, receipt.reason) == (clock(), "a slip of the tongue")
    assert receipt.counts == {"message": 1, "fact": 1}
    assert [fact.object for fact in memory.facts("edge-02")] == ["8443"], "what it superseded holds again"
    assert not [hit for hit in memory.search("8444") if "8444" in hit.text]
    assert "8444" not in memory.build_context("s", "edge-02 的端口？", 500).markdown
    refused(NotFound, "lies in the trash", memory.forget, ids=said.id)
    clock.forward(days=1)
    assert memory.restore(forgotten_at=receipt.at).counts == {"message": 1, "fact": 1}
    assert memory.history("edge-02") == before
    refused(NotFound, "not in the trash", memory.restore, said.id)


def test_purged_bytes_are_nowhere(memory, path):
    say(memory, f"the password is {MARK}")
    memory.remember(subject=MARK, predicate="belongs to", object="Ana")
    for _ in range(3):
        work(memory, f"rotate {MARK}", target=MARK)
    memory.run_consolidation()
    memory.flush()
    memory.search(MARK)

    def marked():
        return [file.name for file in path.parent.iterdir() if MARK.encode() in file.read_bytes()]

    assert marked()
    kept = say(memory, "nothing special")
    memory.forget(MARK, kinds="message")
    tried = memory.forget(MARK, purge=True, dry_run=True)
    receipt = memory.forget(MARK, purge=True)
    assert (receipt.counts, receipt.erased) == (tried.counts, receipt.total + 2), "the message and its fact"
    assert marked() == []
    refused(NotFound, "was taken out", memory.restore, forgotten_at=receipt.at)
    assert memory.recent_messages("s") == [kept]
    memory.close()
    assert marked() == []


def test_everything_of_one_user_is_forgotten_and_nothing_of_another(memory):
    for user in ("ana", "ben"):
        say(memory, "edge-02 的端口是 8443", user_id=user)
        memory.complete_task(memory.start_task("s", "restart", user_id=user).id, user_id=user)
    theirs = memory.stats(user_id="ben")
    receipt = memory.forget(everything=True)
    assert counts(memory) == {}
    assert memory.stats(user_id="ben") == theirs
    refused(NotFound, "nothing of 'ben'", memory.restore, forgotten_at=receipt.at, user_id="ben")
    assert memory.restore(forgotten_at=receipt.at).total == receipt.total == 4


def test_nobody_reaches_the_records_of_another(memory):
    said = say(memory, "edge-02 的端口是 8443", user_id="ben")
    episode = memory.complete_task(memory.start_task("s", "restart", user_id="ben").id, user_id="ben")
    theirs = memory.stats(user_id="ben")
    for id_ in (said.id, episode.id, memory.facts(user_id="ben")[0].id):
        for reach in (memory.pin, memory.unpin, memory.restore, memory.get):
            refused(NotFound, "'ana'", reach, id_)
        refused(NotFound, "'ana'", memory.forget, ids=id_)
    assert memory.forget("edge-02").total == 0
    assert memory.forget(session_id="s").total == 0
    assert memory.maintain().gate.total == 0
    assert (memory.episodes(), memory.knowledge(), memory.tasks()) == ([], [], [])
    assert memory.stats(user_id="ben") == theirs


def test_an_agent_is_not_told_the_words_of_a_summary_it_cannot_see(memory):
    for number in range(30):
        for agent in (None, "a1", "a2"):
            say(memory, f"{agent} asks for port {number}", agent_id=agent)
    assert "a1" in memory.summarize_session("s").text
    items = memory.forget(session_id="s", agent_id="a2").items
    assert {item.text for item in items if item.kind == "summary"} == {""}
    assert not [item for item in items if "a1" in item.text]
    assert [item for item in items if "a2 asks" in item.text]


def test_large_numbers_and_long_texts(memory):
    long = "the disk of web-7 is full 磁盘满了 " * 3_500
    assert len(long) > 100_000
    said = say(memory, long)
    fact = memory.remember(long).new[0]
    names = [f"m{number}" for number in range(10_000)]
    memory.save_messages("t", [{"role": "user", "content": "x"}] * 3)
    refused(NotFound, "and 9995 more", memory.forget, ids=names)
    refused(NotFound, "and 9995 more", memory.pin, names)
    assert memory.pin([said.id] * 10_000) == 1
    assert {said.id, fact} == {item.id for item in memory.forget("web-7 磁盘", dry_run=True).items}
    assert memory.forget(ids=[said.id] * 10_000).counts["message"] == 1


@pytest.mark.slow
def test_thousands_of_messages_are_forgotten_by_their_ids(open_memory):
    memory = open_memory(learn_facts=False)
    ids = [m.id for m in memory.save_messages("s", [{"role": "user", "content": "x y"}] * 2_500)]
    receipt = memory.forget(ids=ids)
    assert (receipt.counts, len(receipt.items)) == ({"message": 2_500}, 1_000)
    assert memory.restore(forgotten_at=receipt.at).total == 2_500
    refused(BadQuery, "more than 1,000 records", memory.forget, "x y")
    assert memory.stats()["message"] == 2_500
    assert memory.forget("x y", limit=10_000).total == 2_500
