"""Older files: opened by this jiyi they hold what they held, at the newest schema."""

import apsw
import pytest
from first_schema import make_first_schema
from samples import by_words

from jiyi.errors import DatabaseDamaged
from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, SqliteStore, sqlite_migrate
from jiyi.storage.sql import load_migrations
from jiyi.testing import HashEmbedder

NEWEST = 2


def rows(path, sql):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


@pytest.fixture
def opened(path):
    databases = []

    def open_it():
        databases.append(SqliteDatabase(path))
        return SqliteStore(databases[-1])

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
    assert rows(path, "SELECT generation FROM owners") == [(7,), (7,)]


def test_a_migrated_file_is_as_one_made_and_written_today(path, tmp_path, opened):
    make_first_schema(path, ["ana", "ben"])
    store = opened()
    records = [r for user in ("ana", "ben") for r in store.find(Query(scope=Scope(user_id=user), limit=100))]
    other = SqliteDatabase(tmp_path / "today.db")
    SqliteStore(other).put(records)
    schema = (
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    )
    terms = (
        "SELECT d.user_id, d.kind, d.id, o.user_id, t.length, t.traits, t.speaker, t.entry "
        "FROM terms AS t JOIN documents AS d USING (doc) JOIN owners AS o USING (owner) ORDER BY 1, 2, 3"
    )
    for sql in (schema, terms, "PRAGMA user_version", "PRAGMA application_id"):
        assert rows(path, sql) == rows(tmp_path / "today.db", sql)
    assert rows(path, "PRAGMA user_version") == [(NEWEST,)]
    assert len(load_migrations("sqlite")) == NEWEST
    other.close()


def test_texts_are_read_in_batches(path, opened, monkeypatch):
    make_first_schema(path, ["ana"], more=10)
    read, sizes = sqlite_migrate.read_documents, []

    def counted(*args):
        batch = read(*args)
        sizes.append(len(batch))
        return batch

    monkeypatch.setattr(sqlite_migrate, "_BATCH", 4)
    monkeypatch.setattr(sqlite_migrate, "read_documents", counted)
    assert "17 records" in opened()._db.check()
    assert sum(sizes) == 17
    assert max(sizes) == 4


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, opened, monkeypatch):
    make_first_schema(path, ["ana"])

    def failing(_):
        raise LookupError("on the way")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_migrate, "encode_terms", failing)
        with pytest.raises(LookupError, match="on the way"):
            opened()
    assert rows(path, "PRAGMA user_version") == [(1,)]
    assert rows(path, "SELECT count(*) FROM search WHERE search MATCH 'disk'") == [(1,)]
    assert by_words(opened(), Query(scope=Scope(user_id="ana"), text="disk")) == ["e"]


def test_vectors_of_an_older_file_follow(path, open_memory):
    make_first_schema(path, ["ana"])
    memory = open_memory()
    assert memory.flush() == 7
    assert memory.search("nginx 502")[0].kind == "message"
    assert HashEmbedder().name in rows(path, "SELECT value FROM meta WHERE name = 'embedder_name'")[0]


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        ("DELETE FROM terms WHERE doc = 1", "1 rows without terms"),
        ("DELETE FROM documents WHERE doc = 1", "1 terms without rows"),
        ("UPDATE terms SET owner = 2 WHERE doc = 1", "1 terms without rows"),
    ],
)
def test_a_text_index_that_disagrees_with_the_rows_is_told(path, opened, damage, name):
    make_first_schema(path, ["ana", "ben"])
    store = opened()
    store._db.check()
    rows(path, damage)
    with pytest.raises(DatabaseDamaged, match=name):
        store._db.check()
