"""Connections, transactions, numbers, round trips, many rows at once, and a server that comes back."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest
from at_once import at_once
from refusing import raises, refused
from samples import ANA, AWKWARD, episode, message

from jiyi.errors import (
    Closed,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseLocked,
    DatabaseUnreachable,
    EmbedderMismatch,
    StorageError,
    WrongState,
)
from jiyi.records import Query, Scope
from jiyi.storage import Amendment, Store
from jiyi.storage.postgres import PostgresDatabase, PostgresVectors
from jiyi.storage.postgres.statements import get_statement, to_psycopg
from jiyi.storage.vectors import VectorRow

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
MINE = Query(scope=ANA, kinds=("message",), limit=10_000)


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


def test_inside_a_transaction_the_error_goes_up_and_nothing_is_written(
    open_database, postgres_server, postgres_url
):
    store = Store(open_database())
    store.put([message("before", id="a")])

    with pytest.raises(DatabaseUnreachable, match="nothing was written"), store.transaction():  # noqa: PT012
        store.put([message("half", id="b")])
        with psycopg.connect(postgres_server.superuser_url, autocommit=True) as keeper:
            keeper.execute(CUT, (postgres_url.rpartition("/")[2],))
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
            raises(psycopg.errors.DivisionByZero, raw.send_all, [good, bad, good])
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
    refused(Closed, r"jiyi\.open", Store(database).find, MINE)


@pytest.mark.slow
def test_verbs_cost_few_round_trips(database, store, trips):
    vectors, store = PostgresVectors(database), Store(database)
    store.put([message("the first")])
    costs = {
        "put": (3, lambda: store.put([message("the word")])),
        "put of many": (4, lambda: store.put([message("the word") for _ in range(1_000)])),
        "find": (1, lambda: store.find(MINE)),
        "match": (1, lambda: store.match(Query(scope=ANA, text="word"))),
        "nearest": (2, lambda: vectors.nearest(Query(scope=ANA), np.ones(4, np.float32))),
        "read": (3, lambda: vectors.read(ANA, [("message", m.id) for m in store.find(MINE)[:50]])),
        "changes": (1, lambda: store.changes(ANA)),
        "together": (3, lambda: store.together(lambda: store.put([message("the word")]))),
    }
    for verb, (most, use) in costs.items():
        use()  # once a minute some ask for more: whether there is an approximate index
        trips.clear()
        use()
        assert len(trips) <= most, f"{verb}: {len(trips)} round trips"


def test_a_search_costs_few_round_trips(open_memory, postgres_url, trips):
    with open_memory(postgres_url) as memory:
        for n in range(40):
            memory.save_message("s", role="user", content=f"disk {n} is full")
        memory.remember("the port is 9443")
        memory.flush()
        memory.search("disk 3", kinds="message")
        trips.clear()
        assert len(memory.search("disk 39", kinds="message", limit=5)) == 5
        assert len(trips) == 1, "what is new: all short messages are there already"
        trips.clear()
        memory.search("which port, which disk", kinds=("message", "fact"))
        assert len(trips) == 2, "and the facts"
        memory.save_message("s", role="user", content="disk 40 is full")
        trips.clear()
        assert memory.search("disk 40", kinds="message")[0].text == "disk 40 is full"
        assert len(trips) <= 3, "what is new, its vector, the new message"


def test_what_another_process_amends_or_removes_is_no_longer_held(open_database):
    here, there = Store(open_database()), Store(open_database())
    here.put([message("the port", id="a"), message("the host", id="b")])

    def found():
        return here.find_by_keys("ana", [("message", "a"), ("message", "b")], here.snapshot("ana"))

    assert [one.id for one in found().values()] == ["a", "b"]
    there.amend(ANA, "message", [Amendment(id="a", pinned=True)])
    assert [one.pinned for one in found().values()] == [True, False]
    there.delete(Query(scope=ANA, ids=("b",)))
    assert [one.id for one in found().values()] == ["a"]


@pytest.mark.slow
def test_a_failed_statement_undoes_its_block_only(database, store):
    """The error comes with a later statement: those without a result wait for one."""
    store.put([message("there", id="1")])
    row = {"user_id": "ana", "session_id": "s", "first_at": 0, "last_at": 0, "next_seq": 0, "count": 0}

    def broken(statements: int) -> None:
        with database.write("ana") as db:
            for n in range(statements):
                db.run("begin_session", row | {"session_id": f"{n}"})
            db.run("begin_session", row)
            for n in range(statements):
                db.run("begin_session", row | {"session_id": f"more {n}"})

    for statements in (0, 5, 3_000):
        refused(StorageError, "sessions_pkey", broken, statements)
        with store.transaction():
            store.put([message("kept", id=f"kept {statements}")])
            refused(StorageError, "sessions_pkey", broken, statements)
            store.put([message("kept", id=f"kept too {statements}")])
    assert len(store.find(MINE)) == 7
    assert store.count(Query(scope=ANA, kinds=("session",)))["session"] == 1


def test_a_swallowed_error_does_not_pass_for_a_commit(database, store):
    def swallow() -> None:
        with database.write("ana") as db:
            db.run("drop_session", {"user_id": "ana", "session_id": "s"})
            with pytest.raises(StorageError, match="LIMIT"), database.read("ana") as inside:
                inside.rows("read_terms", {"user_id": "ana", "after": 0, "limit": -1})

    store.put([message("there", id="1")])
    refused(StorageError, "begin it again", swallow)
    assert store.count(Query(scope=ANA, kinds=("session",)))["session"] == 1


@pytest.mark.slow
def test_numbers_ascend_in_the_order_of_commits(open_database):
    databases = [open_database(pool_max=4) for _ in range(2)]
    stores = [Store(database) for database in databases]

    def say(n: int) -> None:
        stores[n % 2].put([message(f"{n}", id=f"{n}", session=f"{n % 3}")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(say, range(120)))
    with databases[0].read("ana") as db:
        values = {"user_id": "ana", "after": 0, "limit": 1_000}
        docs = [row[0] for row in db.rows("read_terms", values)]
    assert docs == list(range(1, 121))
    for session in "012":
        own = Query(scope=Scope(user_id="ana", session_id=session), kinds=("message",), limit=1_000)
        assert [m.seq for m in stores[0].find(own)] == list(range(40))
    assert "120 records" in databases[1].check()


def test_two_processes_cannot_bind_two_embedders(open_database):
    databases = [open_database() for _ in range(8)]
    barrier, names = threading.Barrier(8), []

    def claim(n: int) -> None:
        vectors = PostgresVectors(databases[n])
        barrier.wait()
        try:
            names.append(vectors.claim(f"embedder {n}", 4).name)
        except EmbedderMismatch:
            names.append(vectors.claim().name)

    at_once(claim, range(8))
    assert len(set(names)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 300], ids=["one by one", "together"])
def test_few_and_many_are_stored_alike(database, store, count):
    texts = [*AWKWARD.values(), "\\N", "\t\\.\n", "x" * 300_000]
    said = [
        message(text, id=f"{n} {m}", name=text[:60] or None, pinned=n % 2 == 0, importance=n / 1000)
        for n in range(count // 5)
        for m, text in enumerate(texts[:5] if count == 5 else texts)
    ]
    stored = store.put(said)
    assert store.find(MINE) == stored
    assert [m.to_dict() for m in stored] == [m.to_dict() for m in said]
    with database.read("ana") as db:
        rows = db.rows("read_terms", {"user_id": "ana", "after": 0, "limit": 10_000})
    assert [row[0] for row in rows] == list(range(1, len(said) + 1))
    assert len(PostgresVectors(database).pending(10_000)) == len([m for m in said if m.search_text.strip()])
    assert store.put(said) == stored, "again is the same"
    assert "sound" in database.check()


def test_damage_is_found(database, store, postgres_url, postgres_server):
    store.put([message("a", id="1"), message("b", id="2"), episode(id="e")])
    vectors = PostgresVectors(database)
    waiting = vectors.pending(10)
    vectors.add([VectorRow(key=p.key, vectors=np.eye(1, 4, dtype=np.float32)) for p in waiting])
    assert "1 user, 3 records, 0 without vectors yet" in database.check()
    superuser = postgres_server.url_of(postgres_url.rpartition("/")[2], superuser=True)
    waiting = "INSERT INTO pending (tenant_id, doc) VALUES ('ana', 1)"
    for said, harm, mended in (
        ("1 sessions with wrong", "UPDATE sessions SET messages = 9", "UPDATE sessions SET messages = 2"),
        ("1 numbers that would come", "UPDATE owners SET next_doc = 2", "UPDATE owners SET next_doc = 4"),
        ("1 records with vectors that wait", waiting, "DELETE FROM pending"),
        ("2 records that never get vectors", "DELETE FROM vectors WHERE doc > 1", None),
    ):
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute(harm)
            refused(DatabaseDamaged, said, database.check)
            if mended:
                connection.execute(mended)
                assert "sound" in database.check()


def test_room_is_freed_outside_transactions_only(database, store):
    store.put([message("a")])
    database.check_alone()
    database.scrub()
    with pytest.raises(WrongState), store.transaction():
        database.scrub()


def test_a_statement_is_rewritten_for_psycopg():
    assert to_psycopg("SELECT :a::text, 5 % 2, b::int, :b_c") == "SELECT %(a)s::text, 5 %% 2, b::int, %(b_c)s"
    assert "--" not in get_statement("complete")
    assert get_statement("count_task", where="t.id = :id").endswith("WHERE t.id = %(id)s")
