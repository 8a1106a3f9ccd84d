"""Processes killed on the way, or side by side: while they read, migrate, take out and bring back."""

import os
import random
import signal
import time
from datetime import UTC, datetime, timedelta

import apsw
import pytest
from at_once import wait_until
from first_schema import make_first_schema
from other_processes import begin_together, begun
from reading_model import ReadingModel, line
from refusing import raises, refused
from samples import ANA, START, by_words, fact, message
from scripted_endpoint import Reply
from second_schema import make_second_schema

from jiyi.errors import DatabaseLocked, DiskFull
from jiyi.records import Query
from jiyi.storage import Amendment, SqliteDatabase, Store, Trash

READER = """
import sys
import jiyi
from jiyi.testing import HashEmbedder
url, server, background = sys.argv[1:]
memory = jiyi.open(
    url, user_id="ana", embedder=HashEmbedder(), background=background == "yes", llm_model="m",
    llm_base_url=server, llm_api_key="", llm_seconds=20, reader_messages=3, reader_pause_minutes=0,
)
print("ready", flush=True)
sys.stdin.readline()
if background == "no":
    print(memory.maintain().reading.stretches, flush=True)
else:
    sys.stdin.readline()
"""


@pytest.fixture
def talk(open_memory, place):
    """Forty messages in eight sessions, of which no pattern makes anything."""
    memory = open_memory(place)
    for number in range(40):
        memory.save_message(f"s-{number % 8}", role="user", content=line(number), id=f"m-{number}")
    return memory


def check_all_is_known_once(memory):
    facts = [fact for fact in memory.facts(limit=1_000) if fact.predicate == "keeper"]
    assert sorted(fact.subject for fact in facts) == sorted(f"pump-{number}" for number in range(40))
    assert {(fact.sources, fact.confidence) for fact in facts} == {((f"m-{n}",), 0.7) for n in range(40)}


def test_two_processes_at_once_read_each_stretch_once(place, talk):
    with ReadingModel(*[Reply(body=slowly) for _ in range(16)]) as server:
        done = [int(said) for said in begin_together(2, READER, place, server.url, "no")]
        assert len(server.asked) == sum(done) == 16
    assert min(done) > 0, "both had work"
    check_all_is_known_once(talk)


def slowly(asked):
    time.sleep(0.05)
    return ReadingModel.honest(asked)


def test_what_a_killed_process_was_reading_is_read_later_and_counts_once(place, talk, open_memory):
    rounds = random.Random(5)
    with ReadingModel(*[Reply(body=slowly) for _ in range(100)]) as server:
        readers = [begun(READER, place, server.url, "yes") for _ in range(2)]
        wait_until(lambda: len(server.asked) >= 3)
        assert all(reader.poll() is None for reader in readers)
        for reader in readers:
            time.sleep(rounds.uniform(0, 0.1))
            os.kill(reader.pid, signal.SIGKILL)
            reader.communicate(timeout=60)
        later = {"clock": lambda: datetime.now(UTC) + timedelta(hours=1), "reader_messages": 3}
        memory = open_memory(place, llm_model="m", llm_base_url=server.url, llm_api_key="", **later)
        assert memory.stats()["messages_unread"] > 0
        memory.maintain()
        assert memory.stats()["messages_unread"] == 0
    check_all_is_known_once(memory)


MORE = 1_500
NEWEST = 10

OPENER = """
import sys
from jiyi.storage import SqliteDatabase
from jiyi.text import analyse
analyse("热身 warm")
print("ready", flush=True)
sys.stdin.readline()
SqliteDatabase(sys.argv[1]).close()
print("done", flush=True)
"""


@pytest.fixture(scope="module", params=[(1, make_first_schema, MORE), (2, make_second_schema, 4 * MORE)])
def original(tmp_path_factory, request):
    """An older file, its schema, the ids in it, and how long it takes to migrate."""
    schema, make, more = request.param
    path = tmp_path_factory.mktemp("old") / "agent.db"
    ids = make(path, ["ana"], more=more)["ana"]
    copy = path.with_name("timed.db")
    copy.write_bytes(path.read_bytes())
    began = time.monotonic()
    SqliteDatabase(copy).close()
    return path, schema, ids, time.monotonic() - began


def version(path):
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
def test_nothing_is_lost_and_the_next_open_finishes(tmp_path, original, share):
    source, schema, ids, seconds = original
    path = tmp_path / "agent.db"
    path.write_bytes(source.read_bytes())
    opener = begun(OPENER, path)
    time.sleep(share * seconds)
    os.kill(opener.pid, signal.SIGKILL)
    rest = opener.communicate(timeout=60)[0]
    if rest == "":
        assert version(path) in (schema, NEWEST)
        if share < 0.5:
            assert version(path) == schema, "all of it is one transaction"
    database = SqliteDatabase(path)
    store = Store(database)
    assert version(path) == NEWEST
    assert f"{len(ids):,} records" in database.check()
    assert store.match(Query(scope=ANA, text="填充")).total == len(ids)
    said = [id_ for id_ in ids if "q" in id_]
    assert len(said) >= MORE
    for id_ in said[::150]:
        assert by_words(store, Query(scope=ANA, text=f"w{id_}", limit=3)) == [id_]
    past = store.find(Query(scope=ANA, kinds=("episode",)))
    assert {e.id for e in past} == {id_ for id_ in ids if id_[0] == "e"}
    assert {*by_words(store, Query(scope=ANA, text="日志"))} == {e.id for e in past}
    assert "e2" in ids or [e.id for e in store.find(Query(scope=ANA, target="WEB-7"))] == ["e"]
    assert "e2" not in ids or [k.id for k in store.find(Query(scope=ANA, sources=("e2",)))] == ["k1"]
    assert store.put([fact(id="f")]) == store.find(Query(scope=ANA, subject="edge-02 网关"))
    database.close()
    assert version(path) == NEWEST


def test_two_processes_that_open_an_older_file_at_once(tmp_path, original):
    source, _, ids, _ = original
    path = tmp_path / "agent.db"
    path.write_bytes(source.read_bytes())
    assert begin_together(2, OPENER, path) == ["done\n"] * 2
    database = SqliteDatabase(path)
    assert f"{len(ids):,} records" in database.check()
    database.close()


COUNT = 300
KEYS = [("message", f"{i}") for i in range(COUNT)]


@pytest.fixture
def parts(path):
    """A database with messages, its store and its trash."""
    database = SqliteDatabase(path, lock_timeout=0.2)
    Store(database).put([message(f"w{i}q {'filler 填充 ' * 20}", id=f"{i}") for i in range(COUNT)])
    yield database, Store(database), Trash(database)
    database.close()


def check_whole(database, store, trash, there):
    """All or none: everything is on one side, and the parts of the file agree."""
    found = store.find(Query(scope=ANA, kinds=("message",), limit=10_000))
    assert [m.seq for m in found] == (list(range(COUNT)) if there else [])
    assert len(trash.discarded(Query(scope=ANA, limit=10_000))) == (0 if there else COUNT)
    assert by_words(store, Query(scope=ANA, text="w5q")) == (["5"] if there else [])
    assert store.count(Query(scope=ANA, kinds=("session",)))["session"] == int(there)
    database.check()


def test_a_full_disk_leaves_everything_where_it_was(parts):
    database, store, trash = parts
    writer = database._writer
    (pages,) = writer.raw.execute("PRAGMA page_count").fetchone()
    writer.raw.execute(f"PRAGMA max_page_count={pages + 3}")
    refused(DiskFull, "nothing was written", trash.discard, ANA, KEYS, reason="x" * 2_000, at=START)
    check_whole(database, store, trash, there=True)
    writer.raw.execute("PRAGMA max_page_count=4294967294")
    trash.discard(ANA, KEYS, reason="x", at=START)
    check_whole(database, store, trash, there=False)
    assert len(trash.restore(ANA, KEYS)) == COUNT
    check_whole(database, store, trash, there=True)


def test_a_locked_file_is_named_and_everything_is_where_it_was(parts, hold):
    database, store, trash = parts
    trash.discard(ANA, KEYS[:5], reason="x", at=START)
    release = hold()
    for write in (
        lambda: trash.discard(ANA, KEYS, reason="x", at=START),
        lambda: trash.restore(ANA, KEYS),
        lambda: trash.erase(ANA),
        lambda: store.amend(ANA, "message", [Amendment(id="9", pinned=True)]),
        trash.scrub,
    ):
        raises(DatabaseLocked, write)
    assert len(trash.discarded(Query(scope=ANA, limit=100))) == 5
    assert len(store.scan(Query(scope=ANA, kinds=("message",), limit=10_000)).records) == COUNT - 5
    release()
    assert len(trash.restore(ANA, KEYS)) == 5
    check_whole(database, store, trash, there=True)


KILLED = """
import sys
from datetime import UTC, datetime
from jiyi.records import Scope
from jiyi.storage import SqliteDatabase, Trash
database = SqliteDatabase(sys.argv[1], lock_timeout=60)
trash, scope = Trash(database), Scope(user_id="ana")
keys = [("message", f"{i}") for i in range(int(sys.argv[2]))]
print("ready", flush=True)
sys.stdin.readline()
while True:
    trash.discard(scope, keys, reason="x", at=datetime(2026, 3, 1, tzinfo=UTC))
    trash.restore(scope, keys)
"""


def test_a_process_that_is_killed_leaves_all_or_none(parts, path):
    database, store, trash = parts
    for number in range(6):
        child = begun(KILLED, path, COUNT)
        time.sleep(0.05 + 0.07 * number)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
        check_whole(database, store, trash, there=not trash.discarded(Query(scope=ANA)))
    trash.restore(ANA, KEYS)
    check_whole(database, store, trash, there=True)


def test_two_processes_that_take_out_the_same_at_once(parts, path):
    database, store, trash = parts
    begin_together(2, KILLED.replace("while True:", "for _ in range(4):"), path, COUNT)
    check_whole(database, store, trash, there=True)
