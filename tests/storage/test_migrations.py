"""Older files: opened by this jiyi they hold what they held, at the newest schema."""

import threading
from contextlib import closing

import apsw
import numpy as np
import pytest
from first_schema import make_first_schema
from refusing import refused
from samples import by_words, fact, message, summary
from second_schema import TARGETS, make_second_schema
from tables import read_tables
from third_schema import make_third_schema

from jiyi.errors import DatabaseDamaged, DatabaseLocked
from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, SqliteVectors, Store, Trash
from jiyi.storage.sql import load_migrations
from jiyi.storage.sqlite import migrate as sqlite_migrate
from jiyi.storage.sqlite.connection import SqliteConnection
from jiyi.testing import HashEmbedder
from jiyi.text.traits import traits

NEWEST = 10
OLDER = pytest.mark.parametrize("make", [make_first_schema, make_second_schema, make_third_schema])


def rows(path, sql):
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture
def opened(path):
    databases = []

    def open_it():
        databases.append(SqliteDatabase(path))
        return Store(databases[-1])

    yield open_it
    for database in databases:
        database.close()


def test_a_file_of_the_first_schema_is_found_whole(path, opened):
    ids = make_first_schema(path, ["ana", "ben"])
    store = opened()
    for user in ("ana", "ben"):
        scope = Scope(user_id=user)
        assert {r.id for r in store.find(Query(scope=scope, limit=100))} == {*ids[user]}
        for id_ in ids[user][:5]:
            assert by_words(store, Query(scope=scope, text=f"w{id_}")) == [id_]
        assert by_words(store, Query(scope=scope, text="日志")) == ["e"]
        assert by_words(store, Query(scope=scope, text="certificate 证书")) == ["k"]
        found = store.match(Query(scope=scope, text="502"))
        assert found.total == 7
        assert sorted(found.speakers) == ["Bob", "user"]
    assert "7 records" not in store._db.check()
    assert "14 records" in store._db.check()
    assert rows(path, "SELECT generation FROM owners") == [(8,), (8,)]


def test_a_file_of_the_second_schema_is_found_whole(path, opened):
    ids = make_second_schema(path, ["ana", "ben"])
    store = opened()
    vectors = SqliteVectors(store._db)
    for user in ("ana", "ben"):
        scope = Scope(user_id=user)
        assert {r.id for r in store.find(Query(scope=scope, limit=100))} == {*ids[user]}
        for id_ in ids[user][:5]:
            assert by_words(store, Query(scope=scope, text=f"w{id_}")) == [id_]
        episodes = {e.id: e for e in store.find(Query(scope=scope, kinds=("episode",)))}
        assert {e.id: e.target for e in episodes.values()} == TARGETS
        assert [e.access_count for e in episodes.values()] == [2] * 4
        meeting = store.find(Query(scope=scope, target="Nginx-Container"))
        assert {e.id for e in meeting} == {"e0", "e1"}
        assert [e.id for e in store.find(Query(scope=scope, consolidated=True))] == ["e0"]
        assert sorted(store.targets(Query(scope=scope)).values()) == [1, 1, 2]
        for source, lesson in (("e0", "k0"), ("e1", "k0"), ("e2", "k1")):
            assert [k.id for k in store.find(Query(scope=scope, sources=(source,)))] == [lesson]
        assert store.find(Query(scope=scope, sources=("5", "e3"))) == []
        found = store.match(Query(scope=scope, text="502 disk certificates"))
        said = dict(zip((id_ for _, id_ in found.keys), found.traits.tolist(), strict=True))
        every = store.find(Query(scope=scope, limit=100))
        assert said == {r.id: int(traits(r.search_text)) for r in every}
        assert any(said.values())
        near = vectors.nearest(Query(scope=scope), np.array([1, 0], np.float32))
        assert {m.id for m in near} == {*TARGETS, "k0", "k1"}
    assert "22 records, 10 without" in store._db.check()
    assert rows(path, "SELECT generation FROM owners") == [(8,), (8,)]


def test_a_file_of_the_third_schema_is_found_whole(path, opened):
    ids = make_third_schema(path, ["ana", "ben"])
    before = rows(path, "SELECT * FROM documents"), rows(path, "SELECT * FROM terms ORDER BY doc")
    assert rows(path, "PRAGMA user_version") == [(3,)]
    store = opened()
    trash = Trash(store._db)
    assert (rows(path, "SELECT * FROM documents"), rows(path, "SELECT * FROM terms ORDER BY doc")) == before
    for user in ("ana", "ben"):
        scope = Scope(user_id=user)
        assert {r.id for r in store.find(Query(scope=scope, limit=100))} == {*ids[user]}
        assert by_words(store, Query(scope=scope, text=f"w{ids[user][0]}")) == [ids[user][0]]
        assert [k.id for k in store.find(Query(scope=scope, sources=("e1",)))] == ["k0"]
        (back,) = trash.restore(scope, [("message", "lying")])
        assert (back.seq, back.text) == (5, "out already")
        assert store.put([message("next", user=user)])[0].seq == 6
    assert "26 records" in store._db.check()


@OLDER
def test_a_migrated_file_takes_summaries(path, opened, make):
    ids = make(path, ["ana"])["ana"]
    said = [id_ for id_ in ids if "q" in id_]
    store = opened()
    (first,) = store.put([summary(None, said[:2], 1)])
    store.close()
    store = opened()
    (second,) = store.put([summary(first, said[2:], 4)])
    assert store.find(Query(scope=first.scope, kinds=("summary",))) == [first, second]
    assert store.find(Query(scope=first.scope, kinds=("summary",), sources=(said[3],))) == [second]
    assert "2 summaries" in store._db.check()
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert rows(path, "PRAGMA foreign_key_check") == []


@OLDER
def test_a_migrated_file_takes_facts_and_nothing_unknown(path, opened, make):
    """The list of kinds is changed in the stored schema: it must hold at once, and ever after."""
    make(path, ["ana"])
    for count in (1, 2):  # in the connection that migrated, and in later ones
        store = opened()
        (kept,) = store.put([fact(id=f"f{count}")])
        assert store.find(Query(scope=kept.scope, kinds=("fact",), ids=(kept.id,))) == [kept]
        assert store.count(Query(scope=kept.scope, kinds=("fact",)))["fact"] == count
        odd = "UPDATE documents SET kind = 'dream' WHERE kind = 'fact'"
        refused(apsw.ConstraintError, "CHECK", store._db._writer.raw.execute, odd)
        refused(apsw.ConstraintError, "CHECK", rows, path, odd)
        assert rows(path, "PRAGMA integrity_check") == [("ok",)]
        assert rows(path, "PRAGMA foreign_key_check") == []
        store._db.check()
        store.close()


@OLDER
def test_a_connection_that_was_open_before_sees_the_new_schema(path, opened, make):
    make(path, ["ana"])
    early = apsw.Connection(str(path))
    (before,) = early.execute("SELECT count(*) FROM documents").fetchone()
    opened()
    early.execute(
        "INSERT INTO documents (user_id, kind, id, created_at, vector_state) "
        "VALUES ('x', 'fact', 'x', 0, 'none')"
    )
    assert early.execute("SELECT count(*) FROM documents").fetchone() == (before + 1,)
    assert early.execute("SELECT count(*) FROM facts").fetchone() == (0,)
    early.close()


@OLDER
def test_a_migrated_file_is_as_one_made_and_written_today(path, tmp_path, opened, make):
    make(path, ["ana", "ben"])
    store = opened()
    records = [r for user in ("ana", "ben") for r in store.find(Query(scope=Scope(user_id=user), limit=100))]
    other = SqliteDatabase(tmp_path / "today.db")
    Store(other).put(records)
    same = read_tables(__file__)["what a file made today holds too"]
    if make is make_third_schema:  # what lies in the trash is in no table that search reads
        rows(path, "DELETE FROM trash")
    assert len(rows(path, same[2])) == (2 if make is make_first_schema else 8)
    assert len(rows(path, same[3])) == (0 if make is make_first_schema else 6)
    for sql in same:
        assert rows(path, sql) == rows(tmp_path / "today.db", sql)
    assert rows(path, "PRAGMA user_version") == [(NEWEST,)]
    assert len(load_migrations("sqlite")) == NEWEST
    other.close()


@pytest.mark.parametrize(("make", "records"), [(make_first_schema, 17), (make_second_schema, 21)])
def test_texts_are_read_once_in_batches(path, opened, monkeypatch, make, records):
    make(path, ["ana"], more=10)
    read, sizes = SqliteConnection.records, []

    def counted(db, name, values, **parts):
        batch = read(db, name, values, **parts)
        if parts["where"] == "d.doc > :after":
            sizes.append(len(batch))
        return batch

    monkeypatch.setattr(sqlite_migrate, "_BATCH", 4)
    monkeypatch.setattr(SqliteConnection, "records", counted)
    assert f"{records} records" in opened()._db.check()
    assert sum(sizes) == records
    assert max(sizes) == 4


@pytest.fixture
def fail_at(opened, monkeypatch):
    """Open the file while one function of the migration fails."""

    def failing(_):
        raise LookupError("on the way")

    def open_it(name):
        with monkeypatch.context() as patched:
            patched.setattr(sqlite_migrate, name, failing)
            refused(LookupError, "on the way", opened)

    return open_it


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, opened, fail_at):
    make_first_schema(path, ["ana"])
    fail_at("encode_terms")
    assert rows(path, "PRAGMA user_version") == [(1,)]
    assert rows(path, "SELECT count(*) FROM search WHERE search MATCH 'disk'") == [(1,)]
    assert by_words(opened(), Query(scope=Scope(user_id="ana"), text="disk")) == ["e"]


def test_a_last_step_that_fails_leaves_the_second_schema_as_it_was(path, opened, fail_at):
    make_second_schema(path, ["ana"])
    before = rows(path, "SELECT name, sql FROM sqlite_schema ORDER BY 1")
    fail_at("entity_key")
    assert rows(path, "PRAGMA user_version") == [(2,)]
    assert rows(path, "SELECT name, sql FROM sqlite_schema ORDER BY 1") == before
    assert rows(path, "SELECT max(traits) FROM terms") == [(0,)]
    assert len(opened().find(Query(scope=Scope(user_id="ana"), target="web-7"))) == 1


def test_opening_waits_longer_for_a_migration_than_for_other_writes(path, hold):
    make_second_schema(path, ["ana"])
    timer = threading.Timer(0.3, hold())
    timer.start()
    SqliteDatabase(path, lock_timeout=0.05).close()
    assert rows(path, "PRAGMA user_version") == [(NEWEST,)]
    timer.join()


def test_a_migration_waits_no_longer_than_it_says(path, hold, monkeypatch):
    make_second_schema(path, ["ana"])
    monkeypatch.setattr(sqlite_migrate, "MIGRATION_SECONDS", 0.2)
    release = hold()
    refused(DatabaseLocked, "more than 0.05 s", SqliteDatabase, path, lock_timeout=0.05)
    assert rows(path, "PRAGMA user_version") == [(2,)]
    release()


def test_vectors_of_an_older_file_follow(path, open_memory):
    make_first_schema(path, ["ana"])
    memory = open_memory()
    assert memory.flush() == 7
    assert memory.search("nginx 502")[0].kind == "message"
    assert HashEmbedder().name in rows(path, "SELECT value FROM meta WHERE name = 'embedder_name'")[0]


@pytest.mark.parametrize(("damage", "name"), read_tables(__file__)["damages"])
def test_parts_that_disagree_with_the_rows_are_told(path, opened, damage, name):
    make_first_schema(path, ["ana", "ben"])
    store = opened()
    store._db.check()
    rows(path, damage)
    refused(DatabaseDamaged, name, store._db.check)
