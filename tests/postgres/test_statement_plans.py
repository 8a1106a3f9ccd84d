"""What really runs goes by the tenant: the plans that PostgreSQL makes, and statistics that keep up."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres.every_verb import plain, traced, use_every_verb
from postgres.statement_reader import faults_of
from samples import ANA, START, message

from jiyi.records import Query
from jiyi.storage import Store, Trash
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.database import needs_analyze
from jiyi.storage.postgres.pool import connect
from jiyi.storage.postgres.statements import get_statement, set_tenant

SMALL, LARGE = "ana", "u7"  # of 20 records, and of thousands
USERS, RECORDS, MANY = 100, 100, 4_000
PLAIN = {"meta"}  # tables without users' rows
KINDS = "SELECT|INSERT|UPDATE|DELETE|WITH"  # of statements that can be explained

FILL = (Path(__file__).parent / "statement_plans.sql").read_text(encoding="utf-8")
FILL = FILL.format(USERS=USERS, RECORDS=RECORDS, MANY=MANY, LARGE=LARGE)


@pytest.fixture
def asked(postgres_server, postgres_url, tmp_path, monkeypatch):
    with traced(monkeypatch) as found:
        use_every_verb(postgres_url, tmp_path, SMALL)
    database = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_server.url_of(database, superuser=True)) as server:
        server.execute(FILL)
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def without_the_tenant(plan: dict[str, Any]) -> list[str]:
    """The parts of a plan that read more than one user's rows."""
    reads = [node for node in nodes(plan) if "Scan" in node["Node Type"] and "Relation Name" in node]
    walked = [node for node in reads if node["Node Type"] == "Seq Scan"]
    keyed = [node for node in nodes(plan) if "Index Name" in node]
    found = [f"all of {node['Relation Name']}" for node in walked if node["Relation Name"] not in PLAIN]
    return found + [
        node["Index Name"]
        for node in keyed
        if "tenant_id" not in node.get("Index Cond", "") and node["Index Name"] != "meta_pkey"
    ]


def explain(
    server: psycopg.Connection, statement: str, values: dict[str, Any], user_id: str
) -> dict[str, Any]:
    with server.transaction(force_rollback=True):
        for words, limits in set_tenant(user_id, (30_000, 5_000)):
            server.execute(words, limits)
        row = server.execute(f"EXPLAIN (FORMAT JSON) {statement}", values | {"user_id": user_id}).fetchone()
    assert row is not None
    read: Any = row[0] if isinstance(row[0], list) else json.loads(row[0])
    return read[0]["Plan"]


@pytest.mark.slow
def test_every_statement_that_runs_goes_by_the_tenant(asked, postgres_url):
    asked = {statement: ask for statement, ask in asked.items() if re.match(KINDS, statement)}
    of_users = {statement: values for statement, (user_id, values) in asked.items() if user_id is not None}
    of_users |= {get_statement(name): {"next_doc": 5} for name in ("lock_owner", "add_owner", "set_next_doc")}
    assert len(of_users) > 300, "the conditions of queries are among them"
    bad = {}
    with connect(postgres_url) as server:
        for statement, values in of_users.items():
            assert not faults_of(plain(statement))
            for user_id in (SMALL, LARGE):
                if read := without_the_tenant(explain(server, statement, values, user_id)):
                    bad[statement, user_id] = read
    assert not bad


@pytest.mark.slow
def test_a_reader_of_plans_sees_what_reads_all(asked, postgres_url):
    all_users = "SELECT tenant_id FROM trash WHERE discarded_at = 7"
    bad = ("SELECT body FROM documents WHERE kind = 'fact'", all_users)
    with connect(postgres_url) as server:
        for statement in bad:
            assert without_the_tenant(explain(server, statement, {}, SMALL))


def test_a_user_outgrows_what_is_known_by_doubling():
    told = [needs_analyze({"ana": (first, first + 500)}) for first in range(1, 10_000, 500)]
    assert [500 * (place + 1) for place, grown in enumerate(told) if grown] == [2_500, 4_500, 8_500]
    # Whoever was large before is known.
    assert not needs_analyze({"ana": (50_001, 50_101)})
    assert needs_analyze({"ana": (50_101, 101_000)})
    # Few at a time are left to the server.
    assert not any(needs_analyze({"ana": (first, first + 99)}) for first in range(1, 100_000, 99))
    # One user of several is enough.
    assert not needs_analyze({"ana": (1, 1_001), "ben": (1_001, 1_501)})
    assert needs_analyze({"ana": (1_001, 2_102), "ben": (1, 2)})


@pytest.fixture
def explain_first(monkeypatch, postgres_url):
    """Return the plan, as it is now, of the first statement with a text in it that ran."""
    asked: list[tuple[str, dict[str, object]]] = []
    built = PostgresConnection._statement

    def note(self, *given, **parts):
        asked.append(built(self, *given, **parts))
        return asked[-1]

    def explain(part):
        statement, values = next(item for item in asked if part in item[0])
        with psycopg.connect(postgres_url, autocommit=True) as server:
            server.execute("SET jiyi.tenant TO 'ana'")
            return "\n".join(row[0] for row in server.execute(f"EXPLAIN {statement}", values))

    monkeypatch.setattr(PostgresConnection, "_statement", note)
    return explain


@pytest.mark.slow
def test_after_many_came_ids_are_looked_up_by_their_index(open_memory, postgres_url, explain_first):
    lines = [{"role": "user", "content": f"line {n}"} for n in range(3_000)]
    with open_memory(postgres_url, learn_facts=False) as memory:
        for start in range(0, 3_000, 500):
            saved = memory.save_messages("s", lines[start : start + 500])
        memory.get(saved[0].id)
    plan = explain_first("d.id = ANY")
    assert "tenant_id = 'ana'" in plan
    assert "id = ANY" in plan.split("Index Cond", 1)[1].split("\n", 1)[0], plan


def test_entries_to_erase_are_looked_for_once_where_statistics_say_there_are_none(
    database, postgres_url, explain_first
):
    store, trash = Store(database), Trash(database)
    store.put([message(f"line {n}", id=f"{n}") for n in range(200)])
    keys = [("message", f"{n}") for n in range(1_000)]
    trash.discard(ANA, keys, reason="", at=START)
    trash.restore(ANA, keys)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute("ANALYZE trash")
    trash.discard(ANA, keys, reason="", at=START)
    assert trash.erase(ANA, keys=keys) == 200
    assert "InitPlan" in (plan := explain_first("SELECT t.entry FROM trash")), plan


def test_where_they_cannot_be_gathered_saving_goes_on(store, monkeypatch):
    monkeypatch.setattr("jiyi.storage.postgres.database.tables", lambda: ["documents", "no_such_table"])
    store.put([message(f"line {n}", id=f"{n}") for n in range(2_500)])
    assert store.count(Query(scope=ANA, kinds=("message",)))["message"] == 2_500
    store.put([message("one more")])
