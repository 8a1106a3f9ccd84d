"""Processes forked with a memory open, at any moment: they work on, or say at once that they cannot."""

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
import traceback
from contextlib import contextmanager

import pytest
from at_once import at_once
from refusing import refused

import jiyi
from jiyi.errors import StorageError
from jiyi.one_thread import one_blas_thread
from jiyi.testing import HashEmbedder

FORKS = 50  # of each database
LONGEST = 60  # seconds a child may take on a busy machine

# What forks with threads warns of is what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
]


def forked(work):
    """Run something in a forked process; return its exit code, None where it had to be killed, hanging."""
    child = os.fork()
    if child == 0:
        try:
            faulthandler.dump_traceback_later(LONGEST, exit=True)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    until = time.monotonic() + LONGEST + 10
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@contextmanager
def load(memory, threads=3):
    """Threads that save and search meanwhile; gives the ids of what was acknowledged."""
    saved, failed, stop = [], [], threading.Event()

    def work(number):
        try:
            while not stop.is_set():
                text = f"thread {number} says {len(saved)}"
                saved.append(memory.save_message(f"s-{number}", role="user", content=text).id)
                memory.search("thread says")
        except Exception as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield saved
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert not failed


def test_no_fork_comes_while_the_threads_of_blas_are_limited():
    inside, ended = threading.Event(), threading.Event()

    def limited():
        with one_blas_thread():
            inside.set()
            time.sleep(0.3)
            ended.set()

    thread = threading.Thread(target=limited)
    thread.start()
    assert inside.wait(5)
    assert forked(lambda: ended.is_set() or os._exit(2)) == 0
    thread.join()


def test_forks_under_load_each_save_and_find(place, open_memory):
    memory = open_memory(place, background=True, lock_timeout=LONGEST)
    codes = []
    with load(memory) as saved:
        for number in range(FORKS):

            def child(number=number):
                memory.save_message("forked", role="user", content=f"child number{number}", id=f"c-{number}")
                assert f"c-{number}" in {hit.id for hit in memory.search(f"number{number}")}
                memory.close()

            codes.append(forked(child))
    assert codes == [0] * FORKS
    ids = {message.id for message in memory.session_messages("forked")}
    assert memory.stats()["message"] == len(saved) + FORKS
    assert ids == {f"c-{number}" for number in range(FORKS)}
    memory.flush()
    assert "is sound" in memory.parts.store._db.check()


OPEN = {}


def save(number):
    return OPEN["here"].save_message("s", role="user", content=f"of the pool {number}").id


def test_a_pool_of_forked_processes_shares_an_open_memory(path, open_memory):
    memory = OPEN["here"] = open_memory(lock_timeout=LONGEST)
    memory.save_message("s", role="user", content="of the parent")
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len(set(pool.map(save, range(40)))) == 40
    memory.save_message("s", role="user", content="of the parent again")
    assert memory.stats()["message"] == 42


def test_what_is_written_at_the_fork_is_waited_for(open_memory):
    memory = open_memory()
    inside, go_on = threading.Event(), threading.Event()

    def write():
        with memory.parts.store.transaction():
            memory.save_message("s", role="user", content="long")
            inside.set()
            go_on.wait(LONGEST)

    writer = threading.Thread(target=write)
    writer.start()
    inside.wait()
    threading.Timer(0.5, go_on.set).start()
    assert forked(lambda: memory.save_message("s", role="user", content="of the child")) == 0
    writer.join()
    assert [message.text for message in memory.recent_messages("s")] == ["long", "of the child"]


@pytest.mark.parametrize("by", ["another thread", "the same thread"])
def test_a_fork_inside_a_transaction_that_goes_on_is_refused_at_once(path, open_memory, by, monkeypatch):
    monkeypatch.setattr("jiyi.forks._MAX_WAIT_SECONDS", 0.2)
    memory = open_memory()
    memory.save_message("s", role="user", content="before")
    codes = []

    def child():
        began = time.monotonic()
        refused(StorageError, "forked", memory.save_message, "s", role="user", content="never")
        refused(StorageError, "forked", jiyi.open, path, user_id="ana", embedder=HashEmbedder())
        assert time.monotonic() - began < 5

    with memory.parts.store.transaction():
        memory.save_message("s", role="user", content="inside")
        if by == "the same thread":
            codes.append(forked(child))
        else:
            codes += at_once(forked, [child])
        memory.save_message("s", role="user", content="still inside")
    assert codes == [0]
    memory.save_message("s", role="user", content="after")
    texts = [message.text for message in memory.recent_messages("s")]
    assert texts == ["before", "inside", "still inside", "after"]
    assert "is sound" in memory.parts.store._db.check()


def test_a_child_that_ends_as_programs_end_harms_nothing(path, open_memory):
    """It leaves a `with` block and its interpreter closes everything; the parent's log stays."""
    memory = open_memory()
    memory.save_message("s", role="user", content="one")
    log = path.with_name(path.name + "-wal").stat()

    def leave():
        with memory:
            pass

    assert forked(leave) == 0
    assert path.with_name(path.name + "-wal").stat().st_ino == log.st_ino
    memory.save_message("s", role="user", content="two")
    assert forked(lambda: memory.recent_messages("s")) == 0
    assert len(memory.recent_messages("s")) == 2


def test_the_bundled_model_embeds_after_a_fork_under_load(path):
    with jiyi.open(path, user_id="ana", lock_timeout=LONGEST) as memory:
        memory.save_message("s", role="user", content="The cat sleeps on the sofa.")
        memory.flush()
        with load(memory, threads=1):
            for _ in range(5):
                assert forked(lambda: memory.parts.long_term.recall.embedder.embed(["cat"], "query")) == 0
                assert forked(lambda: memory.search("Where does the pet sleep?")) == 0
