"""Other processes at the same file: locks that hold too long, and writers side by side."""

import threading
import time

import pytest
from at_once import wait_until
from doing import counts
from other_processes import begin_together

from jiyi.errors import DatabaseLocked
from jiyi.records import Query, Scope


@pytest.mark.parametrize("how", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_lock_held_too_long_is_named_and_reading_goes_on(open_memory, hold, how):
    memory = open_memory(lock_timeout=0.2)
    memory.save_message("s", role="user", content="before the lock")
    release = hold(f"BEGIN {how}")
    began = time.monotonic()
    with pytest.raises(DatabaseLocked, match=r"0\.2 s; nothing was written") as caught:
        memory.save_message("s", role="user", content="during the lock", id="x")
    assert 0.15 < time.monotonic() - began < 5
    assert "lock_timeout" in str(caught.value)
    with pytest.raises(DatabaseLocked):
        memory.start_task("s", "a task")
    assert [h.text for h in memory.search("lock")] == ["before the lock"]
    assert len(memory.recent_messages("s")) == 1
    assert "before the lock" in str(memory.build_context("s", "lock?", 500).messages)
    with open_memory() as another:
        assert another.stats()["message"] == 1
    release()
    assert memory.save_message("s", role="user", content="during the lock", id="x").seq == 1
    assert memory.stats()["message"] == 2


def test_a_lock_that_ends_in_time_is_waited_for(open_memory, hold):
    memory = open_memory(lock_timeout=30)
    timer = threading.Timer(0.5, hold())
    timer.start()
    began = time.monotonic()
    memory.save_message("s", role="user", content="patient")
    assert time.monotonic() - began > 0.3
    timer.join()
    assert memory.stats()["message"] == 1


def test_the_worker_survives_a_lock(open_memory, hold):
    memory = open_memory(lock_timeout=0.1, background=True)
    memory.save_message("s", role="user", content="embedded before")
    release = hold()
    with pytest.raises(DatabaseLocked):
        memory.save_message("s", role="user", content="never")
    release()
    memory.save_message("s", role="user", content="after")
    wait_until(lambda: not memory.stats()["vectors_pending"])


WRITER = """
import os, sys
import jiyi
from jiyi.testing import HashEmbedder
print("ready", flush=True)
sys.stdin.readline()
memory = jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder(), lock_timeout=60)
for i in range(100):
    memory.save_message("shared", role="user", content=f"writer {os.getpid()} says {i}")
memory.close()
"""


def test_four_processes_write_one_session(path, open_memory):
    """They also make the file together."""
    begin_together(4, WRITER, path)
    with open_memory() as memory:
        query = Query(scope=Scope(user_id="ana", session_id="shared"), kinds=("message",), limit=10_000)
        stored = memory._store.find(query)
        assert [m.seq for m in stored] == list(range(400))
        writers = {m.content.partition(" says ")[0] for m in stored}
        assert len(writers) == 4
        for writer in writers:
            mine = [m.content for m in stored if m.content.startswith(f"{writer} ")]
            assert mine == [f"{writer} says {i}" for i in range(100)]
        memory.flush()
        assert counts(memory) == {"message": 400, "session": 1}
        assert memory.stats()["vectors_pending"] == 0


MAKER = """
import sys
import jiyi
from jiyi.testing import HashEmbedder
embedder = HashEmbedder()
print("ready", flush=True)
sys.stdin.readline()
with jiyi.open(sys.argv[1], user_id="ana", embedder=embedder) as memory:
    memory.save_message("s", role="user", content="hello")
"""


def test_processes_that_open_a_new_file_at_the_same_moment(path, open_memory):
    begin_together(6, MAKER, path)
    with open_memory() as memory:
        assert memory.stats()["message"] == 6
