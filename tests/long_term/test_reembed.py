"""From one embedder to another: searchable throughout, taken up after a break, nothing lost."""

import multiprocessing
import os
import signal
from contextlib import ExitStack, closing
from itertools import count

import numpy as np
import pytest
from embedders import Moody, unreachable
from opening import open_place
from refusing import refused
from samples import ANA, message

from jiyi.errors import EmbedderMismatch, EndpointUnreachable
from jiyi.long_term import Indexer
from jiyi.records import Query
from jiyi.storage.sqlite.connection import SqliteConnection
from jiyi.testing import HashEmbedder

OLD, NEW = HashEmbedder(), HashEmbedder(dims=32)


class Opened:
    def __init__(self, place):
        self.all = open_place(str(place))
        self.store, self.vectors = self.all.store, self.all.vectors
        self.indexer = Indexer(self.vectors, OLD)

    def put(self, *texts):
        self.store.put([message(text, id=text) for text in texts])

    def pending(self):
        return self.store.count(Query(scope=ANA))["vectors_pending"]

    def best(self, text, embedder):
        """What the vector of a text finds first, and how near it is."""
        vector = embedder.embed([text], "query")[0]
        first = self.vectors.nearest(Query(scope=ANA, limit=1), vector)[0]
        return first.id, round(first.score, 3)

    def holds(self, text, embedder):
        """Whether the vector that is searched is the text's by this embedder."""
        vectors = self.vectors.read(ANA, [("message", text)]).vectors
        wanted = embedder.embed([text], "passage")
        return vectors.shape == wanted.shape and np.allclose(vectors, wanted, atol=1e-3)

    def close(self):
        self.all.database.close()


@pytest.fixture
def opened(path):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Opened(path)))


@pytest.fixture
def memory(opened):
    """Twenty messages with vectors of the old embedder."""
    one = opened()
    one.put(*(f"text {i}" for i in range(20)))
    one.indexer.flush()
    return one


def test_it_is_searched_by_the_old_vectors_until_all_are_there(memory):
    seen = []

    def progress(done):
        seen.append(done)
        assert (memory.best("text 3", OLD), memory.vectors.claim().name) == (("text 3", 1), OLD.name)

    assert Indexer(memory.vectors, NEW).reembed(progress) == 20
    assert seen == [8, 20]
    assert (memory.best("text 3", NEW), memory.pending()) == (("text 3", 1), 0)
    memory.all.database.check()
    refused(EmbedderMismatch, "jiyi reembed", memory.indexer.flush)


def test_what_others_save_meanwhile_is_found_at_once_and_afterwards(memory, opened):
    other = opened()  # holds the old embedder
    late = [f"late {i}" for i in range(100)]

    def progress(done):
        for text in late[:10]:
            late.remove(text)
            other.put(text)
            other.indexer.flush()
            assert other.best(text, OLD) == (text, 1)

    done = Indexer(memory.vectors, NEW).reembed(progress)
    said = {m.id for m in memory.store.find(Query(scope=ANA, kinds=("message",), limit=200))}
    assert done == len(said) > 50
    assert memory.pending() == 0
    assert all(memory.holds(text, NEW) for text in said)


def test_what_is_saved_between_the_last_look_and_the_switch_is_made_after_it(memory, opened, monkeypatch):
    other = opened()
    switch = memory.vectors.switch

    def slowly(name):
        other.put("at the last moment")
        other.indexer.flush()
        return switch(name)

    monkeypatch.setattr(memory.vectors, "switch", slowly)
    assert Indexer(memory.vectors, NEW).reembed() == 21
    assert (memory.best("at the last moment", NEW), memory.pending()) == (("at the last moment", 1), 0)


def break_off(indexer, embedder):
    def stop(done):
        embedder.error = unreachable()

    refused(EndpointUnreachable, "refused the connection", indexer.reembed, stop)
    embedder.error = None


def test_a_broken_off_one_is_taken_up_where_it_stopped(memory):
    changed = Moody()
    changed.dims = 32
    indexer = Indexer(memory.vectors, changed)
    break_off(indexer, changed)
    assert (memory.pending(), memory.best("text 3", OLD)) == (0, ("text 3", 1))
    memory.put("more")  # others go on with the old one
    memory.indexer.flush()
    changed.asked.clear()
    assert indexer.reembed() == 13
    assert sum(len(texts) for _, texts in changed.asked) == 13


def test_only_what_is_pending_is_made_where_that_is_all(memory):
    memory.put("a", "b")
    asked = Moody()
    assert Indexer(memory.vectors, asked).reembed() == 2
    assert sum(len(texts) for _, texts in asked.asked) == 2


def test_the_same_embedders_broken_off_one_goes_on_although_something_is_pending(memory):
    asked = Moody()
    indexer = Indexer(memory.vectors, asked)
    break_off(indexer, asked)
    memory.put("more")
    assert indexer.reembed() == 13
    assert memory.vectors.claim().next_name is None
    assert (memory.pending(), memory.best("more", OLD)) == (0, ("more", 1))


def test_a_fresh_memory_is_bound(opened):
    one = opened()
    assert Indexer(one.vectors, NEW).reembed() == 0
    one.put("a")
    assert Indexer(one.vectors, NEW).reembed() == 1
    assert one.best("a", NEW) == ("a", 1)


def _reembed_until(path, statement):
    """Re-embed in a process that is killed at a statement."""
    opened, statements = open_place(path), count(1)

    def deadly(verb):
        def call(*args, **values):
            if next(statements) == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return verb(*args, **values)

        return call

    for name in ("run", "rows", "run_many"):
        setattr(SqliteConnection, name, deadly(getattr(SqliteConnection, name)))
    Indexer(opened.vectors, NEW).reembed()


@pytest.mark.slow
def test_killed_at_any_statement_it_goes_on(memory, opened, path):
    killed, after = 0, 5
    while True:
        process = multiprocessing.get_context("spawn").Process(target=_reembed_until, args=(str(path), after))
        process.start()
        process.join(60)
        here = memory.vectors.claim()
        assert memory.best("text 3", OLD if here.name == OLD.name else NEW) == ("text 3", 1)
        if here.name == NEW.name and here.next_name is None:
            break  # one more would make them again
        assert process.exitcode == -signal.SIGKILL
        killed, after = killed + 1, after + 4
        assert here.name == NEW.name or memory.pending() == 0
    assert killed > 3
    assert (memory.vectors.claim().name, memory.pending()) == (NEW.name, 0)
    assert all(memory.holds(f"text {i}", NEW) for i in range(20))
    memory.all.database.check()
    with memory.all.database.read() as db:
        assert db.raw.execute("SELECT DISTINCT space FROM vectors").fetchall() == [(1,)]


def test_a_switch_that_was_broken_off_is_completed_by_whoever_embeds_next(memory, monkeypatch):
    states = memory.vectors
    memory.put("waits")
    monkeypatch.setattr(states, "_complete_switch", lambda spaces: 1 / 0)
    refused(ZeroDivisionError, "division", Indexer(memory.vectors, NEW).reembed)
    monkeypatch.undo()
    assert (memory.vectors.claim().name, memory.best("text 3", NEW)) == (NEW.name, ("text 3", 1))
    memory.put("more")
    Indexer(memory.vectors, NEW).flush()
    assert memory.vectors.claim().next_name is None
    assert memory.pending() == 0
    memory.all.database.check()
