"""The schema: made once by however many processes, refused where it is not ours, spread over machines."""

import re
import threading
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import psycopg
import pytest
from other_processes import begin_together
from postgres.every_verb import traced, use_every_verb
from psycopg.rows import dict_row
from refusing import refused
from samples import ANA, message
from tables import read_tables

from jiyi.clock import utc_from_micros
from jiyi.errors import DatabaseReadOnly, ForeignDatabase, NewerDatabase, StorageError, WrongState
from jiyi.records import Query, Scope
from jiyi.storage import Due, Ledger, Store
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors, cluster
from jiyi.storage.postgres import migrate as module
from jiyi.storage.postgres.cluster import distribute_tables
from jiyi.storage.postgres.migrate import distribute, pending_steps, read_server_info, statements, tables
from jiyi.storage.postgres.pool import connect
from jiyi.storage.postgres.statements import set_tenant
from jiyi.storage.sql import load_migrations

TABLES = read_tables(__file__)


def migrate(url):
    """Open a database, and return what that was to do."""
    steps = pending_steps(url)
    PostgresDatabase(url).close()
    return steps


def described(url: str) -> dict[str, list[str]]:
    asked = TABLES["what makes a table what it is, as the server itself writes it down"]
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return {name: sorted(map(str, connection.execute(words).fetchall())) for name, words in asked}


ALL_STEPS = [f"bring the tables to schema {number}" for number in (1, 2, 3, 4, 5)]


def order(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def other_database(server, template: str | None) -> Iterator[str]:
    url = server.make(template)
    yield url
    server.drop(url)


@pytest.mark.slow
def test_the_migrations_make_what_is_described(empty_postgres_url, postgres_server):
    assert migrate(empty_postgres_url) == ALL_STEPS
    with other_database(postgres_server, "jiyi_empty") as url:
        order(url, files("jiyi.storage.sql.postgres").joinpath("schema.sql").read_text("utf-8"))
        wanted = described(url)
    assert len(wanted["tables"]) == len(tables()) == 19
    assert described(empty_postgres_url) == wanted


def test_every_table_of_users_has_its_tenant_in_front_and_a_wall(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        walled, keys = (connection.execute(asked).fetchall() for asked in TABLES["walls and keys"])
    assert {name for (name,) in walled} == set(tables()) - {"meta"}
    assert len(keys) > 25
    for table, key in keys:
        if table != "meta":
            assert key.split("(")[1].startswith("tenant_id"), f"{table}: {key}"
            assert "REFERENCES" not in key or key.split("(")[2].startswith("tenant_id"), f"{table}: {key}"


def test_a_database_of_the_first_schema_is_kept_whole_and_read_from_its_beginning(empty_postgres_url):
    order(empty_postgres_url, *statements(load_migrations("postgres")[1]))
    order(empty_postgres_url, *TABLES["a memory of the first schema"])
    assert pending_steps(empty_postgres_url) == ALL_STEPS[1:]
    database = PostgresDatabase(empty_postgres_url)
    (kept,) = Store(database).find(Query(scope=Scope(user_id="ana"), kinds=("message",)))
    assert kept.text == "tea"
    readings = Ledger(database)
    assert readings.unread("ana") == 1
    due = Due(now=utc_from_micros(3_000_000), messages=20, pause=timedelta(seconds=1))
    claim = readings.claim(due, until=utc_from_micros(9_000_000))
    assert claim is not None
    assert (claim.scope.session_id, claim.next_seq, claim.upto) == ("s", 0, 1)
    database.close()


@pytest.mark.slow
def test_ten_processes_start_at_once(empty_postgres_url):
    program = (
        "import sys; from jiyi.storage.postgres import PostgresDatabase; print('ready', flush=True); "
        "input(); database = PostgresDatabase(sys.argv[1]); print(database.check()); database.close()"
    )
    for said in begin_together(10, program, empty_postgres_url):
        assert "is sound: 0 users" in said
    assert pending_steps(empty_postgres_url) == []


def test_what_would_be_done_is_told_and_not_done_beside_tables_of_another_name(empty_postgres_url):
    order(empty_postgres_url, "CREATE TABLE theirs (title text)")
    assert pending_steps(empty_postgres_url) == ALL_STEPS
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT to_regclass('documents')").fetchone() == (None,)
    refused(StorageError, "jiyi migrate", PostgresDatabase, empty_postgres_url, migrate=False)
    migrate(empty_postgres_url)
    assert pending_steps(empty_postgres_url) == migrate(empty_postgres_url) == []
    PostgresDatabase(empty_postgres_url, migrate=False).close()


def test_a_migration_that_fails_leaves_nothing(empty_postgres_url, monkeypatch):
    before = described(empty_postgres_url)
    broken = {**load_migrations("postgres"), 2: "CREATE TABLE half (a int); SELECT 1 / 0"}
    monkeypatch.setattr(module, "load_migrations", lambda dialect: broken)
    refused(StorageError, "division by zero", migrate, empty_postgres_url)
    assert described(empty_postgres_url) == before


def test_a_newer_schema_is_left_alone(postgres_url):
    order(postgres_url, "UPDATE meta SET value = '99' WHERE name = 'schema'")
    before = described(postgres_url)
    for opening in (PostgresDatabase, migrate, pending_steps):
        refused(NewerDatabase, r"schema 99.*pip install --upgrade", opening, postgres_url)
    assert described(postgres_url) == before


@pytest.mark.parametrize("theirs", TABLES["tables of another program"])
def test_tables_of_another_program_are_left_alone(empty_postgres_url, theirs):
    order(empty_postgres_url, theirs)
    before = described(empty_postgres_url)
    refused(ForeignDatabase, r"another program.*search_path", PostgresDatabase, empty_postgres_url)
    assert described(empty_postgres_url) == before


def test_the_extension_is_asked_for(postgres_server):
    with other_database(postgres_server, None) as url:
        assert pending_steps(url)[0] == "make the extension vector"
        with pytest.raises(StorageError, match=r"superuser.*CREATE EXTENSION vector") as caught:
            migrate(url)
    assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)


def test_who_may_makes_the_extension(postgres_server):
    with other_database(postgres_server, None) as url:
        owned = postgres_server.url_of(url.rpartition("/")[2], superuser=True)
        assert migrate(owned) == ["make the extension vector", *ALL_STEPS]


@pytest.mark.parametrize(("found", "said"), TABLES["too old or missing"])
def test_what_is_too_old_or_missing_is_named(found, said):
    """Servers that old are not at hand: the answer of one is given instead."""

    class Server:
        def execute(self, *asked):
            return self

        def fetchone(self):
            return (*literal_eval(found), False, [])

    refused(StorageError, said, module.inspect_database, Server(), "postgresql://db")


def test_a_role_that_may_only_read_is_told_so(postgres_server, postgres_url, open_database):
    name = postgres_url.rpartition("/")[2]
    superuser = postgres_server.url_of(name, superuser=True)
    order(superuser, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'r'")
    order(superuser, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    host = postgres_url.rpartition("@")[2]
    database = open_database(f"postgresql://reader:r@{host}")
    try:
        refused(DatabaseReadOnly, "owns jiyi's tables", Store(database).put, [message("a")])
    finally:
        database.close()
        order(superuser, "DROP OWNED BY reader", "DROP ROLE reader")


GROUPS = "SELECT DISTINCT colocationid FROM pg_dist_partition WHERE partmethod = 'h'"
STAND_IN = (Path(__file__).parent / "cluster_stand_in.sql").read_text(encoding="utf-8")


@pytest.fixture
def stand_in(postgres_url, monkeypatch):
    """A connection to a database with the stand-in; that the extension is there is taken for granted."""
    monkeypatch.setattr(cluster, "check_cluster", lambda *_: None)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(STAND_IN.encode())
        yield server


def calls(server, verb):
    rows = server.execute("SELECT name FROM calls WHERE verb = %s ORDER BY n", (verb,))
    return [name for (name,) in rows]


def test_a_server_without_the_extension_is_refused_with_what_to_do(postgres_url):
    with pytest.raises(StorageError) as caught:
        distribute(postgres_url)
    for part in ("extension citus", "CREATE EXTENSION citus", "citus_add_node", ":***@"):
        assert part in str(caught.value), "whether or not the server could make it"


def test_an_old_database_is_refused(empty_postgres_url):
    refused(StorageError, "jiyi migrate", distribute, empty_postgres_url)


def test_all_tables_are_spread_those_of_users_in_one_group(stand_in, store, postgres_url):
    store.put([message("x"), message("y", user="ben")])
    done = distribute(postgres_url, shards=8)
    assert done[0] == "meta: copied to every machine"
    assert sorted(calls(stand_in, "cut")) == sorted(set(tables()) - {"meta"})
    assert stand_in.execute(GROUPS).fetchall() == [(1,)]
    assert stand_in.execute("SELECT shards FROM calls WHERE shards IS NOT NULL").fetchall() == [(8,)]
    assert "documents" in calls(stand_in, "empty"), "what was moved is removed where it was"
    open_ones = "SELECT relname FROM pg_class WHERE relrowsecurity AND NOT relforcerowsecurity"
    assert stand_in.execute(open_ones).fetchall() == [], "the second wall stands again"


def test_an_open_database_is_spread_and_once_more_does_nothing(stand_in, database, postgres_url):
    assert len(distribute(database)) == len(tables())
    before = stand_in.execute("SELECT count(*) FROM calls").fetchone()
    (told,) = distribute(postgres_url)
    assert told == f"nothing to do: {len(tables()) - 1} tables are cut by tenant_id and lie on 2 machines"
    assert stand_in.execute("SELECT count(*) FROM calls").fetchone() == before


def test_what_broke_off_left_nothing(stand_in, store, postgres_url):
    store.put([message("x")])
    stand_in.execute("INSERT INTO broken VALUES ('vectors')")
    refused(StorageError, "remote node", distribute, postgres_url)
    assert calls(stand_in, "cut") == [], "a spread table beside one that is not may crash the coordinator"
    assert stand_in.execute("SELECT FROM pg_dist_partition").fetchall() == []
    walled = stand_in.execute("SELECT relforcerowsecurity FROM pg_class WHERE oid = 'owners'::regclass")
    assert walled.fetchone() == (True,)
    stand_in.execute("DELETE FROM broken")
    distribute(postgres_url)
    assert sorted(calls(stand_in, "cut")) == sorted(set(tables()) - {"meta"})


def test_a_part_that_is_spread_is_no_reason_to_stop(stand_in, postgres_url):
    with connect(postgres_url) as raw:
        distribute_tables(raw, "here", ("meta", "owners", "sessions"))
        assert calls(stand_in, "cut") == ["owners", "sessions"]
    assert distribute(postgres_url)[0].startswith("documents: cut by tenant_id, as owners is")
    assert sorted(calls(stand_in, "cut")) == sorted(set(tables()) - {"meta"}), "each was cut once"
    assert stand_in.execute(GROUPS).fetchall() == [(1,)]


@pytest.mark.slow
def test_it_waits_for_who_writes(stand_in, store, postgres_url):
    spreading = threading.Thread(target=distribute, args=(postgres_url,))
    with store.transaction():
        store.put([message("x")])
        spreading.start()
        spreading.join(0.5)
        assert spreading.is_alive()
        assert "documents" not in calls(stand_in, "cut")
    spreading.join(20)
    assert not spreading.is_alive()
    assert "owners" in calls(stand_in, "cut")


@pytest.mark.slow
def test_a_reader_and_it_may_wait_for_each_other(stand_in, postgres_server, postgres_url):
    url = postgres_server.url_of(postgres_url.rpartition("/")[2], superuser=True)
    done = []
    spreading = threading.Thread(target=lambda: done.extend(distribute(postgres_url)))
    with psycopg.connect(url) as reader:
        reader.execute("SET deadlock_timeout = '1min'")  # the other one gives way
        reader.execute("SELECT FROM documents")
        spreading.start()
        spreading.join(0.5)  # it has locked `sessions` and waits for `documents`
        reader.execute("SELECT FROM sessions")
    spreading.join(20)
    assert len(done) >= len(tables())


def test_tables_that_lie_otherwise_are_refused(stand_in, postgres_url):
    stand_in.execute("INSERT INTO pg_dist_partition VALUES ('documents'::regclass, 'n', 7)")
    refused(StorageError, r"documents lies otherwise.*undistribute_table", distribute, postgres_url)
    stand_in.execute("UPDATE pg_dist_partition SET partmethod = 'h'")
    stand_in.execute("INSERT INTO pg_dist_partition VALUES ('sessions'::regclass, 'h', 8)")
    refused(StorageError, "lie otherwise", distribute, postgres_url)


def test_a_new_table_follows_where_the_others_are_spread(stand_in, postgres_url):
    key = 'CREATE TABLE fresh (tenant_id text COLLATE "C" PRIMARY KEY)'
    with connect(postgres_url) as raw:
        assert distribute_tables(raw, "here", tables(), begin=False) == [], "nothing is spread yet"
        distribute(postgres_url)
        raw.execute(key.encode())
        names = (*tables(), "fresh")
        assert distribute_tables(raw, "here", names, begin=False) == ["fresh: cut by tenant_id, as owners is"]
        assert distribute_tables(raw, "here", names, begin=False) == []


def test_each_statement_of_a_user_is_one_task_on_a_cluster(citus_url, tmp_path, monkeypatch):
    with traced(monkeypatch) as asked:
        use_every_verb(citus_url, tmp_path)
    single = 0
    with connect(citus_url) as server:
        for statement, (user_id, given) in asked.items():
            if user_id is None or not re.match("SELECT|INSERT|UPDATE|DELETE|WITH", statement):
                continue
            with server.transaction(force_rollback=True):
                for words, values in set_tenant(user_id, (30_000, 5_000), single_node=False):
                    server.execute(words, values)
                plan = "\n".join(row[0] for row in server.execute(f"EXPLAIN {statement}", given))
            tasks = re.findall(r"Task Count: (\d+)", plan)
            # None: a table that every machine has. 0: a condition that nothing meets.
            assert tasks in ([], ["0"], ["1"]), (statement, plan)
            single += tasks == ["1"]
    assert single > 200


def test_who_opened_it_before_it_was_a_cluster_sees_all_afterwards(postgres_server, postgres_url, store):
    store.put([message("before", id="a")])
    url = postgres_server.url_of(postgres_url.rpartition("/")[2], superuser=True)
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("SET allow_system_table_mods = on")
        server.execute(
            "INSERT INTO pg_extension SELECT 1, 'citus', extowner, extnamespace, false, '13.2'"
            " FROM pg_extension WHERE extname = 'vector'"
        )
    assert not store._db.citus
    store.put([message("after", id="b")])
    assert store._db.citus, "settings go to all machines from here on"
    assert [m.id for m in store.find(Query(scope=ANA, kinds=("message",)))] == ["a", "b"]


def test_a_cluster_is_told_of_is_not_spread_again_and_has_no_vector_index(citus_url, open_database):
    assert distribute(citus_url)[0].startswith("nothing to do: ")
    refused(WrongState, "spread over machines", PostgresVectors(open_database(citus_url)).make_ann_index)
    found = read_server_info(citus_url)
    assert found.machines >= 1
    assert found.citus is not None
