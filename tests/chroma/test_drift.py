"""Where Chroma and the rows disagree: told in figures, mended; and what is in the way of opening with it."""

import json
import sys
from dataclasses import replace

import apsw
import numpy as np
import pytest
from refusing import raises, refused
from typer.testing import CliRunner

from jiyi.cli.app import app
from jiyi.databases import check_database
from jiyi.errors import IndexUnreachable, MissingExtra, SettingsError, StorageError
from jiyi.records import Query, Scope
from jiyi.settings import load_settings
from jiyi.storage import SqliteDatabase
from jiyi.storage.backend import bind_to_chroma, drift, open_backend, repair
from jiyi.storage.place import Place
from jiyi.storage.vectors import VectorRow
from jiyi.testing import HashEmbedder

CHROMA = load_settings(vector_index="chroma")


def item(**fields):
    from jiyi.storage.chroma.collections import Item  # asks for chromadb, without which this file is skipped

    return Item(**fields)


@pytest.fixture
def filled(open_chroma):
    memory = open_chroma()
    for number in range(8):
        memory.save_message("s", {"role": "user", "content": f"word {number}"})
    memory.flush()
    return memory


@pytest.fixture
def inside(path):
    """What is under a memory."""
    backend = open_backend(Place(path=path), CHROMA)
    yield backend
    backend.store.close()


def run(path, statement):
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5_000)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def mended(path):
    found = drift(Place(path=path), CHROMA)
    return found.sound and found.waiting == 0


def test_vectors_of_no_record_are_removed(filled, inside, path):
    two = np.eye(64, dtype=np.float32)[:2]
    stray = item(token="stray", user_id="ana", doc=1, kind="message", vectors=two)
    inside.vectors._collections.add(0, [stray])
    found = drift(Place(path=path), CHROMA)
    assert found.stray == ((0, "stray.0"), (0, "stray.1"))
    assert "2 vectors of no record" in str(found)
    assert drift(Place(path=path), CHROMA) == found, "looking changes nothing"
    assert repair(Place(path=path), CHROMA) == ["2 vectors of no record removed from Chroma"]
    assert mended(path)
    assert repair(Place(path=path), CHROMA) == []


def test_records_without_their_vectors_wait_for_new_ones(filled, inside, path):
    (tokens,) = [[row[0] for row in run(path, "SELECT token FROM chroma_items ORDER BY doc LIMIT 3")]]
    inside.vectors._collections.erase(0, [f"{token}.0" for token in tokens])
    assert len(drift(Place(path=path), CHROMA).missing) == 3
    assert repair(Place(path=path), CHROMA) == ["3 records marked as lacking their vectors"]
    assert inside.store.count(Query(scope=Scope(user_id="ana")))["vectors_pending"] == 3
    assert filled.flush() == 3
    assert mended(path)


def test_rows_that_disagree_among_themselves_are_mended_too(filled, path):
    run(path, "DELETE FROM chroma_items WHERE doc = (SELECT min(doc) FROM documents)")
    run(path, "DROP TRIGGER chroma_gone")
    run(path, "DELETE FROM vectors WHERE doc = (SELECT max(doc) FROM documents)")
    assert not drift(Place(path=path), CHROMA).sound
    assert "1 records marked as lacking their vectors" in repair(Place(path=path), CHROMA)
    assert filled.flush() == 2
    assert mended(path)
    filled.forget(query="word 3")
    assert mended(path), "the trigger is there again"


def test_a_collection_that_no_set_is_in_goes(filled, inside, path):
    old = item(token="old", user_id="ana", doc=1, kind="message", vectors=np.eye(8, dtype=np.float32)[:1])
    inside.vectors._collections.add(7, [old])
    assert drift(Place(path=path), CHROMA).unused == (7,)
    assert repair(Place(path=path), CHROMA) == ["1 unused collections removed"]
    assert mended(path)


def test_however_a_record_goes_its_vectors_go(open_chroma, inside, path):
    memory = open_chroma()
    task = memory.start_task("s", request="restart nginx")
    memory.add_step(task.id, "docker restart nginx", tool_name="shell")
    memory.complete_task(task.id, outcome="success", summary="it runs again")
    memory.save_message("s", {"role": "user", "content": "I like tea"})
    memory.remember("The office is in Paris")
    memory.flush()
    held = drift(Place(path=path), CHROMA).held
    assert held >= 3
    known = inside.store.find(Query(scope=Scope(user_id="ana"), kinds=("episode",)))[0]
    inside.store.put([replace(known, outcome_summary="other words")])
    memory.flush()
    assert drift(Place(path=path), CHROMA).held == held
    assert mended(path)
    memory.forget(everything=True)
    found = drift(Place(path=path), CHROMA)
    assert (found.sound, found.held, found.waiting) == (True, 0, 0)
    assert list(inside.vectors._collections.ids(0)) == [[]]


def test_what_comes_back_from_the_trash_waits_for_its_vector(filled, path):
    gone = filled.forget(query="word 3").items[0]
    assert drift(Place(path=path), CHROMA).held == 7
    filled.restore(gone.id)
    assert filled.flush() == 1
    found = drift(Place(path=path), CHROMA)
    assert (found.sound, found.held) == (True, 8)
    assert filled.search("word 3", limit=1)[0].text == "word 3"


def test_deletions_that_chroma_did_not_hear_of_are_done_by_who_looks_next(filled, inside, path, monkeypatch):
    def away(*args):
        raise IndexUnreachable("away")

    with monkeypatch.context() as patch:
        patch.setattr(type(inside.vectors._collections), "erase", away)
        filled.forget(query="word 3")
        assert drift(Place(path=path), CHROMA).waiting == 1
    assert [m.id for m in inside.vectors.nearest(Query(scope=Scope(user_id="ana"), limit=9), embed("word 3"))]
    assert mended(path)


def test_vectors_that_are_on_their_way_too_long_are_not_taken(filled, inside, path, monkeypatch):
    """A process stops between sending vectors and marking their record; another one cleans up meanwhile."""
    filled.save_message("s", {"role": "user", "content": "late"})
    late = type(inside.vectors)(inside.database, inside.vectors._collections, now=lambda: 0.0)
    (item,) = inside.vectors.pending(10, leased=False)
    send = late._collections.add

    def slowly(space, items):
        send(space, items)
        inside.vectors._outbox.drain()  # by its clock the two minutes are over

    monkeypatch.setattr(late._collections, "add", slowly)
    assert late.add([VectorRow(key=item.key, vectors=embed("late")[None, :])]) == 0
    assert inside.store.count(Query(scope=Scope(user_id="ana")))["vectors_pending"] == 1
    monkeypatch.undo()
    assert filled.flush() == 1
    assert mended(path)


def test_what_an_undone_transaction_sent_is_taken_out(inside, path):
    from samples import message

    def undone():
        with inside.store.transaction():
            inside.store.put([message("never", id="never")])
            (item,) = inside.vectors.pending(10, leased=False)
            assert inside.vectors.add([VectorRow(key=item.key, vectors=embed("never")[None, :])]) == 1
            raise LookupError

    raises(LookupError, undone)
    assert any(inside.vectors._collections.ids(0))
    inside.vectors._outbox.drain()
    assert not any(inside.vectors._collections.ids(0))
    assert mended(path)


def embed(text):
    return HashEmbedder().embed([text], "passage")[0]


@pytest.fixture
def doctor(monkeypatch, path):
    def run(*options):
        monkeypatch.setenv("JIYI_VECTOR_INDEX", "chroma")
        monkeypatch.setattr("jiyi.cli.doctor.embedder_for", lambda settings: HashEmbedder())
        result = CliRunner().invoke(app, ["doctor", "--db", str(path), "--json", *options])
        checks = json.loads(result.stdout)["checks"]
        return result.exit_code, {check["name"]: check for check in checks}

    return run


def test_the_missing_package_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "chromadb", None)
    refused(MissingExtra, r'pip install "jiyi\[chroma\]"', open_backend, Place(path=path), CHROMA)
    assert not path.exists()


def test_beside_a_server_chroma_has_to_be_named(postgres_url):
    refused(SettingsError, "chroma_url", open_backend, Place(url=postgres_url), CHROMA)


def test_tables_on_several_machines_are_refused(path):
    class Spread(SqliteDatabase):
        citus = True

    database = Spread(path)
    refused(StorageError, "Citus", bind_to_chroma, database)
    database.close()


def test_doctor_tells_of_drift_and_repairs_it(open_chroma, path, doctor):
    with open_chroma() as memory:
        for number in range(4):
            memory.save_message("s", {"role": "user", "content": f"word {number}"})
        memory.flush()
    assert doctor()[1]["vectors"]["ok"]
    backend = open_backend(Place(path=path), CHROMA)
    backend.vectors._collections.drop(0)
    backend.store.close()
    code, checks = doctor()
    assert code == 1
    assert "4 records with vectors in Chroma, 4 of them without all of theirs" in checks["vectors"]["detail"]
    assert "doctor --repair" in checks["vectors"]["fix"]
    _, checks = doctor("--repair")
    assert checks["repair"]["detail"] == "4 records marked as lacking their vectors"
    assert checks["vectors"]["ok"]
    assert check_database(path).endswith("4 records, 4 without vectors yet")


def test_beside_postgres_it_is_mended_and_moved_too(open_chroma, postgres_url, tmp_path):
    place = Place(url=postgres_url)
    chroma = load_settings(vector_index="chroma", chroma_path=tmp_path / "folder")
    with open_chroma(postgres_url, vector_index="own") as memory:
        for number in range(6):
            memory.save_message("s", {"role": "user", "content": f"word {number}"})
        assert memory.flush() == 6
    assert repair(place, chroma) == ["6 records wait to be embedded again"]
    with open_chroma(postgres_url, chroma_path=tmp_path / "folder") as memory:
        assert memory.flush() == 6
        memory.forget(query="word 3", purge=True)
    found = drift(place, chroma)
    assert (found.sound, found.held, found.waiting) == (True, 5, 0)
    backend = open_backend(place, chroma)
    collections = backend.vectors._collections
    ids = [id_ for piece in collections.ids(0) for id_ in piece]
    collections.erase(0, ids[:2])
    with backend.database.write("ana") as db:
        tokens = db.dialect.array([ids[4].rpartition(".")[0]])
        db.run("chroma_mark_going", {"user_id": "ana", "tokens": tokens})
        db.run("chroma_delete", {"user_id": "ana", "tokens": tokens})
    backend.store.close()
    found = drift(place, chroma)
    assert (len(found.missing), len(found.stray)) == (3, 1)
    assert repair(place, chroma) == [
        "3 records marked as lacking their vectors",
        "1 vectors of no record removed from Chroma",
    ]
    with open_chroma(postgres_url, chroma_path=tmp_path / "folder") as memory:
        assert memory.flush() == 3
    assert drift(place, chroma).sound
    assert repair(place, load_settings()) == ["5 records wait to be embedded again"]
    with open_chroma(postgres_url, vector_index="own") as memory:
        assert memory.flush() == 5
        assert memory.search("word 4", limit=1)[0].text == "word 4"
