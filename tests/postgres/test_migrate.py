"""The schema: made once by however many processes, described as it is, and refused where it is not ours."""

from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import files

import psycopg
import pytest
from other_processes import begin_together
from psycopg.rows import dict_row
from samples import message
from tables import read_tables

from jiyi.clock import utc_from_micros
from jiyi.errors import DatabaseReadOnly, ForeignDatabase, NewerDatabase, StorageError
from jiyi.records import Query, Scope
from jiyi.storage import Due, Ledger, Store
from jiyi.storage.postgres import PostgresDatabase
from jiyi.storage.postgres import migrate as module
from jiyi.storage.postgres.migrate import pending_steps, statements, tables
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
    with pytest.raises(StorageError, match="jiyi migrate"):
        PostgresDatabase(empty_postgres_url, migrate=False)
    migrate(empty_postgres_url)
    assert pending_steps(empty_postgres_url) == migrate(empty_postgres_url) == []
    PostgresDatabase(empty_postgres_url, migrate=False).close()


def test_a_migration_that_fails_leaves_nothing(empty_postgres_url, monkeypatch):
    before = described(empty_postgres_url)
    broken = {**load_migrations("postgres"), 2: "CREATE TABLE half (a int); SELECT 1 / 0"}
    monkeypatch.setattr(module, "load_migrations", lambda dialect: broken)
    with pytest.raises(StorageError, match="division by zero"):
        migrate(empty_postgres_url)
    assert described(empty_postgres_url) == before


def test_a_newer_schema_is_left_alone(postgres_url):
    order(postgres_url, "UPDATE meta SET value = '99' WHERE name = 'schema'")
    before = described(postgres_url)
    for refused in (PostgresDatabase, migrate, pending_steps):
        with pytest.raises(NewerDatabase, match=r"schema 99.*pip install --upgrade"):
            refused(postgres_url)
    assert described(postgres_url) == before


@pytest.mark.parametrize("theirs", TABLES["tables of another program"])
def test_tables_of_another_program_are_left_alone(empty_postgres_url, theirs):
    order(empty_postgres_url, theirs)
    before = described(empty_postgres_url)
    with pytest.raises(ForeignDatabase, match=r"another program.*search_path"):
        PostgresDatabase(empty_postgres_url)
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

    with pytest.raises(StorageError, match=said):
        module.inspect_database(Server(), "postgresql://db")


def test_a_role_that_may_only_read_is_told_so(postgres_server, postgres_url, open_database):
    name = postgres_url.rpartition("/")[2]
    superuser = postgres_server.url_of(name, superuser=True)
    order(superuser, "DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN PASSWORD 'r'")
    order(superuser, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    host = postgres_url.rpartition("@")[2]
    database = open_database(f"postgresql://reader:r@{host}")
    try:
        with pytest.raises(DatabaseReadOnly, match="owns jiyi's tables"):
            Store(database).put([message("a")])
    finally:
        database.close()
        order(superuser, "DROP OWNED BY reader", "DROP ROLE reader")
