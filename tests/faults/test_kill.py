"""Killed at any moment: what was acknowledged is there, and the parts of the file agree."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest
from samples import by_words

import jiyi
from jiyi.records import Query, Scope
from jiyi.short_term.summaries import Summaries
from jiyi.testing import HashEmbedder

KILLS = 36
WRITERS = Path(__file__).with_name("writer_to_kill.py")


@pytest.fixture(scope="module")
def killed_after():
    """Start a writer on a file, kill it after some seconds; return the ids of what it was promised.

    Those of messages, and those of versions of summaries.
    """
    forker = subprocess.Popen(
        [sys.executable, str(WRITERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )

    def heard():
        """Return the words of the next line; empty ones stand where a writer died."""
        while not (words := (line := forker.stdout.readline()).split()):
            assert line, "the writers' parent is gone"
        return words

    assert heard() == ["ready"]

    def kill(path, number, seconds):
        forker.stdin.write(f"{number} {path}\n")
        forker.stdin.flush()
        time.sleep(seconds)
        saved, folded = [], []
        while (words := heard()) != ["gone"]:
            match words:
                case ["started", pid]:
                    os.kill(int(pid), signal.SIGKILL)
                case ["saved", id_, "."]:
                    saved.append(id_)
                case ["folded", id_, "."]:
                    folded.append(id_)
        return saved, folded

    yield kill
    forker.communicate(timeout=30)


@pytest.fixture(scope="module")
def survived(tmp_path_factory, killed_after):
    """One file that many processes wrote to until each was killed; and the ids of what they were promised."""
    path = tmp_path_factory.mktemp("kill") / "agent.db"
    seeded, promised, folded = random.Random(502), [], []
    for number in range(KILLS):
        # The first ones die while the file is being made, the others at any moment of writing.
        seconds = 0.002 * number if number < 6 else seeded.uniform(0.02, 0.5)
        if number == KILLS - 1:  # it embeds nothing, and must have saved something
            seconds = 0.5
        saved, made = killed_after(path, number, seconds)
        promised += saved
        folded += made
    return path, promised, folded


def rows(path, sql):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_enough_was_written_to_mean_something(survived):
    _, promised, folded = survived
    assert len(promised) > 200
    assert len(set(promised)) == len(promised)
    assert len(folded) > 10


def test_every_acknowledged_message_is_there_and_found_by_its_own_word(survived):
    path, promised, _ = survived
    with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        store = memory._store
        scope = Scope(user_id="ana")
        stored = store.find(Query(scope=scope, kinds=("message",), limit=10_000))
        assert set(promised) <= {m.id for m in stored}
        assert len({m.id for m in stored}) == len(stored)
        for session in store.find(Query(scope=scope, kinds=("session",), limit=100)):
            mine = [m for m in stored if m.scope.session_id == session.id]
            assert sorted(m.seq for m in mine) == list(range(len(mine))), "no gap and nothing twice"
            assert session.messages == len(mine)
        for message in stored:
            word = f"w{message.id.replace('-', 'q')}"
            assert by_words(store, Query(scope=scope, text=word)) == [message.id]


def test_every_acknowledged_summary_is_there_and_whole(survived):
    path, _, folded = survived
    with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        summaries = Summaries(memory._store)
        known = set()
        for session in ("one", "two"):
            scope = Scope(user_id="ana", session_id=session)
            made, said = summaries.versions(scope), summaries.unfolded(scope, limit=10_000)
            assert [s.version for s in made] == list(range(1, len(made) + 1)), "no gap and nothing twice"
            assert [id_ for s in made for id_ in s.covers] == [m.id for m in said[: 4 * len(made)]]
            assert made[-1].text.split() == [id_ for s in made for id_ in s.covers], (
                "each holds the one before"
            )
            known |= {s.id for s in made}
        assert set(folded) <= known
        covered = rows(path, "SELECT count(*), count(DISTINCT message) FROM covered")
        assert covered == [(4 * len(known), 4 * len(known))]


def test_text_index_and_vectors_agree_with_the_rows(survived):
    path, *_ = survived
    with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        assert rows(path, "PRAGMA integrity_check") == [("ok",)]
        assert rows(path, "PRAGMA foreign_key_check") == []
        documents = {doc for (doc,) in rows(path, "SELECT doc FROM documents")}
        assert {doc for (doc,) in rows(path, "SELECT doc FROM terms")} == documents
        assert {doc for (doc,) in rows(path, "SELECT doc FROM messages")} == documents
        states = "SELECT doc, vector_state = 'ready', doc IN (SELECT doc FROM vectors) FROM documents"
        before = rows(path, states)
        assert all(ready == has for _, ready, has in before)
        assert {ready for _, ready, _ in before} == {0, 1}, "some were embedded, some were left"
        assert memory.flush() == sum(not ready for _, ready, _ in before)
        assert all(ready and has for _, ready, has in rows(path, states))
        assert memory.stats()["vectors_pending"] == 0


def test_a_file_killed_while_it_was_made_is_still_ours(tmp_path, killed_after):
    """The first bytes of a file must already say whose it is."""
    for number in range(16):
        path = tmp_path / f"{number}.db"
        promised, _ = killed_after(path, number, 0.0015 * number)
        with jiyi.open(path, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
            assert memory.stats()["message"] >= len(promised)
            memory.save_message("s", role="user", content="still here")
            assert len(memory.search("still")) == 1
