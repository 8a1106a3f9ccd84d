"""One machine of a cluster is away: its users get an error that says so, everybody else's work goes on.

A policy that asks a function plays the machine: it raises what Citus raises whenever a row of one
of its users is looked at.
"""

from pathlib import Path

import numpy as np
import psycopg
import pytest
from refusing import refused
from samples import message
from tables import read_tables

from jiyi.errors import DatabaseUnreachable
from jiyi.long_term import Indexer
from jiyi.records import Query, Scope
from jiyi.storage import Store, VectorRow
from jiyi.storage.postgres import PostgresVectors
from jiyi.storage.postgres.database import RecentUsers
from jiyi.storage.postgres.errors import ConnectionLost, MachineLost, is_lost, translate
from jiyi.testing import HashEmbedder


def said(server, code, words):
    block = f"DO $$ BEGIN RAISE EXCEPTION '{words}' USING ERRCODE = '{code}'; END $$"
    with pytest.raises(psycopg.Error) as raised:
        server.execute(block)
    return raised.value


@pytest.mark.parametrize(
    ("_case", "code", "words"), read_tables(__file__)["what a cluster says of a machine that is lost"]
)
def test_what_a_cluster_says_of_a_machine_is_told_apart(postgres_url, _case, code, words):
    with psycopg.connect(postgres_url, autocommit=True) as server:
        error = said(server, code, words)
        found = translate(error, "here", server)
        assert isinstance(found, MachineLost)
        assert isinstance(found, DatabaseUnreachable)
        assert "only users whose rows are there" in str(found)
        assert not is_lost(error, server), "the connection to the coordinator is as good as before"
        assert translate(error, "here", server, committing=True).maybe_done


def test_other_errors_are_no_lost_machine(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as server:
        assert not isinstance(translate(said(server, "XX000", "something"), "here", server), ConnectionLost)
        server.execute("SELECT 1")


def test_ones_own_server_going_is_no_lost_machine(postgres_url, postgres_server):
    with psycopg.connect(postgres_url) as server:
        with psycopg.connect(postgres_server.superuser_url, autocommit=True) as keeper:
            keeper.execute("SELECT pg_terminate_backend(%s)", (server.info.backend_pid,))
        with pytest.raises(psycopg.Error) as raised:
            server.execute("SELECT 1")
        found = translate(raised.value, "here", server)
    assert isinstance(found, ConnectionLost)
    assert not isinstance(found, MachineLost)


AWAY = (Path(__file__).parent / "machines.sql").read_text(encoding="utf-8")


@pytest.fixture
def database(open_database):
    return open_database(reconnect_seconds=0.2)


@pytest.fixture
def lose(database):
    """Take the machine away."""

    def lose():
        with psycopg.connect(database.url, autocommit=True) as server:
            server.execute(AWAY.encode())

    return lose


def connected(database):
    """Return which processes of the server the pool talks to."""
    with psycopg.connect(database.url) as server:
        rows = server.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND application_name = 'jiyi'"
        )
        return {pid for (pid,) in rows}


@pytest.mark.slow
def test_only_its_users_fail(database, lose):
    store = Store(database)
    store.put([message("x", user="dead"), message("x", user="ana")])
    lose()
    before = connected(database)
    for user in ("ana", "ben"):
        store.put([message("more", user=user)])
        assert store.find(Query(scope=Scope(user_id=user)))
    for verb in (
        lambda: store.put([message("more", user="dead")]),
        lambda: store.find(Query(scope=Scope(user_id="dead"))),
        lambda: store.put([message("both", user="ana", id="both"), message("both", user="dead")]),
        database.users,
        database.check,
    ):
        refused(DatabaseUnreachable, r"a machine of .* does not answer", verb)
    assert not store.find(Query(scope=Scope(user_id="ana"), ids=("both",))), "all or nothing"
    assert connected(database) == before, "those to the coordinator are good, and stay"


def test_vectors_are_made_for_the_others(database, lose):
    store, vectors = Store(database), PostgresVectors(database)
    vectors.claim(HashEmbedder().name, HashEmbedder().dims)
    for user in ("dead", "ana", "ben"):
        store.put([message("x", user=user, id=user)])
    lose()
    assert Indexer(vectors, HashEmbedder()).flush() == 2
    for user in ("ana", "ben"):
        assert store.count(Query(scope=Scope(user_id=user)))["vectors_pending"] == 0
    assert vectors.pending(10) == []


def test_vectors_of_others_are_added_before_the_error(database, lose):
    store, vectors = Store(database), PostgresVectors(database)
    vectors.claim("test", 4)
    for user in ("dead", "ana"):
        store.put([message("x", user=user)])
    rows = [VectorRow(key=text.key, vectors=np.ones((1, 4), np.float32)) for text in vectors.pending(10)]
    assert [row.key[0] for row in rows] == ["dead", "ana"]
    lose()
    refused(DatabaseUnreachable, "does not answer", vectors.add, rows)
    assert store.count(Query(scope=Scope(user_id="ana")))["vectors_pending"] == 0


def test_the_list_of_recent_users_is_bounded():
    recent = RecentUsers(most=2)
    for user in ("a", "b", "a", "c"):
        recent.put(user)
    assert recent.newest_first() == ["c", "a"]
