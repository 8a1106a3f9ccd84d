"""The planner knows users who grow quickly before the server looks by itself."""

import psycopg
import pytest
from samples import ANA, START, message

from jiyi.records import Query
from jiyi.storage import Store, Trash
from jiyi.storage.postgres.connection import PostgresConnection
from jiyi.storage.postgres.database import needs_analyze


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
