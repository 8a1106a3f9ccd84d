"""Too many threads, locks that are held, deadlocks, conflicts, slow statements, and clocks that differ."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from at_once import at_once, wait_until
from postgres_faults.agreement import check_whole, sessions_of

from jiyi.clock import utc_now
from jiyi.errors import DatabaseBusy, DatabaseLocked, StorageError
from jiyi.records import Message, Scope


@pytest.fixture
def keeper(postgres_server, postgres_url):
    """A connection for whoever may do everything to the database."""
    url = postgres_server.url_of(postgres_url.rpartition("/")[2], superuser=True)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@contextmanager
def held(keeper, words):
    """Hold a lock in a transaction of somebody else's, as psql would."""
    with keeper.transaction():
        keeper.execute(words)
        yield


def said(text, user="ana", **fields):
    scope = Scope(user_id=user, session_id="s")
    return Message(role="user", content=text, scope=scope, created_at=utc_now(), **fields)


def test_a_pool_that_is_used_up_says_what_to_do_and_leaks_nothing(open_memory, postgres_url, postgres_server):
    memory = open_memory(pool_max=3, pool_seconds=0.5)
    memory.save_message("s", role="user", content="before wfirst", id="first")
    begun, enough = threading.Barrier(4), threading.Event()

    def hold(user):
        with memory._store.transaction():
            memory.save_message("s", role="user", content=f"held w{user}q0", user_id=user, id=f"{user}-0")
            begun.wait(20)
            assert enough.wait(20)

    def save(n):
        try:
            memory.save_message(f"s{n % 5}", role="user", content=f"w{n}", id=f"{n}")
        except DatabaseBusy as error:
            return "told" if "raise pool_max or pool_seconds" in str(error) else str(error)
        return "saved"

    with ThreadPoolExecutor(53) as threads:
        holders = [threads.submit(hold, user) for user in ("ben", "cleo", "dan")]
        begun.wait(20)
        began = time.monotonic()
        assert Counter(threads.map(save, range(50))) == {"told": 50}
        assert time.monotonic() - began < 15, "they wait side by side, not one after the other"
        enough.set()
        for holder in holders:
            holder.result()
    memory.close()
    patient = open_memory(pool_max=3, pool_seconds=60)
    saved = at_once(
        lambda n: patient.save_message(f"s{n % 5}", role="user", content=f"w{n}", id=f"{n}").id, range(50)
    )
    assert saved == [f"{n}" for n in range(50)]
    assert sessions_of(postgres_server.superuser_url, postgres_url) <= 3
    held = patient._store._db._pool._pool.get_stats()
    assert held["pool_available"] == held["pool_size"]
    assert check_whole(postgres_url, map(str, range(50)), every=10) == 54


OWNER = "SELECT FROM owners WHERE tenant_id = 'ana' FOR UPDATE"
DOCUMENTS, SESSIONS = "LOCK TABLE documents IN SHARE MODE", "LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE"


@pytest.mark.parametrize("words", [OWNER, DOCUMENTS, SESSIONS])
def test_a_lock_held_too_long_is_named_and_nothing_is_written(open_memory, keeper, postgres_url, words):
    memory = open_memory(lock_timeout=0.3)
    memory.save_message("s", role="user", content="before the lock wa", id="a")
    with held(keeper, words):
        began = time.monotonic()
        with pytest.raises(DatabaseLocked, match="lock_timeout; nothing was written"):
            memory.save_message("s", role="user", content="during the lock wb", id="b")
        assert 0.25 < time.monotonic() - began < 5
        assert [hit.id for hit in memory.search("lock")] == ["a"], "readers wait for nobody"
    assert memory.save_message("s", role="user", content="during the lock wb", id="b").seq == 1
    assert check_whole(postgres_url, "ab") == 2


def test_even_reading_ends_where_a_table_is_locked(open_memory, keeper):
    memory = open_memory(lock_timeout=0.3)
    memory.save_message("s", role="user", content="hello")
    with held(keeper, "LOCK TABLE documents IN ACCESS EXCLUSIVE MODE"), pytest.raises(DatabaseLocked):
        memory.session_messages("s")
    assert len(memory.session_messages("s")) == 1


def two_at_once(memory, run):
    """Let two threads write to two users in opposite order; return what became of them."""
    both = threading.Barrier(2)

    def write(name, first, second):
        met = []

        def write_both():
            memory._store.put([said(f"w{name}q{first}", first, id=f"{name}-{first}")])
            if not met:
                met.append(both.wait(20))
            memory._store.put([said(f"w{name}q{second}", second, id=f"{name}-{second}")])

        try:
            run(write_both)
        except StorageError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(write, "one", "ana", "ben")
        two = threads.submit(write, "two", "ben", "ana")
        return {"one": one.result(), "two": two.result()}


def test_of_two_that_wait_for_each_other_one_is_undone_as_a_whole(open_memory, postgres_url):
    memory = open_memory()

    def in_one_transaction(verb):
        with memory._store.transaction():
            verb()

    ends = two_at_once(memory, in_one_transaction)
    (undone,) = [name for name, error in ends.items() if error]
    assert isinstance(ends[undone], DatabaseBusy)
    assert "deadlock" in str(ends[undone])
    assert "nothing was written, try again" in str(ends[undone])
    (done,) = {"one", "two"} - {undone}
    for user in ("ana", "ben"):
        assert [m.id for m in memory.session_messages("s", user_id=user)] == [f"{done}-{user}"]
    assert check_whole(postgres_url, [f"{done}-ana", f"{done}-ben"]) == 2


def test_a_deadlock_of_what_can_be_repeated_is_solved_unseen(open_memory, postgres_url):
    memory = open_memory()
    assert two_at_once(memory, memory._store.together) == {"one": None, "two": None}
    ids = [f"{name}-{user}" for name in ("one", "two") for user in ("ana", "ben")]
    assert check_whole(postgres_url, ids) == 4


FAILING = """
CREATE SEQUENCE tries;
GRANT ALL ON SEQUENCE tries TO PUBLIC;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('tries') <= {times} THEN RAISE EXCEPTION 'made for a test' USING ERRCODE = '{code}'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON documents FOR EACH ROW EXECUTE FUNCTION fail();
"""


@pytest.mark.parametrize("code", ["40001", "40P01"], ids=["serialization", "deadlock"])
def test_a_save_that_the_server_undoes_is_done_again(open_memory, keeper, postgres_url, code):
    memory = open_memory()
    memory.save_message("s", role="user", content="before wa", id="a")
    keeper.execute(FAILING.format(times=3, code=code))
    assert memory.save_message("s", role="user", content="after three tries wb", id="b").seq == 1
    assert keeper.execute("SELECT last_value FROM tries").fetchone() == (4,)
    keeper.execute("DROP TRIGGER fail ON documents")
    assert check_whole(postgres_url, "ab") == 2


def test_a_save_that_is_undone_every_time_ends(open_memory, keeper, postgres_url):
    memory = open_memory()
    memory.save_message("s", role="user", content="before wa", id="a")
    keeper.execute(FAILING.format(times=1_000, code="40001"))
    with pytest.raises(DatabaseBusy, match="try again"):
        memory.save_message("s", role="user", content="never wb", id="b")
    keeper.execute("DROP TRIGGER fail ON documents")
    assert check_whole(postgres_url, "a") == 1


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = 86_400


def test_messages_keep_their_order_while_the_clock_goes_back(open_memory, postgres_url):
    moments = [NOON, NOON - timedelta(hours=1), NOON + timedelta(days=1), NOON - timedelta(days=30)]
    now = moments[:1]
    memory = open_memory(clock=lambda: now[0])
    for n, now[0] in enumerate(moments):
        assert memory.save_message("s", role="user", content=f"word w{n}", id=f"{n}").seq == n
    assert [m.id for m in memory.recent_messages("s")] == ["0", "1", "2", "3"]
    assert [m.created_at for m in memory.session_messages("s")] == moments
    (session,) = memory.sessions()
    assert (session.started_at, session.last_active_at) == (min(moments), max(moments))
    assert len(memory.search("word")) == 4, "also what was said in the future"
    assert check_whole(postgres_url, "0123") == 4


def test_processes_whose_clocks_differ_write_one_session(open_memory, postgres_url):
    ahead, behind = open_memory(clock=lambda: NOON + timedelta(days=1)), open_memory(clock=lambda: NOON)
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
