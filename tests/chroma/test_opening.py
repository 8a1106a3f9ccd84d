"""Which index a memory is opened with, and what is in the way of it."""

import json
import sys

import pytest
from refusing import refused
from typer.testing import CliRunner

from jiyi.cli.app import app
from jiyi.databases import check_database
from jiyi.errors import MissingExtra, SettingsError, StorageError
from jiyi.settings import load_settings
from jiyi.storage import SqliteDatabase
from jiyi.storage.backend import bind_to_chroma, drift, open_backend, repair
from jiyi.storage.place import Place
from jiyi.testing import HashEmbedder

CHROMA = load_settings(vector_index="chroma")


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
    own = load_settings()
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
    first, second = (
        backend.vectors._collections,
        [id_ for piece in backend.vectors._collections.ids(0) for id_ in piece],
    )
    first.erase(0, second[:2])
    with backend.database.write("ana") as db:
        tokens = db.dialect.array([second[4].rpartition(".")[0]])
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
    assert repair(place, own) == ["5 records wait to be embedded again"]
    with open_chroma(postgres_url, vector_index="own") as memory:
        assert memory.flush() == 5
        assert memory.search("word 4", limit=1)[0].text == "word 4"
