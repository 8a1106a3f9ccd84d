"""A network that takes every byte and brings none, and answers that get lost on the way."""

import threading
import time
from urllib.parse import urlsplit

import pytest
from at_once import at_once, wait_until
from postgres_faults.agreement import check_whole

import jiyi
from jiyi.errors import DatabaseUnreachable
from jiyi.testing import HashEmbedder

BRIEF = {"statement_seconds": 1, "reconnect_seconds": 1, "pool_seconds": 1}
# What is not settable: how much longer than a statement a sign of life is waited for.
GRACE = 0.5
BOUND = 1 + GRACE + 1 + 2 + 3  # patience, reconnect_seconds, connect_timeout, and a busy machine


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr("jiyi.storage.postgres.pool._GRACE", GRACE)


def by(wire):
    return f"{wire.url}?connect_timeout=2"


def timed(verb):
    """Return the error of a verb and how long it took to come."""
    began = time.monotonic()
    with pytest.raises(DatabaseUnreachable) as caught:
        verb()
    return caught.value, time.monotonic() - began


def test_no_call_hangs_in_a_silent_network_and_all_goes_on_behind_it(wire, open_memory, postgres_url):
    memory = open_memory(by(wire), background=True, **BRIEF)
    memory.save_message("s", role="user", content="before the silence wa", id="a")
    memory.flush()
    worker = memory._long_term.indexer._thread
    wire.silence()
    verbs = (
        lambda: memory.save_message("s", role="user", content="into the silence wb", id="b"),
        lambda: memory.search("before"),
        lambda: memory.recent_messages("s"),
        lambda: memory.build_context("s", "before", 500),
        memory.stats,
    )
    for error, seconds in at_once(timed, verbs):
        assert seconds < BOUND
        assert "no answer for" in str(error) or "cannot be reached" in str(error)
        assert str(urlsplit(wire.url).password) not in str(error)
    wire.speak()
    memory.save_message("s", role="user", content="into the silence wb", id="b")
    memory.save_message("s", role="user", content="behind the silence wc", id="c")
    assert worker.is_alive()
    wait_until(lambda: not memory.stats()["vectors_pending"])  # the worker goes on by itself
    assert memory._long_term.indexer.last_error is None
    assert next(hit.id for hit in memory.search("behind")) == "c"
    assert check_whole(postgres_url, "abc") == 3


def test_closing_and_opening_end_in_a_silent_network(wire, open_memory):
    memory = open_memory(by(wire), background=True, **BRIEF)
    memory.save_message("s", role="user", content="hello")
    wire.silence()
    began = time.monotonic()
    memory.close()
    assert time.monotonic() - began < 11  # the worker is waited for 5 s, the pool's threads 5 s
    _, seconds = timed(lambda: jiyi.open(by(wire), user_id="ana", embedder=HashEmbedder(256)))
    assert seconds < 5
    wire.speak()


@pytest.mark.parametrize("silently", [False, True], ids=["cut", "silent"])
def test_an_answer_that_is_lost_behind_the_commit_makes_nothing_twice(
    wire, open_memory, postgres_url, silently
):
    memory = open_memory(by(wire), **BRIEF | {"reconnect_seconds": 20})
    memory.save_message("s", role="user", content="before wa", id="a")
    wire.lose_commits(1, silently=silently)
    again = threading.Timer(2.5, wire.speak)
    if silently:
        again.start()
    saved = memory.save_message("s", role="user", content="once wb", id="b")
    again.cancel()
    assert wire.lost == 1
    assert saved.seq == 1
    assert memory.save_message("s", role="user", content="once wb", id="b") == saved
    assert [message.id for message in memory.session_messages("s")] == ["a", "b"]
    assert check_whole(postgres_url, "ab") == 2


def test_who_does_not_wait_is_told_that_it_is_not_known_and_may_save_again(wire, open_memory, postgres_url):
    memory = open_memory(by(wire), **BRIEF | {"reconnect_seconds": 0})
    memory.save_message("s", role="user", content="before wa", id="a")
    wire.lose_commits(1)
    with pytest.raises(DatabaseUnreachable, match="not known"):
        memory.save_message("s", role="user", content="once wb", id="b")
    assert wire.lost == 1
    assert memory.save_message("s", role="user", content="once wb", id="b").seq == 1
    assert check_whole(postgres_url, "ab") == 2


def test_what_would_be_done_twice_is_not_repeated(wire, open_memory, postgres_url):
    memory = open_memory(by(wire), **BRIEF)
    task = memory.start_task("s", "mend the gateway")
    wire.lose_commits(1)
    with pytest.raises(DatabaseUnreachable, match="not known"):
        memory.add_step(task.id, "look at the log")
    assert [step.description for step in memory.get(task.id).steps] == ["look at the log"]
    episode = memory.complete_task(task.id)
    assert memory.get(episode.id) == episode
