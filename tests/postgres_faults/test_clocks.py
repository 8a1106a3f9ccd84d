"""Clocks that go back, and processes whose clocks differ."""

import time
from datetime import UTC, datetime, timedelta

from at_once import wait_until
from postgres_faults.agreement import check_whole

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def test_messages_keep_their_order_while_the_clock_goes_back(open_memory, postgres_url):
    clock = Clock(NOON)
    memory = open_memory(clock=clock)
    moments = [NOON, NOON - timedelta(hours=1), NOON + timedelta(days=1), NOON - timedelta(days=30)]
    for n, moment in enumerate(moments):
        clock.now = moment
        assert memory.save_message("s", role="user", content=f"word w{n}", id=f"{n}").seq == n
    assert [m.id for m in memory.recent_messages("s")] == ["0", "1", "2", "3"]
    assert [m.created_at for m in memory.session_messages("s")] == moments
    (session,) = memory.sessions()
    assert (session.started_at, session.last_active_at) == (min(moments), max(moments))
    assert len(memory.search("word")) == 4, "also what was said in the future"
    assert check_whole(postgres_url, "0123") == 4


def test_processes_whose_clocks_differ_write_one_session(open_memory, postgres_url):
    ahead, behind = open_memory(clock=Clock(NOON + timedelta(days=1))), open_memory(clock=Clock(NOON))
    for n in range(6):
        (ahead, behind)[n % 2].save_message("s", role="user", content=f"word w{n}", id=f"{n}")
        for memory in (ahead, behind):
            assert [m.seq for m in memory.recent_messages("s")] == list(range(n + 1))
    task = ahead.start_task("s", "mend the gateway")
    behind.add_step(task.id, "look at the log")
    episode = behind.complete_task(task.id)
    assert ahead.get(episode.id) == episode
    behind.flush()
    assert check_whole(postgres_url, "012345") == 6


def lease(memory, seconds):
    """Take texts to embed as a process whose clock is wrong by some seconds, and die."""
    vectors = memory._long_term.indexer._vectors
    vectors._now = lambda: time.time() + seconds
    return len(vectors.pending(100))


def test_what_a_process_ahead_of_time_left_half_done_is_finished(open_memory, postgres_url):
    memory = open_memory()
    memory.save_messages("s", [{"role": "user", "content": f"word w{n}"} for n in range(5)])
    assert lease(memory, DAY) == 5
    right = open_memory(background=True)
    wait_until(lambda: not right.stats()["vectors_pending"])  # whoever opens the database takes them up
    right.save_message("s", role="user", content="word w5")
    assert lease(memory, DAY) <= 1
    right.flush()
    assert right.stats()["vectors_pending"] == 0


def test_a_process_behind_the_others_finishes_its_own(open_memory):
    memory = open_memory()
    memory.save_messages("s", [{"role": "user", "content": f"word w{n}"} for n in range(5)])
    assert lease(memory, -DAY) == 5
    other = open_memory()
    assert other._long_term.indexer._embed_batch(leased=True) == 5, "their lease is over for everybody else"
    assert memory.flush() == 0
    assert other.stats()["vectors_pending"] == 0
