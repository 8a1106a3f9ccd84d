"""The indexer: vectors follow rows, whatever fails in between."""

import threading
import time
from contextlib import ExitStack, closing

import numpy as np
import pytest
from at_once import wait_until
from embedders import Moody, unreachable
from refusing import refused
from samples import ANA, message

from jiyi.errors import Closed, EmbeddingError, EndpointUnreachable
from jiyi.long_term import Indexer
from jiyi.records import Query
from jiyi.storage import SqliteDatabase, SqliteVectors, Store


class Setup:
    def __init__(self, path, embedder=None):
        self.database = SqliteDatabase(path)
        self.store = Store(self.database)
        self.vectors = SqliteVectors(self.database)
        self.embedder = embedder or Moody()
        self.indexer = Indexer(self.vectors, self.embedder)

    def put(self, *texts):
        self.store.put([message(t) for t in texts])
        self.indexer.notify()

    def pending(self):
        return self.store.count(Query(scope=ANA))["vectors_pending"]

    def close(self):
        self.embedder.gate.set()
        self.indexer.close()
        self.database.close()


@pytest.fixture
def make(path):
    with ExitStack() as opened:
        yield lambda embedder=None: opened.enter_context(closing(Setup(path, embedder)))


@pytest.fixture
def one(make):
    return make()


def test_the_worker_finishes_what_is_stored(one):
    before = set(threading.enumerate())
    one.indexer.start()
    one.indexer.start()
    for i in range(20):
        one.put(f"text {i}")
    wait_until(lambda: one.pending() == 0)
    vector = one.embedder.embed(["text 7"], "query")[0]
    assert one.vectors.nearest(Query(scope=ANA), vector)[0].score == pytest.approx(1, abs=1e-3)
    assert [t.name for t in set(threading.enumerate()) - before] == ["jiyi-indexer"]


def test_flush_finishes_all_and_tells_how_far_it_is(one):
    one.put(*(f"text {i}" for i in range(20)), "")
    seen = []
    assert one.indexer.flush(seen.append) == 20
    assert seen == sorted(seen)
    assert seen[-1] == 20
    assert (one.pending(), one.indexer.flush()) == (0, 0)
    assert {kind for kind, _ in one.embedder.asked} == {"passage"}


def test_flush_ends_while_others_keep_saving(make):
    class Talkative(Moody):
        def embed(self, texts, kind):
            one.put(*(f"said meanwhile {len(self.asked)}-{i}" for i in range(len(texts))))
            return super().embed(texts, kind)

    one = make(Talkative())
    one.put(*(f"text {i}" for i in range(20)))
    assert one.indexer.flush() >= 20
    assert not [text for text in one.vectors.pending(1000, leased=False) if text.text.startswith("text ")]


def test_no_text_is_embedded_twice_by_worker_and_flush(one):
    one.put(*(f"text {i}" for i in range(60)))
    one.indexer.start()
    one.indexer.flush()
    wait_until(lambda: one.pending() == 0)
    texts = [t for _, some in one.embedder.asked for t in some]
    assert sorted(texts) == sorted({f"text {i}" for i in range(60)})


@pytest.fixture
def dead(make):
    """One that took a lease of two minutes on two of three texts; then its process was gone."""
    dead = make()
    dead.put("a", "b", "c")
    assert len(dead.vectors.pending(2)) == 2
    return dead


def test_what_another_process_left_in_the_middle_is_finished_by_flush(dead, one):
    assert (one.indexer.flush(), one.pending()) == (3, 0)


def test_what_a_crash_left_is_finished_by_the_worker_of_the_next_open(dead, one):
    one.indexer.start()
    wait_until(lambda: one.pending() == 0)


@pytest.mark.slow
@pytest.mark.parametrize("error", [unreachable(), RuntimeError("a bug in somebody's embedder")])
def test_a_failing_embedder_is_asked_again_and_nothing_is_lost(make, error):
    one = make(Moody(error))
    one.indexer.start()
    one.put("a", "b")
    wait_until(lambda: one.indexer.last_error is not None)
    assert isinstance(one.indexer.last_error, EmbeddingError)
    assert str(error.args[0]) in str(one.indexer.last_error)
    assert one.pending() == 2
    one.embedder.error = None
    wait_until(lambda: one.pending() == 0)
    wait_until(lambda: one.indexer.last_error is None)


def test_flush_raises_what_the_embedder_raises_and_keeps_what_was_done(one):
    one.put(*(f"text {i}" for i in range(20)))

    def fail_after_the_first(done):
        one.embedder.error = unreachable()

    refused(EndpointUnreachable, "refused the connection", one.indexer.flush, fail_after_the_first)
    assert 0 < one.pending() < 20
    one.embedder.error = None
    one.indexer.flush()
    assert one.pending() == 0


def test_records_deleted_meanwhile_are_passed_over(one):
    one.embedder.gate.clear()
    one.indexer.start()
    one.put("a", "b")
    wait_until(lambda: one.vectors.pending(1) == [])
    one.store.delete(Query(scope=ANA))
    one.put("c")
    one.embedder.gate.set()
    wait_until(lambda: one.pending() == 0)
    assert len(one.vectors.nearest(Query(scope=ANA), np.ones(64, np.float32))) == 1


def test_close_ends_the_worker_and_leaves_the_rest_pending(make, one):
    before = set(threading.enumerate())
    one.indexer.start()
    one.put("done")
    wait_until(lambda: one.pending() == 0)
    one.indexer.close()
    assert set(threading.enumerate()) <= before
    one.put("later")
    time.sleep(0.05)
    assert one.pending() == 1
    one.database.close()
    refused(Closed, "open it again", one.indexer.flush)
    assert make().indexer.flush() == 1


def test_a_repeated_text_is_embedded_once_and_the_longest_come_first(one):
    texts = ["ok", "a much longer text", "ok", "a longer text", "ok", "a much longer text"]
    one.put(*texts, "")
    assert one.indexer.flush() == len(texts)
    assert [asked for _, asked in one.embedder.asked] == [["a much longer text", "a longer text", "ok"]]
    rows = one.vectors.nearest(Query(scope=ANA), one.embedder.embed(["ok"], "query")[0])
    assert [row.score > 0.99 for row in rows] == [True] * 3 + [False] * 3


@pytest.mark.slow
def test_batches_grow_where_it_goes_fast_and_shrink_where_it_does_not(one, monkeypatch):
    # A busy machine is no slow embedder.
    monkeypatch.setattr("jiyi.long_term.indexing._MAX_BATCH_SECONDS", 1.0)
    one.put(*(f"text {i}" for i in range(200)))
    done, pieces = 0, []

    def told(so_far):
        nonlocal done
        pieces.append(so_far - done)
        done = so_far
        one.embedder.seconds = 1.1 if len(pieces) == 4 else 0.0

    one.indexer.flush(told)
    assert (pieces[:7], sum(pieces)) == ([8, 16, 32, 32, 32, 16, 32], 200)


def test_long_texts_get_several_vectors_and_tool_output_one(one):
    long = "\n".join(f"paragraph {i} about the disk and the network" for i in range(200))
    one.store.put([message(long, id="user"), message(long, id="tool", role="tool", tool_call_id="c")])
    one.indexer.flush()
    with one.database.read() as db:
        query = "SELECT id, count(*) FROM vectors JOIN documents USING (doc) GROUP BY id"
        counts = dict(db.raw.execute(query))
    assert counts["user"] > 2
    assert counts["tool"] == 1
