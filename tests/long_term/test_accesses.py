"""Access counts: written after the answer, in batches, added to those of others, never in the way."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from at_once import wait_until
from refusing import refused
from samples import ANA, START, episode, message

from jiyi.errors import DatabaseLocked, StorageError
from jiyi.long_term import Accesses
from jiyi.records import Hit, Query
from jiyi.storage import SqliteDatabase, Store
from jiyi.testing import ManualClock


class Watched(Store):
    """Counts its transactions, and refuses as many as it is told to."""

    def __init__(self, database):
        super().__init__(database)
        self.transactions = 0
        self.refuse = 0

    def together(self, verb, **options):
        self.transactions += 1
        if self.refuse:
            self.refuse -= 1
            raise DatabaseLocked("the file is locked by another process")
        return super().together(verb, **options)


@pytest.fixture
def store(database):
    return Watched(database)


@pytest.fixture
def clock():
    return ManualClock(START + timedelta(days=1))


@pytest.fixture
def accesses(store, clock):
    made = Accesses(store, clock=clock)
    yield made
    made.close()


def hit(record, kind):
    return Hit(record=record, kind=kind, score=1.0)


def counts(store, *ids):
    found = store.find(Query(scope=ANA, kinds=("episode", "knowledge"), ids=ids or None, limit=10_000))
    return {record.id: (record.access_count, record.last_accessed_at) for record in found}


def test_messages_are_not_counted(store, accesses):
    (said,) = store.put([message("disk", id="m")])
    accesses.note(ANA, [hit(said, "message")])
    accesses.note(ANA, [])
    accesses.flush()
    assert store.transactions == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "jiyi-accesses"]


@pytest.mark.slow
def test_they_are_written_a_little_later_by_themselves_and_together(store, accesses):
    found = store.put([episode(id=f"e{i}") for i in range(30)])
    for record in found:
        accesses.note(ANA, [hit(record, "episode")])
    assert store.transactions == 0, "nobody waits for the write, which comes after two seconds"
    wait_until(lambda: {count for count, _ in counts(store).values()} == {1})
    assert store.transactions <= 2, "what comes together is written together"
    accesses.note(ANA, [hit(found[0], "episode")])
    wait_until(lambda: counts(store, "e0")["e0"][0] == 2)


@pytest.mark.slow
def test_very_many_are_written_in_batches(store, accesses):
    many = store.put([episode(id=f"e{i}") for i in range(1_200)])
    accesses.note(ANA, [hit(past, "episode") for past in many])
    accesses.flush()
    assert ({count for count, _ in counts(store).values()}, store.transactions) == ({1}, 3)


def test_close_writes_the_rest_and_ends_the_thread(store, accesses):
    (past,) = store.put([episode(id="e")])
    accesses.note(ANA, [hit(past, "episode")])
    accesses.close()
    assert counts(store)["e"][0] == 1
    assert "jiyi-accesses" not in {thread.name for thread in threading.enumerate()}
    accesses.close()
    accesses.note(ANA, [hit(past, "episode")])
    assert "jiyi-accesses" not in {thread.name for thread in threading.enumerate()}


def test_counts_of_others_are_added_to(path, store, accesses, clock):
    (past,) = store.put([episode(id="e")])
    other_database = SqliteDatabase(path)
    later = datetime.max.replace(tzinfo=UTC)
    other = Accesses(Store(other_database), clock=lambda: later)
    for one in (accesses, other, accesses):
        one.note(ANA, [hit(past, "episode")])
    other.close()
    other_database.close()
    accesses.flush()
    assert counts(store) == {"e": (3, later)}, "and the latest time stays"


def test_a_record_deleted_meanwhile_is_passed_over(store, accesses):
    found = store.put([episode(id="gone"), episode(id="here")])
    accesses.note(ANA, [hit(record, "episode") for record in found])
    store.delete(Query(scope=ANA, kinds=("episode",), ids=("gone",)))
    accesses.flush()
    assert {id_: count for id_, (count, _) in counts(store).items()} == {"here": 1}


def test_what_could_not_be_written_is_kept_for_the_next_try(store, accesses, clock):
    found = store.put([episode(id=f"e{i}") for i in range(700)])
    accesses.note(ANA, [hit(record, "episode") for record in found])
    store.refuse = 1
    refused(StorageError, "locked", accesses.flush)
    assert {count for count, _ in counts(store).values()} == {0}
    moment = clock.forward(hours=1)
    accesses.note(ANA, [hit(found[0], "episode")])
    accesses.flush()
    got = counts(store)
    assert (got["e0"], {count for id_, (count, _) in got.items() if id_ != "e0"}) == ((2, moment), {1})


def test_a_batch_that_was_written_is_not_counted_twice_when_the_next_fails(store, accesses):
    found = store.put([episode(id=f"e{i}") for i in range(700)])
    accesses.note(ANA, [hit(record, "episode") for record in found])
    write, written = accesses._write, []

    def fail_the_second(*batch):
        written.append(batch)
        if len(written) == 2:
            raise StorageError("the disk failed")
        write(*batch)

    accesses._write = fail_the_second
    refused(StorageError, "the disk failed", accesses.flush)
    accesses.flush()
    assert {count for count, _ in counts(store).values()} == {1}


def test_a_store_that_fails_at_the_end_is_logged(store, accesses, caplog):
    (past,) = store.put([episode(id="e")])
    accesses.note(ANA, [hit(past, "episode")])
    store.refuse = 2
    with caplog.at_level(logging.WARNING, logger="jiyi"):
        accesses.close()
    assert "access counts wait: the file is locked" in caplog.text
    store.refuse = 0
    accesses.flush()
    assert counts(store)["e"][0] == 1


@pytest.mark.slow
def test_the_thread_goes_on_after_a_failure(store, accesses, caplog):
    (past,) = store.put([episode(id="e")])
    store.refuse = 1
    accesses.note(ANA, [hit(past, "episode")])
    wait_until(lambda: "accesses: next try" in caplog.text)
    accesses.note(ANA, [hit(past, "episode")])
    wait_until(lambda: counts(store)["e"][0] == 2)


def test_a_search_waits_for_nobody_who_writes(open_memory, hold):
    memory = open_memory(lock_timeout=60)
    past = memory.complete_task(memory.start_task("s", "restart nginx").id, summary="restarted")
    memory.save_message("s", role="user", content="nginx is back")
    memory.flush()
    release = hold()
    began = time.monotonic()
    for _ in range(5):
        assert past.id in [found.id for found in memory.search("nginx", around=2)]
        assert memory.build_context("s", "nginx?", 500).messages
    assert time.monotonic() - began < 20, "the lock would be waited for for a minute"
    assert memory.get(past.id).access_count == 0
    release()
    memory.close()
    assert open_memory().get(past.id).access_count >= 5
