"""Taking out and bringing back: a full disk, a locked file, a process that is killed, and no byte left."""

import os
import signal
import subprocess
import time

import pytest
from other_processes import begin_together, begun
from refusing import refused
from samples import ANA, START, by_words, message

from jiyi.errors import DatabaseLocked, DiskFull, WrongState
from jiyi.records import Query
from jiyi.storage import Amendment, SqliteDatabase, Store, Trash

COUNT = 300
KEYS = [("message", f"{i}") for i in range(COUNT)]


@pytest.fixture
def open_it(path):
    databases = []

    def make(**options):
        database = SqliteDatabase(path, **options)
        databases.append(database)
        return database, Store(database), Trash(database)

    yield make
    for database in databases:
        database.close()


def fill(store, text="filler 填充 " * 20):
    store.put([message(f"w{i}q {text}", id=f"{i}") for i in range(COUNT)])


def check_whole(database, store, trash, there):
    """All or none: everything is on one side, and the parts of the file agree."""
    found = store.find(Query(scope=ANA, kinds=("message",), limit=10_000))
    assert [m.seq for m in found] == (list(range(COUNT)) if there else [])
    assert len(trash.discarded(Query(scope=ANA, limit=10_000))) == (0 if there else COUNT)
    assert by_words(store, Query(scope=ANA, text="w5q")) == (["5"] if there else [])
    assert store.count(Query(scope=ANA, kinds=("session",)))["session"] == int(there)
    database.check()


def test_a_full_disk_leaves_everything_where_it_was(open_it):
    database, store, trash = open_it()
    fill(store)
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


def test_a_locked_file_is_named_and_everything_is_where_it_was(open_it, hold):
    database, store, trash = open_it(lock_timeout=0.2)
    fill(store)
    trash.discard(ANA, KEYS[:5], reason="x", at=START)
    release = hold()
    for write in (
        lambda: trash.discard(ANA, KEYS, reason="x", at=START),
        lambda: trash.restore(ANA, KEYS),
        lambda: trash.erase(ANA),
        lambda: store.amend(ANA, "message", [Amendment(id="9", pinned=True)]),
        trash.scrub,
    ):
        with pytest.raises(DatabaseLocked):
            write()
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


def test_a_process_that_is_killed_leaves_all_or_none(open_it, path):
    database, store, trash = open_it()
    fill(store)
    for number in range(6):
        child = begun(KILLED, path, COUNT)
        time.sleep(0.05 + 0.07 * number)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
        check_whole(database, store, trash, there=not trash.discarded(Query(scope=ANA)))
    trash.restore(ANA, KEYS)
    check_whole(database, store, trash, there=True)


def test_two_processes_that_take_out_the_same_at_once(open_it, path):
    database, store, trash = open_it()
    fill(store)
    begin_together(2, KILLED.replace("while True:", "for _ in range(4):"), path, COUNT)
    check_whole(database, store, trash, there=True)


def test_scrubbing_leaves_no_byte_and_needs_the_file_alone(open_it, hold, path):
    database, store, trash = open_it(lock_timeout=0.2)
    fill(store, "Kennwort Übergang 密码本 " * 10)
    store.put([message("kept", id="kept")])
    secrets = [b"Kennwort", "密码本".encode(), b"w17q", b"\\u5bc6"]

    def left():
        files = sorted(map(str, path.parent.glob("agent.db*")))
        # In a process of its own: closing a file here would take this process's locks on it away.
        found = subprocess.run(["cat", *files], capture_output=True, check=True).stdout
        return [secret for secret in secrets if secret in found]

    assert left() == secrets[:3]
    trash.discard(ANA, KEYS, reason="x", at=START)
    assert trash.erase(ANA) == COUNT
    assert left() != []
    release = hold("BEGIN; SELECT count(*) FROM documents")
    refused(DatabaseLocked, r"old bytes may remain|nothing was changed", trash.scrub)
    with store.transaction(), pytest.raises(WrongState, match="after the transaction"):
        trash.scrub()
    release()
    trash.scrub()
    assert left() == []
    assert by_words(store, Query(scope=ANA, text="kept")) == ["kept"]
    store.put([message("after", id="after")])
    assert store.count(Query(scope=ANA, kinds=("message",)))["message"] == 2
    database.check()
