"""The file moved, replaced or locked under an open memory: no write is acknowledged into nothing."""

import logging
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from at_once import wait_until
from campaigns.io_faults import DISK, faulty_disk
from doing import counts
from other_processes import begin_together
from refusing import raises, refused

import jiyi
from jiyi.errors import DatabaseLocked, DatabaseMoved, JiyiError
from jiyi.records import Query, Scope
from jiyi.testing import HashEmbedder

TEXTS = ["one", "two"]


def texts(memory):
    return [message.text for message in memory.recent_messages("s")]


@pytest.fixture
def memory(path, open_memory):
    """An open memory with two messages; beside its file lies a backup with the first of them."""
    with open_memory() as before:
        before.save_message("s", role="user", content="one")
    shutil.copy(path, f"{path}.backup")
    memory = open_memory()
    memory.save_message("s", role="user", content="two")
    assert texts(memory) == TEXTS
    return memory


HAPPEN = {
    "deleted": lambda path: path.unlink(),
    "moved": lambda path: path.rename(f"{path}.elsewhere"),
    "replaced": lambda path: os.replace(f"{path}.backup", path),
    "copied over": lambda path: shutil.copyfile(f"{path}.backup", path),
    "log deleted": lambda path: os.unlink(f"{path}-wal"),
    "shared memory deleted": lambda path: os.unlink(f"{path}-shm"),
}


@pytest.mark.parametrize("happened", HAPPEN)
def test_nothing_is_written_any_more_and_it_says_why(path, memory, happened):
    HAPPEN[happened](path)
    for write in (
        lambda: memory.save_message("s", role="user", content="three"),
        lambda: memory.start_task("s", "a task"),
        lambda: memory.forget(session_id="s"),
        memory.flush,
    ):
        refused(DatabaseMoved, "nothing was written", write)
    memory.close()


@pytest.mark.parametrize("happened", ["moved", "replaced", "log deleted", "shared memory deleted"])
@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "closed at once"])
def test_what_was_acknowledged_is_in_the_open_file_alone(path, memory, open_memory, happened, noticed):
    HAPPEN[happened](path)
    if noticed:
        raises(DatabaseMoved, memory.save_message, "s", role="user", content="three")
    memory.close()
    with open_memory(f"{path}.elsewhere" if happened == "moved" else path) as again:
        assert texts(again) == (TEXTS[:1] if happened == "replaced" else TEXTS)
        assert "is sound" in again.parts.store._db.check()


def test_what_is_open_is_read_until_it_is_closed(path, memory, tmp_path):
    path.unlink()
    assert texts(memory) == TEXTS
    assert memory.export(tmp_path / "saved.jsonl").counts["message"] == 2


def test_a_file_that_is_put_back_is_written_to_again(path, memory):
    HAPPEN["moved"](path)
    refused(DatabaseMoved, "put back", memory.save_message, "s", role="user", content="never")
    os.replace(f"{path}.elsewhere", path)
    memory.save_message("s", role="user", content="three")
    assert texts(memory) == [*TEXTS, "three"]


def test_a_backup_copied_over_it_is_whole_once_the_log_is_gone(path, memory, open_memory):
    HAPPEN["copied over"](path)
    refused(DatabaseMoved, "-wal and -shm", memory.save_message, "s", role="user", content="three")
    memory.close()
    backup = path.with_name(f"{path.name}.backup").read_bytes()
    assert path.read_bytes() == backup, "closing folds nothing into it"
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    with open_memory() as again:
        assert texts(again) == ["one"]


def test_the_background_worker_stops_and_says_so(path, open_memory, caplog):
    class Slow(HashEmbedder):
        def embed(self, texts, kind):
            if kind == "passage" and path.exists():
                path.unlink()
            return super().embed(texts, kind)

    memory = open_memory(embedder=Slow(), background=True)
    with caplog.at_level(logging.WARNING, "jiyi"):
        memory.save_message("s", role="user", content="one")
        worker = memory.parts.long_term.indexer
        worker._thread.join(60)
        assert not worker._thread.is_alive()
    assert isinstance(worker.last_error, DatabaseMoved)
    assert "indexer: stopped" in caplog.text


def test_a_read_that_fails_once_is_not_taken_for_another_file(path, open_memory):
    """The advice for that is to remove the log, which holds what was acknowledged."""
    open_memory().close()
    with faulty_disk():
        memory = open_memory()
        for number in range(1, 40):
            other = open_memory()  # it writes to the file, so that its header is looked at again
            other.save_message("s", role="user", content="other")
            other.maintain()
            other.close()
            DISK.begin(number)
            try:
                memory.save_message("s", role="user", content="more")
            except DatabaseMoved as error:
                pytest.fail(f"call {number}: {error}")
            except JiyiError:
                pass
        DISK.begin()
        assert memory.save_message("s", role="user", content="it goes on")


def test_a_process_in_another_folder_goes_on_with_its_file(tmp_path, open_memory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = open_memory("agent.db")
    memory.save_message("s", role="user", content="one")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    memory.save_message("s", role="user", content="two")
    assert texts(memory) == TEXTS
    assert os.listdir() == []


OTHER = """
import sys, jiyi
from jiyi.testing import HashEmbedder
with jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder(), background=False) as memory:
    print(memory.stats()["message"])
"""


@pytest.mark.parametrize("what", ["opened again", "exported onto", "imported from"])
def test_locks_of_the_process_stay_whatever_it_does_with_the_file(path, memory, open_memory, what):
    """Closing any handle of a file drops a process's locks on it; another process then takes its log away."""
    if what == "opened again":
        open_memory().close()
    else:
        with pytest.raises(jiyi.JiyiError, match="database"):
            memory.export(path) if what == "exported onto" else memory.import_(path)
    log = os.stat(f"{path}-wal").st_ino
    assert subprocess.check_output([sys.executable, "-c", OTHER, path], text=True, timeout=120) == "2\n"
    assert os.stat(f"{path}-wal").st_ino == log
    memory.save_message("s", role="user", content="three")


def test_looking_takes_little(memory):
    file = memory.parts.store._db._file
    assert min(_timed(file.check) for _ in range(20)) < 200e-6, "some ten microseconds on a machine at rest"


def _timed(call, times=50):
    began = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - began) / times


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
    raises(DatabaseLocked, memory.start_task, "s", "a task")
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
    raises(DatabaseLocked, memory.save_message, "s", role="user", content="never")
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
