"""Verbs that change several things at once, with the connection cut in the middle of their transaction."""

import json
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from samples import ANA, message

from jiyi.long_term import ForgetGate, ForgetRule
from jiyi.records import Hit, Scope
from jiyi.settings import load_settings
from jiyi.storage.backend import open_backend
from jiyi.storage.place import locate
from jiyi.storage.postgres import PostgresDatabase
from jiyi.storage.postgres.connection import WriteTransaction
from jiyi.storage.transfer.copy import copy_memory

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def cut_at(monkeypatch, postgres_server, postgres_url):
    """Cut every connection just before the n-th time that transactions send something."""
    url = postgres_server.url_of(postgres_url.rpartition("/")[2], superuser=True)
    cuts, left = [], [0]
    cut = (
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    send = WriteTransaction._send

    def cutting(self, statements):
        left[0] -= 1
        if left[0] == 0:
            with psycopg.connect(url, autocommit=True) as keeper:
                cuts.append(keeper.execute(cut).fetchone()[0])
        return send(self, statements)

    monkeypatch.setattr(WriteTransaction, "_send", cutting)

    def arm(number):
        left[0] = number
        return cuts

    return arm


@pytest.fixture
def memory(open_memory):
    memory = open_memory()
    for n in range(6):
        memory.save_message("s", role="user", content=f"line {n}", id=f"m{n}", created_at=NOON)
    memory.remember("the port is 9443", valid_to=LATER - timedelta(days=1))
    for n in range(4):
        task = memory.start_task("s", request=f"restart nginx {n}", target="nginx")
        memory.complete_task(task.id, outcome="success", summary="worked")
    return memory


def imported(memory):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps({"role": "user", "content": f"said {n}"}) + "\n" for n in range(150))
        file.flush()
        return memory.import_(file.name, session_id="imported").added


def let_go(memory):
    gate = memory._long_term.gate
    every = ForgetRule(threshold=1.0, min_age=timedelta(0))
    run = ForgetGate(gate.store, gate.trash, rule=every, others=()).run(ANA)
    return sum(run.discarded["episode"].values())


def counted(memory):
    fact = memory.facts()[0]
    accesses = memory._long_term.recall.accesses
    accesses.note(ANA, [Hit(record=fact, kind="fact", score=1.0)])
    accesses.flush()
    return memory.get(fact.id).access_count


def copied(memory):
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ends = []
        for place in (Path(folder) / "from.db", memory._store._db.url):
            ends.append(open_backend(locate(place), load_settings()))
            stack.callback(ends[-1].store.close)
        ends[0].store.put([message("new", id="new", session="copied", user="copied")])
        return copy_memory(*ends).added["message"]


def consolidated(memory):
    memory.run_consolidation()
    return len(memory.knowledge())


VERBS = {
    "import_": (imported, 150),
    "forget": (lambda m: m.forget(ids=["m1", "m2"]).counts, {"message": 2}),
    "purge": (lambda m: m.forget(ids=["m3"], purge=True).counts, {"message": 1}),
    "pin": (lambda m: m.pin(["m0", "m4"]), 2),
    "expire": (lambda m: m._long_term.facts.expire(Scope(user_id="ana"), LATER), 1),
    "run_forget_gate": (let_go, 4),
    "access counts": (counted, 1),
    "copy": (copied, 1),
    "run_consolidation": (consolidated, 1),
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("verb", VERBS)
def test_it_is_done_again_and_once(memory, cut_at, postgres_url, verb, number):
    use, wanted = VERBS[verb]
    cuts = cut_at(number)
    assert use(memory) == wanted
    assert cuts
    assert cuts[0] > 0, "it went without the cut"
    database = PostgresDatabase(postgres_url)
    assert "sound" in database.check()
    database.close()


@pytest.mark.parametrize("number", [1, 2])
def test_what_was_forgotten_comes_back_once(memory, cut_at, number):
    memory.forget(ids=["m1", "m2"])
    cuts = cut_at(number)
    assert memory.restore(ids=["m1"]).counts == {"message": 1}
    assert cuts
    assert sorted(m.id for m in memory.recent_messages("s")) == ["m0", "m1", "m3", "m4", "m5"]
