"""Servers that stop, die or cut connections while several programs and threads save; programs that die."""

import time

import pytest
from at_once import wait_until
from postgres_faults.agreement import check_whole, order_of, wait_until_alone
from postgres_faults.happenings import cut_off, killed, stopped
from postgres_faults.saving import saving

from jiyi.errors import DatabaseUnreachable
from jiyi.storage.postgres import PostgresDatabase

THREADS, COUNT = 3, 40  # of each of two programs


@pytest.mark.parametrize("happens", [stopped, killed, cut_off])
def test_programs_that_save_wait_for_the_server_and_lose_nothing(postgres_server, postgres_url, happens):
    with saving(
        postgres_url, ("one", "two"), threads=THREADS, count=COUNT, reconnect_seconds=60, pool_max=2
    ) as savers:
        savers.wait_for(savers.expected // 6)
        happens(postgres_server, postgres_url, savers)
        savers.finish()
    assert savers.failed == []
    assert savers.closed == 2, "both programs closed their memories and ended"
    assert len(savers.saved) == savers.expected
    assert check_whole(postgres_url, savers.saved, every=7) == savers.expected
    for said in order_of(postgres_url, "ana", "shared").values():
        assert said == sorted(said), "what one thread said stays in its order"
    wait_until_alone(postgres_server.superuser_url, postgres_url)


def test_of_a_killed_program_all_that_was_acknowledged_is_there(postgres_server, postgres_url):
    with saving(postgres_url, ("one", "two"), threads=THREADS, count=COUNT, pool_max=3) as savers:
        savers.wait_for(savers.expected // 3)
        savers.kill(0)
        savers.finish()
    assert (savers.closed, savers.failed) == (1, [])
    there = check_whole(postgres_url, savers.saved, every=7)
    assert len(savers.saved) <= there <= len(savers.saved) + THREADS, "each thread had one at hand"
    wait_until_alone(postgres_server.superuser_url, postgres_url)


def test_while_the_server_is_away_every_verb_ends_and_the_worker_stays(
    open_memory, postgres_server, postgres_url
):
    memory = open_memory(background=True, reconnect_seconds=0.5, pool_seconds=1)
    memory.save_message("s", role="user", content="before wa", id="a")
    memory.flush()
    worker = memory._long_term.indexer._thread
    postgres_server.stop()
    with pytest.raises(DatabaseUnreachable, match="check that the server runs"):
        PostgresDatabase(postgres_url)
    verbs = (
        lambda: memory.save_message("s", role="user", content="never wb", id="b"),
        lambda: memory.search("before"),
        lambda: memory.build_context("s", "before", 500),
        lambda: memory.start_task("s", "mend the gateway"),
        lambda: memory.remember("I prefer tea"),
        memory.stats,
        memory.flush,
    )
    for verb in verbs:
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachable):
            verb()
        assert time.monotonic() - began < 9
    postgres_server.start()
    began = time.monotonic()
    assert len(memory.search("before")) == 1
    assert time.monotonic() - began < 3, "nobody waits longer than the server was away"
    memory.save_message("s", role="user", content="after wc", id="c")
    wait_until(lambda: not memory.stats()["vectors_pending"])
    assert worker.is_alive()
    assert check_whole(postgres_url, "ac") == 2


def test_closing_ends_while_the_server_is_away(open_memory, postgres_server, postgres_url):
    memory = open_memory(background=True, reconnect_seconds=60)
    memory.save_message("s", role="user", content="before wa", id="a")
    postgres_server.stop()
    began = time.monotonic()
    memory.close()
    assert time.monotonic() - began < 11, "the worker is waited for 5 s, the pool's threads 5 s"
    postgres_server.start()
    assert check_whole(postgres_url, "a") == 1
