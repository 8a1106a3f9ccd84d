"""The file moved, deleted or replaced under an open memory: no write is acknowledged into nothing."""

import logging
import os
import shutil
import subprocess
import sys
import time

import pytest
from campaigns.io_faults import DISK, faulty_disk
from refusing import refused

import jiyi
from jiyi.errors import DatabaseMoved, JiyiError
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
def test_what_was_acknowledged_is_in_the_file_that_was_open_and_in_no_other(
    path, memory, open_memory, happened, noticed
):
    HAPPEN[happened](path)
    if noticed:
        with pytest.raises(DatabaseMoved):
            memory.save_message("s", role="user", content="three")
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
