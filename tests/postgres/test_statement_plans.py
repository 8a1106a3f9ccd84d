"""What really runs goes by the tenant: the plans PostgreSQL makes for a small and for a large user."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres.every_verb import plain, traced, use_every_verb
from postgres.statement_reader import faults_of

from jiyi.storage.postgres.pool import connect
from jiyi.storage.postgres.statements import get_statement, set_tenant

pytestmark = pytest.mark.slow

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


def test_a_reader_of_plans_sees_what_reads_all(asked, postgres_url):
    all_users = "SELECT tenant_id FROM trash WHERE discarded_at = 7"
    bad = ("SELECT body FROM documents WHERE kind = 'fact'", all_users)
    with connect(postgres_url) as server:
        for statement in bad:
            assert without_the_tenant(explain(server, statement, {}, SMALL))
