"""Chroma in a folder: who may use it, what is found again, and what goes."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from jiyi.errors import DatabaseLocked, SettingsError, StorageError, WrongState
from jiyi.settings import load_settings
from jiyi.storage.backend import drift, repair
from jiyi.storage.place import Place
from jiyi.testing import HashEmbedder

WRITER = Path(__file__).with_name("writer.py")


def say(memory, *words, session="s"):
    for text in words:
        memory.save_message(session, {"role": "user", "content": text})
    memory.flush()


def texts(memory, question, limit=1):
    return [hit.text for hit in memory.search(question, limit=limit)]


def by_meaning(hit):
    return bool({"meaning", "apart", "first_by_meaning"}.intersection(hit.why))


def check(path):
    return drift(Place(path=path), load_settings(vector_index="chroma"))


def mend(path, index="chroma"):
    return repair(Place(path=path), load_settings(vector_index=index))


def test_vectors_are_in_a_folder_beside_the_file_and_found_again(open_chroma, path, folder):
    memory = open_chroma()
    say(memory, "nginx 又 502 了", "the disk is full", "coffee without sugar")
    assert texts(memory, "nginx 502") == ["nginx 又 502 了"]
    memory.close()
    assert (folder / "chroma.sqlite3").exists()
    again = open_chroma()
    hit = again.search("disk full", limit=1)[0]
    assert hit.text == "the disk is full"
    assert by_meaning(hit)
    assert str(check(path)) == (
        "3 records with vectors in Chroma, 0 of them without all of theirs, 0 vectors of no record"
    )


def test_two_memories_may_share_a_folder_but_no_collection(open_chroma, tmp_path, folder):
    say(open_chroma(), "the disk is full")
    other = open_chroma(tmp_path / "other.db", chroma_path=folder, chroma_collection="other")
    say(other, "the disk is empty")
    assert texts(other, "disk", limit=5) == ["the disk is empty"]
    third = open_chroma(tmp_path / "third.db", chroma_path=folder)
    third.save_message("s", {"role": "user", "content": "the disk is new"})
    with pytest.raises(StorageError, match=r"belongs to another memory.*chroma_collection"):
        third.flush()


def test_where_vectors_are_is_never_changed_by_mistake(open_chroma, open_memory, path):
    own = open_memory()
    say(own, "the disk is full")
    own.close()
    with pytest.raises(WrongState, match="doctor --repair"):
        open_chroma()
    assert mend(path) == ["1 record to be embedded again"]
    memory = open_chroma()
    assert memory.flush() == 1
    assert texts(memory, "disk") == ["the disk is full"]
    memory.close()
    with pytest.raises(WrongState, match="vector_index=chroma"):
        open_memory()
    assert mend(path, "own") == ["1 record to be embedded again"]
    back = open_memory()
    assert back.flush() == 1
    assert by_meaning(back.search("disk", limit=1)[0])


def test_settings_name_one_place(open_chroma, tmp_path):
    with pytest.raises(SettingsError, match="both set"):
        open_chroma(chroma_url="http://localhost:1", chroma_path=tmp_path / "folder")
    with pytest.raises(SettingsError, match="no address"):
        open_chroma(chroma_url="localhost:8000")


def test_processes_take_turns_and_see_each_other(open_chroma, path):
    memory = open_chroma()
    say(memory, "mine 0")
    others = [
        subprocess.Popen([sys.executable, str(WRITER), str(path), name, "12"]) for name in ("one", "two")
    ]
    for number in range(1, 6):
        say(memory, f"mine {number}")
    assert [other.wait(timeout=120) for other in others] == [0, 0]
    for name, count in (("mine", 6), ("one", 12), ("two", 12)):
        for number in range(count):
            hit = memory.search(f"{name} {number}", limit=1)[0]
            assert (hit.text, by_meaning(hit)) == (f"{name} {number}", True)
    found = check(path)
    assert found.sound
    assert found.held == 30


def test_a_process_that_holds_the_folder_too_long_is_told(open_chroma, path, folder):
    import fcntl

    memory = open_chroma(lock_timeout=0.2)
    say(memory, "the disk is full")
    with (folder / "jiyi.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        memory.save_message("s", {"role": "user", "content": "saved all the same"})
        started = time.monotonic()
        with pytest.raises(DatabaseLocked, match="chroma_url"):
            memory.flush()
        assert time.monotonic() - started < 4, "5 s are the default"
    assert memory.flush() == 1


def test_threads_share_one_folder(open_chroma, path):
    memory, other = open_chroma(), open_chroma()
    errors = []

    def work(own, name):
        try:
            for number in range(8):
                say(own, f"{name} {number}", session=name)
                assert texts(own, f"{name} {number}") == [f"{name} {number}"]
        except Exception as error:
            errors.append(error)

    workers = [
        threading.Thread(target=work, args=(memory, "a")),
        threading.Thread(target=work, args=(other, "b")),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert check(path).sound


@pytest.mark.parametrize("after", [0.05, 0.4, 0.9])
def test_a_writer_killed_in_the_middle_leaves_nothing_that_does_not_heal(open_chroma, path, after):
    memory = open_chroma()
    say(memory, "before")
    with subprocess.Popen(
        [sys.executable, str(WRITER), str(path), "word", "500"], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "begun\n"
        time.sleep(after)
        writer.send_signal(signal.SIGKILL)
    memory.flush()
    said = memory.search("word", kinds=("message",), limit=1000)
    assert {hit.text for hit in said} == {"before", *(f"word {n}" for n in range(len(said) - 1))}
    assert mend(path) in ([], *([f"{n} records' vectors taken out of Chroma"] for n in range(1, 9)))
    found = check(path)
    assert found.sound
    assert found.held == len(said)
    assert os.path.exists(path)


def test_nothing_reaches_the_network_and_no_embedding_function_is_loaded(path):
    script = f"""
import socket, sys
def refuse(*args, **kwargs): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
import jiyi
from jiyi.testing import HashEmbedder
options = dict(embedder=HashEmbedder(), background=False, vector_index="chroma")
with jiyi.open({str(path)!r}, user_id="ana", **options) as memory:
    memory.save_message("s", {{"role": "user", "content": "the disk is full"}})
    memory.flush()
    assert "first_by_meaning" in memory.search("disk")[0].why
assert "onnxruntime" not in sys.modules and "posthog" not in sys.modules
"""
    env = dict(os.environ) | {"CHROMA_OTEL_COLLECTION_ENDPOINT": "http://127.0.0.1:9"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=env)


def test_another_embedder_takes_over(open_chroma, path):
    memory = open_chroma()
    say(memory, *(f"text {n}" for n in range(20)))
    memory.close()
    other = open_chroma(embedder=HashEmbedder(dims=32), check_embedder=False)
    assert other.reembed() == 20
    assert texts(other, "text 7") == ["text 7"]
    found = check(path)
    assert (found.sound, found.held, found.unused) == (True, 20, ())
