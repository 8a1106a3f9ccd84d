"""Chroma on a server: away, back, killed, restarted empty."""

import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from jiyi.errors import IndexUnreachable
from jiyi.settings import load_settings
from jiyi.storage.backend import drift, repair
from jiyi.storage.place import Place

WRITER = Path(__file__).with_name("writer.py")


def say(memory, *words):
    for text in words:
        memory.save_message("s", {"role": "user", "content": text})


def by_meaning(hit):
    return bool({"meaning", "apart", "first_by_meaning"}.intersection(hit.why))


def settings(server):
    return load_settings(vector_index="chroma", chroma_url=server.url)


def test_while_the_server_is_away_rows_are_saved_and_words_are_searched(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, "the disk is full", "coffee without sugar")
    assert memory.flush() == 2
    assert by_meaning(memory.search("disk full", limit=1)[0])
    own_server.kill()
    say(memory, "the disk is empty again")
    hits = memory.search("disk", limit=5)
    assert {hit.text for hit in hits} >= {"the disk is full", "the disk is empty again"}
    with pytest.raises(IndexUnreachable, match="chroma run"):
        memory.flush()
    assert memory.forget(query="coffee").counts == {"message": 1}
    own_server.start()
    assert memory.flush() == 1
    hits = memory.search("disk empty again", limit=1)
    assert hits.notes == ()
    assert by_meaning(hits[0])
    found = drift(Place(path=path), settings(own_server))
    assert (found.sound, found.held, found.waiting) == (True, 2, 0)


def test_a_memory_opens_without_its_server(open_chroma, own_server):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, "the disk is full")
    memory.flush()
    memory.close()
    own_server.kill()
    again = open_chroma(chroma_url=own_server.url)
    hits = again.search("disk", limit=1)
    assert hits[0].text == "the disk is full"
    assert "text search only" in hits.notes[0]
    assert "chroma run" in hits.notes[0]


def test_a_purge_is_refused_while_the_server_is_away(open_chroma, own_server):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, "the disk is full", "coffee")
    memory.flush()
    own_server.kill()
    with pytest.raises(IndexUnreachable):
        memory.forget(query="disk", purge=True)
    own_server.start()
    assert memory.forget(query="disk", purge=True).counts == {"message": 1}
    assert [hit.text for hit in memory.search("disk coffee", limit=5)] == ["coffee"]


def test_no_call_hangs_where_something_listens_and_never_answers(open_chroma, monkeypatch):
    monkeypatch.setattr("jiyi.storage.chroma.connection._SECONDS", 0.3)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        memory = open_chroma(chroma_url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        say(memory, "the disk is full")
        started = time.monotonic()
        with pytest.raises(IndexUnreachable):
            memory.flush()
        assert memory.search("disk")[0].text == "the disk is full"
        assert time.monotonic() - started < 10


def test_a_server_killed_while_many_save_leaves_nothing_that_does_not_heal(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            say(memory, f"word {number}")
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
    repair(Place(path=path), settings(own_server))
    memory.flush()
    found = drift(Place(path=path), settings(own_server))
    assert found.sound
    assert found.held == len(memory.search("word", limit=1000)) > 0


def test_vectors_that_a_server_lost_are_made_again(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    say(memory, *(f"word {number}" for number in range(10)))
    memory.flush()
    own_server.kill()
    shutil.rmtree(own_server.folder / "data")
    own_server.start()
    place = Place(path=path)
    assert len(drift(place, settings(own_server)).missing) == 10
    assert repair(place, settings(own_server)) == ["10 records marked as lacking their vectors"]
    assert memory.flush() == 10
    assert by_meaning(memory.search("word 3", limit=1)[0])
    assert drift(place, settings(own_server)).sound


def test_processes_share_a_server(open_chroma, own_server, path):
    memory = open_chroma(chroma_url=own_server.url)
    writers = [
        subprocess.Popen([sys.executable, str(WRITER), str(path), name, "10", own_server.url])
        for name in ("one", "two")
    ]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    for name in ("one", "two"):
        for number in range(10):
            hit = memory.search(f"{name} {number}", limit=1)[0]
            assert (hit.text, by_meaning(hit)) == (f"{name} {number}", True)
    found = drift(Place(path=path), settings(own_server))
    assert (found.sound, found.held) == (True, 20)
