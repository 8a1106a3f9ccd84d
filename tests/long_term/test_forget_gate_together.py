"""Several gates on one file at once, writers beside them, and gates that are killed on the way."""

import multiprocessing
import random
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from at_once import at_once
from samples import ANA, START, episode, knowledge, task

from jiyi.long_term.forget_gate import gate as gate_module
from jiyi.long_term.forget_gate.gate import ForgetGate
from jiyi.long_term.forget_gate.rules import ForgetRule
from jiyi.records import Query
from jiyi.storage import SqliteDatabase, Store, Trash

COUNT, MOST = 600, 150
NOW = START + timedelta(days=100)
RULE = ForgetRule(max_episodes=MOST)

SPAWN = multiprocessing.get_context("spawn")


def _gate(path, batch, pipe):
    """Run a gate when told to, in a process of its own, and tell what it let go."""
    database = SqliteDatabase(path, lock_timeout=60)
    pipe.send("ready")
    pipe.recv()
    pipe.send(run(database, batch=batch).discarded)
    database.close()


@pytest.fixture
def start(path):
    """Start a gate in a process of its own; it waits for a word."""
    started = []

    def make(batch=20):
        pipe, other = SPAWN.Pipe()
        started.append(SPAWN.Process(target=_gate, args=(path, batch, other)))
        started[-1].start()
        assert pipe.recv() == "ready"
        return started[-1], pipe

    yield make
    for process in started:
        process.kill()
        process.join(30)


@pytest.fixture
def full(store):
    """A memory of which a quarter sinks below the threshold and more than half is too much."""
    records = []
    for n in range(COUNT):
        ended = "failed" if n % 4 == 0 else "success"
        records.append(task(id=f"t{n}", at=n * 60, status="completed", outcome=ended))
        records.append(episode(id=f"e{n}", at=n * 60, outcome=ended, task_id=f"t{n}", access_count=n % 3))
    store.put(records)
    return store


def run(database, **options):
    parts = Store(database), Trash(database)
    return ForgetGate(*parts, rule=RULE, clock=lambda: NOW, **options).run(ANA)


def there(database):
    """Where each record is: the ids in the memory, and those in the trash."""
    store, trash = Store(database), Trash(database)
    query = Query(scope=ANA, kinds=("episode", "task"), limit=10_000)
    return [record.id for record in store.find(query)], [entry.record.id for entry in trash.discarded(query)]


def check_nothing_is_lost(database):
    kept, lying = there(database)
    everything = {f"{letter}{n}" for letter in "et" for n in range(COUNT)}
    assert sorted(kept + lying) == sorted(everything), "each is in one place, and in one only"
    assert {id_[1:] for id_ in kept if id_[0] == "e"} == {id_[1:] for id_ in kept if id_[0] == "t"}
    database.check()
    return kept


@pytest.fixture
def expected(full, tmp_path):
    """What one run alone leaves, tried on a copy."""
    copied = SqliteDatabase(tmp_path / "copy.db")
    Store(copied).put(full.find(Query(scope=ANA, kinds=("task", "episode"), limit=10_000)))
    run(copied)
    kept, _ = there(copied)
    copied.close()
    assert len(kept) == 2 * MOST
    return sorted(kept)


@pytest.mark.slow
def test_two_processes_at_once_do_what_one_would(full, database, start, expected):
    gates = [start(), start(batch=33)]
    for _, pipe in gates:
        pipe.send("go")
    counts = [sum(pipe.recv().get("episode", {}).values()) for _, pipe in gates if pipe.poll(120)]
    for process, _ in gates:
        process.join(120)
        assert process.exitcode == 0
    assert sorted(check_nothing_is_lost(database)) == expected
    assert sum(counts) == COUNT - MOST, "each record is counted by the one that took it"


@pytest.mark.slow
def test_threads_at_once_with_other_clocks_never_leave_too_few(full, path):
    """Their ages differ, so do their cuts: together they must not take more than is too much."""
    opened = [SqliteDatabase(path, lock_timeout=60) for _ in range(3)]

    def work(pair):
        number, database = pair
        parts = Store(database), Trash(database)
        now = NOW - timedelta(days=80) + number * timedelta(days=9)
        rule = ForgetRule(max_episodes=MOST, threshold=0.0)
        ForgetGate(*parts, rule=rule, clock=lambda: now, batch=5 + number).run(ANA)

    at_once(work, enumerate(opened))
    assert len(check_nothing_is_lost(opened[0])) == 2 * MOST
    for database in opened:
        database.close()


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_lost_and_the_next_run_finishes(full, database, start, expected):
    seeded, unfinished = random.Random(7), 0
    for tries in range(40):
        if tries >= 5 and unfinished:
            break
        process, pipe = start(batch=3)
        pipe.send("go")
        time.sleep(seeded.uniform(0.0, 0.15 + 0.03 * tries))  # a busy machine needs longer to begin
        process.kill()
        process.join(30)
        unfinished += 2 * MOST < len(check_nothing_is_lost(database)) < 2 * COUNT
    assert unfinished, "none was killed on its way"
    run(database)
    assert sorted(check_nothing_is_lost(database)) == expected


class Meanwhile(Store):
    """A store after whose scans something happens, as another process might do it."""

    def __init__(self, database, happens):
        super().__init__(database)
        self._happens = happens

    def scan(self, query, after=None, **options):
        page = super().scan(query, after, **options)
        self._happens()
        return page


def test_what_was_pinned_or_recalled_since_it_was_looked_at_stays(store, database):
    store.put([episode(id=name, outcome="failed") for name in ("pinned", "recalled", "gone", "e")])

    def happens():
        there = {e.id: e for e in store.find(Query(scope=ANA, kinds=("episode",)))}
        if "gone" in there:
            store.put([replace(there["pinned"], pinned=True), replace(there["recalled"], access_count=4)])
            store.delete(Query(scope=ANA, kinds=("episode",), ids=("gone",)))

    trash = Trash(database)
    receipt = ForgetGate(Meanwhile(database, happens), trash, clock=lambda: NOW).run(ANA)
    assert receipt.discarded == {"episode": {"importance below 0.25": 1}}
    assert {e.id for e in store.find(Query(scope=ANA, kinds=("episode",)))} == {"pinned", "recalled"}


class SlowMachine:
    """Time in which each look at the clock is 0.05 s later, and in which nobody sleeps."""

    def __init__(self, database):
        self.now, self.held, self.free, self._store = 0.0, [0.0], [], Store(database)

    def monotonic(self):
        self.now += 0.05
        self.held[-1] += 0.05
        return self.now

    def sleep(self, seconds):
        """Who waits without any patience gets in now."""
        self._store.put([knowledge(id=f"k{len(self.free)}")])
        self.free.append(seconds)
        self.held.append(0.0)


def test_the_write_lock_is_left_free_for_longer_than_a_waiter_sleeps(full, database, path, monkeypatch):
    """SQLite looks again every 0.1 s: a writer with two seconds of patience finds it free several times."""
    impatient = SqliteDatabase(path, lock_timeout=0)
    machine = SlowMachine(impatient)
    monkeypatch.setattr(gate_module, "time", machine)
    assert run(database, batch=10).total == 2 * (COUNT - MOST)
    assert len(machine.free) >= 5
    assert max(machine.held) <= 1.2, "of two seconds of patience"
    assert min(machine.free) > 0.1
    impatient.close()
