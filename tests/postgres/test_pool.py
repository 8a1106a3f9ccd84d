"""Connections: too few, cut, timed out, and a server that stops and comes back."""

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from samples import ANA, message

from jiyi.errors import Closed, DatabaseBusy, DatabaseLocked, DatabaseUnreachable, StorageError
from jiyi.records import Query, Scope
from jiyi.storage import Store
from jiyi.storage.postgres import PostgresDatabase

MINE = Query(scope=ANA, kinds=("message",), limit=1_000)


@pytest.mark.slow
def test_fifty_threads_share_three_connections(open_database):
    database = open_database(pool_max=3)
    store = Store(database)

    def say(n: int) -> None:
        store.put([message(f"word {n}", user=f"user {n % 5}", session=f"{n}", id=f"{n}")])
        assert len(store.find(Query(scope=Scope(user_id=f"user {n % 5}"), ids=(f"{n}",)))) == 1

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(say, range(300)))
    assert database.users() == [f"user {n}" for n in range(5)]
    counts = [store.count(Query(scope=Scope(user_id=user)))["message"] for user in database.users()]
    assert counts == [60] * 5
    held = database._pool._pool.get_stats()
    assert held["pool_max"] == 3
    assert held["pool_size"] <= 3
    assert "300 records" in database.check()


def test_a_slow_statement_is_stopped(open_database):
    database = open_database(statement_seconds=0.2)
    started = time.monotonic()
    with pytest.raises(DatabaseBusy, match="statement_seconds"), database.read("ana") as db:
        db._channel.execute("ana", [("SELECT pg_sleep(30)", {})])
    assert time.monotonic() - started < 15
    with pytest.raises(DatabaseBusy, match="statement_seconds"), database.write("ana") as db:
        db._channel.execute("ana", [("SELECT pg_sleep(30)", {})])
    Store(database).put([message("a")])


def test_a_writer_waits_for_another_one_of_its_user_only(open_database):
    first, second = open_database(), open_database(lock_timeout=0.2)
    with first.write("ana") as db:
        db.take_numbers("ana", 1)
        with pytest.raises(DatabaseLocked, match="lock_timeout"), second.write("ana") as other:
            other.take_numbers("ana", 1)
        with second.write("ben") as other:
            assert other.take_numbers("ben", 2) == 1
    with second.write("ana") as other:
        assert other.take_numbers("ana", 1) == 2


@pytest.mark.slow
def test_a_connection_that_was_cut_is_replaced_unseen(open_database, postgres_server, postgres_url):
    database = open_database(pool_min=4)
    store = Store(database)
    store.put([message("before", id="a")])
    for n in range(5):
        _cut(postgres_server, postgres_url)
        store.put([message("after", id=f"{n}")])
        _cut(postgres_server, postgres_url)
        assert len(store.find(MINE)) == n + 2
        assert store.match(Query(scope=ANA, text="before")).keys[0] == ("message", "a")


def _cut(server, url: str) -> None:
    database = url.rpartition("/")[2]
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        words = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(words, (database,))


def test_inside_a_transaction_the_error_goes_up_and_nothing_is_written(
    open_database, postgres_server, postgres_url
):
    store = Store(open_database())
    store.put([message("before", id="a")])

    with pytest.raises(DatabaseUnreachable, match="nothing was written"), store.transaction():  # noqa: PT012
        store.put([message("half", id="b")])
        _cut(postgres_server, postgres_url)
        store.put([message("other half", id="c")])
    assert [m.id for m in store.find(MINE)] == ["a"]
    store.put([message("half", id="b")])


def test_a_pooler_that_keeps_no_prepared_statements_is_noticed(open_database):
    """Between transactions a pooler may give another connection, on which nothing is prepared."""
    database = open_database(pool_max=1)
    store = Store(database)
    store.put([message("0", id="0")])
    for _ in range(10):
        store.find(MINE)
    with database._borrowed() as raw:
        assert raw.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() > (0,)
        # In a block of code, so that psycopg does not hear of it, as it would not of a pooler's.
        raw.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$", prepare=False)
    assert len(store.find(MINE)) == 1
    for n in range(10):
        store.put([message("next", id=f"next {n}")])
    with database._borrowed() as raw:
        words = "SELECT count(*) FROM pg_prepared_statements"
        assert raw.execute(words, prepare=False).fetchone() == (0,)


def test_statements_of_a_trip_are_prepared_once(open_database):
    database = open_database(pool_max=1)
    with database._borrowed() as raw:
        for number in (1, 2):
            (answer,) = raw.send_all([("SELECT %(n)s::int8 AS n, '%%' AS sign", {"n": number})])
            assert (answer.names, answer.rows) == (["n", "sign"], [(number, "%")])
        raw.send_all([("BEGIN", None), ("SELECT '%'", None), ("COMMIT", None)])
        held = raw.execute("SELECT statement FROM pg_prepared_statements ORDER BY 1").fetchall()
    assert [words for (words,) in held] == ["SELECT $1::int8 AS n, '%' AS sign", "SELECT '%'"]


def test_after_a_statement_that_fails_none_runs_and_the_connection_goes_on(open_database):
    database = open_database(pool_max=1)
    good = ("SELECT %(n)s::int8", {"n": 1})
    bad = ("SELECT 1 / %(n)s::int8", {"n": 0})
    with database._borrowed() as raw:
        raw.send_all([good])
        for _ in range(3):
            with pytest.raises(psycopg.errors.DivisionByZero):
                raw.send_all([good, bad, good])
            assert raw.send_all([good, good])[1].rows == [(1,)]
        assert raw.send_all([("SELECT 1 / %(n)s::int8", {"n": 1})])[0].rows == [(1,)]


def test_numbers_of_lists_may_grow(open_database):
    words = "SELECT sum(n) FROM unnest(%(all)s::int8[]) AS n"
    with open_database()._borrowed() as raw:
        for numbers, total in (([1, 2], 3), ([10**9], 10**9), ([10**12, 1], 10**12 + 1), ([], None)):
            assert raw.send_all([(words, {"all": numbers})])[0].rows == [(total,)]


def test_passwords_are_in_no_message(postgres_url):
    wrong = postgres_url.replace("@", "x@")
    password = wrong.split(":")[2].split("@")[0]
    with pytest.raises(DatabaseUnreachable) as caught:
        PostgresDatabase(wrong)
    assert password not in str(caught.value)
    assert "***" in str(caught.value)
    with pytest.raises(StorageError, match="no address") as nonsense:
        PostgresDatabase(f"{postgres_url}?no_such_parameter=1")
    assert password[:-1] not in str(nonsense.value)


def test_a_closed_one_says_so(open_database):
    database = open_database()
    database.close()
    database.close()
    with pytest.raises(Closed, match=r"jiyi\.open"):
        Store(database).find(MINE)
