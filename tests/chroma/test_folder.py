"""Chroma in a folder or on a server: who may use it, what is found again, and what heals."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from at_once import at_once
from refusing import raises, refused

from jiyi.errors import DatabaseLocked, IndexUnreachable, SettingsError, StorageError, WrongState
from jiyi.settings import load_settings
from jiyi.storage.backend import drift, repair
from jiyi.storage.place import Place
from jiyi.testing import HashEmbedder

WRITER = Path(__file__).with_name("writer.py")


def save(memory, *words, session="s"):
    for text in words:
        memory.save_message(session, {"role": "user", "content": text})


def say(memory, *words, session="s"):
    """Save messages with their vectors."""
    save(memory, *words, session=session)
    memory.flush()


def texts(memory, question, limit=1):
    return [hit.text for hit in memory.search(question, limit=limit)]


def by_meaning(hit):
    return bool({"meaning", "apart", "first_by_meaning"}.intersection(hit.why))


def check(path, url=None):
    return drift(Place(path=path), load_settings(vector_index="chroma", chroma_url=url))


def mend(path, index="chroma", **settings):
    return repair(Place(path=path), load_settings(vector_index=index, **settings))


def test_vectors_are_in_a_folder_beside_the_file_and_found_again(open_chroma, path, folder):
    memory = open_chroma()
    say(memory, "nginx 又 502 了", "the disk is full", "coffee without sugar")
    assert texts(memory, "nginx 502") == ["nginx 又 502 了"]
    memory.close()
    assert (folder / "chroma.sqlite3").exists()
    hit = open_chroma().search("disk full", limit=1)[0]
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
    refused(StorageError, r"belongs to another memory.*chroma_collection", third.flush)


def test_where_vectors_are_is_never_changed_by_mistake(open_chroma, open_memory, path):
    own = open_memory()
    say(own, "the disk is full")
    own.close()
    refused(WrongState, "doctor --repair", open_chroma)
    assert mend(path) == ["1 record to be embedded again"]
    memory = open_chroma()
    assert memory.flush() == 1
    assert texts(memory, "disk") == ["the disk is full"]
    memory.close()
    refused(WrongState, "vector_index=chroma", open_memory)
    assert mend(path, "own") == ["1 record to be embedded again"]
    back = open_memory()
    assert back.flush() == 1
    assert by_meaning(back.search("disk", limit=1)[0])


def test_settings_name_one_place(open_chroma, tmp_path):
    with pytest.raises(SettingsError, match="both set"):
        open_chroma(chroma_url="http://localhost:1", chroma_path=tmp_path / "folder")
    refused(SettingsError, "no address", open_chroma, chroma_url="localhost:8000")


@pytest.mark.parametrize("where", ["folder", "server"])
def test_processes_take_turns_and_see_each_other(request, open_chroma, path, where):
    url = request.getfixturevalue("own_server").url if where == "server" else None
    memory = open_chroma(chroma_url=url)
    say(memory, "mine 0")
    told = ["12", *([url] if url else [])]
    others = [subprocess.Popen([sys.executable, WRITER, path, name, *told]) for name in ("one", "two")]
    for number in range(1, 6):
        say(memory, f"mine {number}")
    assert [other.wait(timeout=120) for other in others] == [0, 0]
    for name, count in (("mine", 6), ("one", 12), ("two", 12)):
        for number in range(count):
            hit = memory.search(f"{name} {number}", limit=1)[0]
            assert (hit.text, by_meaning(hit)) == (f"{name} {number}", True)
    found = check(path, url)
    assert (found.sound, found.held) == (True, 30)


def test_a_process_that_holds_the_folder_too_long_is_told(open_chroma, path, folder):
    import fcntl

    memory = open_chroma(lock_timeout=0.2)
    say(memory, "the disk is full")
    with (folder / "jiyi.lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        memory.save_message("s", {"role": "user", "content": "saved all the same"})
        started = time.monotonic()
        refused(DatabaseLocked, "chroma_url", memory.flush)
        assert time.monotonic() - started < 4, "5 s are the default"
    assert memory.flush() == 1


def test_threads_share_one_folder(open_chroma, path):
    memories = {"a": open_chroma(), "b": open_chroma()}

    def work(name):
        for number in range(8):
            say(memories[name], f"{name} {number}", session=name)
            assert texts(memories[name], f"{name} {number}") == [f"{name} {number}"]

    at_once(work, memories)
    assert check(path).sound


@pytest.mark.parametrize("after", [0.05, 0.4, 0.9])
def test_a_writer_killed_in_the_middle_leaves_nothing_that_does_not_heal(open_chroma, path, after):
    memory = open_chroma()
    say(memory, "before")
    command = [sys.executable, WRITER, path, "word", "500"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "begun\n"
        time.sleep(after)
        writer.send_signal(signal.SIGKILL)
    memory.flush()
    said = memory.search("word", kinds=("message",), limit=1000)
    assert {hit.text for hit in said} == {"before", *(f"word {n}" for n in range(len(said) - 1))}
    assert mend(path) in ([], *([f"{n} records' vectors taken out of Chroma"] for n in range(1, 9)))
    found = check(path)
    assert (found.sound, found.held) == (True, len(said))


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


def test_while_the_server_is_away_rows_are_saved_and_words_are_searched(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    save(memory, "the disk is full", "coffee without sugar")
    assert memory.flush() == 2
    assert by_meaning(memory.search("disk full", limit=1)[0])
    own_server.kill()
    save(memory, "the disk is empty again")
    hits = memory.search("disk", limit=5)
    assert {hit.text for hit in hits} >= {"the disk is full", "the disk is empty again"}
    refused(IndexUnreachable, "chroma run", memory.flush)
    assert memory.forget(query="coffee").counts == {"message": 1}
    own_server.start()
    assert memory.flush() == 1
    hits = memory.search("disk empty again", limit=1)
    assert hits.notes == ()
    assert by_meaning(hits[0])
    found = check(path, own_server.url)
    assert (found.sound, found.held, found.waiting) == (True, 2, 0)


def test_a_memory_opens_without_its_server(open_chroma, own_server):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, "the disk is full")
    memory.close()
    own_server.kill()
    hits = open_chroma(chroma_url=own_server.url).search("disk", limit=1)
    assert hits[0].text == "the disk is full"
    assert "text search only" in hits.notes[0]
    assert "chroma run" in hits.notes[0]


def test_a_purge_is_refused_while_the_server_is_away(open_chroma, own_server):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, "the disk is full", "coffee")
    own_server.kill()
    raises(IndexUnreachable, memory.forget, query="disk", purge=True)
    own_server.start()
    assert memory.forget(query="disk", purge=True).counts == {"message": 1}
    assert [hit.text for hit in memory.search("disk coffee", limit=5)] == ["coffee"]


def test_no_call_hangs_where_something_listens_and_never_answers(open_chroma, monkeypatch):
    monkeypatch.setattr("jiyi.storage.chroma.connection._SECONDS", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        memory = open_chroma(chroma_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        save(memory, "the disk is full")
        started = time.monotonic()
        raises(IndexUnreachable, memory.flush)
        assert memory.search("disk")[0].text == "the disk is full"
        assert time.monotonic() - started < 10


def test_a_server_killed_while_many_save_leaves_nothing_that_does_not_heal(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            save(memory, f"word {number}")
            number += 1
            try:
                memory.flush()
            except IndexUnreachable:
                time.sleep(0.05)

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(3):
        time.sleep(0.7)
        own_server.kill()
        time.sleep(0.2)
        own_server.start()
    stop.set()
    worker.join()
    memory.flush()
    mend(path, chroma_url=own_server.url)
    memory.flush()
    found = check(path, own_server.url)
    assert found.sound
    assert found.held == len(memory.search("word", limit=1000)) > 0


def test_vectors_that_a_server_lost_are_made_again(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, *(f"word {number}" for number in range(10)))
    own_server.kill()
    shutil.rmtree(own_server.folder / "data")
    own_server.start()
    assert len(check(path, own_server.url).missing) == 10
    assert mend(path, chroma_url=own_server.url) == ["10 records marked as lacking their vectors"]
    assert memory.flush() == 10
    assert by_meaning(memory.search("word 3", limit=1)[0])
    assert check(path, own_server.url).sound
