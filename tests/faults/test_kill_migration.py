"""Killed while an older file is brought to the newest schema: it is as it was, and the next open finishes."""

import os
import signal
import time

import apsw
import pytest
from first_schema import make_first_schema
from other_processes import begin_together, begun
from samples import by_words, fact
from second_schema import make_second_schema

from jiyi.records import Query, Scope
from jiyi.storage import SqliteDatabase, Store

MORE = 1_500
NEWEST = 10
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
    assert f"{len(ids)} records" in database.check()
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
    assert f"{len(ids)} records" in database.check()
    database.close()
