"""Killed while an older file is brought to the newest schema: it is as it was, and the next open finishes."""

import os
import signal
import subprocess
import sys
import time

import apsw
import pytest
from first_schema import make_first_schema
from samples import by_words

from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, SqliteStore

MORE = 1_500
ANA = Scope(user_id="ana")

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


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """An older file, the ids in it, and how long it takes to migrate."""
    path = tmp_path_factory.mktemp("old") / "agent.db"
    ids = make_first_schema(path, ["ana"], more=MORE)["ana"]
    copy = path.with_name("timed.db")
    copy.write_bytes(path.read_bytes())
    began = time.monotonic()
    SqliteDatabase(copy).close()
    return path, ids, time.monotonic() - began


def version(path):
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
def test_nothing_is_lost_and_the_next_open_finishes(tmp_path, original, share):
    source, ids, seconds = original
    path = tmp_path / "agent.db"
    path.write_bytes(source.read_bytes())
    opener = subprocess.Popen(
        [sys.executable, "-c", OPENER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert opener.stdout.readline() == "ready\n"
    opener.stdin.write("go\n")
    opener.stdin.flush()
    time.sleep(share * seconds)
    os.kill(opener.pid, signal.SIGKILL)
    rest = opener.communicate(timeout=60)[0]
    if rest == "":
        assert version(path) in (1, 2)
        if share < 0.5:
            assert version(path) == 1, "all of it is one transaction"
    database = SqliteDatabase(path)
    store = SqliteStore(database)
    assert version(path) == 2
    assert f"{len(ids)} records" in database.check()
    assert store.match(Query(scope=ANA, text="填充")).total == len(ids) == MORE + 7
    for id_ in ids[::150]:
        if id_ not in "ek":
            assert by_words(store, Query(scope=ANA, text=f"w{id_}", limit=3)) == [id_]
    assert by_words(store, Query(scope=ANA, text="日志")) == ["e"]
    database.close()


def test_two_processes_that_open_an_older_file_at_once(tmp_path, original):
    source, ids, _ = original
    path = tmp_path / "agent.db"
    path.write_bytes(source.read_bytes())
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for opener in openers:
        assert opener.stdout.readline() == "ready\n"
    said = [opener.communicate("go\n", timeout=120)[0] for opener in openers]
    assert "done\n" in said
    database = SqliteDatabase(path)
    assert f"{len(ids)} records" in database.check()
    database.close()
