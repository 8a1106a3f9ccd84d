"""What every store promises about transactions, threads and closing; see `jiyi.storage.Store`."""

import pytest
from at_once import at_once
from refusing import raises, refused
from samples import ANA, by_words, episode, knowledge, message, task
from taken_out import find, ids, undone

from jiyi.errors import Closed, DuplicateId
from jiyi.records import Query, new_id
from jiyi.working import WorkingMemory

EVERY = ("message", "episode", "knowledge", "task")


def test_a_transaction_is_all_or_nothing(store):
    (kept,) = store.put([message("kept", id="k")])
    with undone(store):
        store.put([message("lost"), episode("lost")])
        store.delete(Query(scope=ANA, kinds=("message",), ids=("k",)))
        assert [e.trigger_summary for e in find(store, "episode")] == ["lost"]
        assert len(by_words(store, Query(scope=ANA, text="lost"))) == 2
    assert find(store, *EVERY) == [kept]
    assert by_words(store, Query(scope=ANA, text="lost")) == []
    assert by_words(store, Query(scope=ANA, text="kept")) == ["k"]
    assert store.put([message("next")])[0].seq == 1


def test_an_exception_caught_outside_undoes_the_inner_block_only(store):
    with store.transaction():
        store.put([message("outer", id="1")])
        with undone(store):
            store.put([message("inner", id="2")])
            with store.transaction():
                store.put([message("innermost", id="3")])
        raises(DuplicateId, store.put, [message("inner", id="4"), message("other words", id="1")])
        store.put([message("after", id="5")])
    assert ids(find(store, "message")) == ["1", "5"]
    assert [m.seq for m in find(store, "message")] == [0, 1]


def test_a_block_that_fails_first_leaves_the_transaction_as_if_it_had_not_been(store):
    with store.transaction():
        for _ in range(2):
            with undone(store):
                store.put([message("gone", id="gone")])
        assert find(store, "message") == []
        (kept,) = store.put([message("kept", id="kept")])
        with undone(store):
            store.put([message("gone", id="gone")])
    assert find(store, "message") == [kept]
    assert kept.seq == 0


@pytest.mark.slow
def test_no_other_writer_comes_between(backend):
    (store, _), (second, _) = backend.open(), backend.open()
    (job,) = store.put([task()])

    def work(memory):
        return [memory.add_step(ANA, job.id, f"{i}").seq for i in range(25)]

    workers = [WorkingMemory(s) for s in (store, store, second, second)]
    assert sorted([seq for part in at_once(work, workers) for seq in part]) == list(range(100))
    assert [s.seq for s in store.find(Query(scope=ANA, kinds=("task",)))[0].steps] == list(range(100))


@pytest.mark.slow
def test_threads_write_and_read_at_once(store):
    def work(number):
        out = [store.put([message(f"w{number} {i}", id=new_id())])[0].seq for i in range(20)]
        assert len(find(store, "message")) >= 20
        return out

    assert sorted([seq for part in at_once(work, range(6)) for seq in part]) == list(range(120))


def test_what_was_put_is_there_after_opening_again(backend):
    store, _ = backend.open()
    stored = store.put([message("永久 durable"), episode(), knowledge()])
    store.close()
    again, _ = backend.open()
    assert find(again, "message", "episode", "knowledge") == sorted(stored, key=lambda r: r.created_at)
    assert by_words(again, Query(scope=ANA, text="durable")) == [stored[0].id]


def test_closing_twice_is_fine_and_using_it_afterwards_is_not(store):
    store.close()
    store.close()
    query = Query(scope=ANA, text="x")
    for use in (
        lambda: store.put([message()]),
        lambda: store.find(query),
        lambda: store.match(query),
        lambda: store.delete(query),
        lambda: store.count(query),
        lambda: store.transaction().__enter__(),
    ):
        refused(Closed, "open it again", use)
