"""What is asked often goes by an index: the plans SQLite makes for the statements that really run."""

import re
from datetime import timedelta

import apsw
import pytest
from samples import ANA, START, fact, message, summary
from tables import read_tables

from jiyi.errors import StorageError
from jiyi.records import SEARCHABLE, Query, Scope
from jiyi.storage import Amendment, Store, Trash


def test_a_statement_is_planned_once_whatever_its_values(database):
    with database.read() as reader, database.write() as writer:
        for db in (reader, writer):
            assert db.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)


def plans(database, ask):
    """The plan of each statement that runs while ``ask`` does, as one text."""
    run = []

    def note(_, sql, values):
        run.append((sql, values))
        return True

    with database.read() as db, database.write() as other:
        reader, writer = db.raw, other.raw
    for connection in (reader, writer):
        connection.set_exec_trace(note)
    try:
        ask()
    finally:
        for connection in (reader, writer):
            connection.set_exec_trace(None)
    found = []
    for sql, values in run:
        if re.match("SELECT|UPDATE|DELETE|INSERT", sql):
            steps = reader.execute(f"EXPLAIN QUERY PLAN {sql}", values)
            found.append("\n".join(step[3] for step in steps))
    assert found
    return found


IN_SESSION = Scope(user_id="ana", agent_id="a", session_id="s")
NEVER_WHOLE = re.compile(
    r"^SCAN (d|f|e|k|m|s|t|c|facts|episodes|documents|messages|knowledge|sources|terms|trash|vectors"
    r"|summaries|covered|other)\b",
    re.MULTILINE,
)


@pytest.mark.parametrize(("parts", "kind", "index"), read_tables(__file__)["conditions and their index"])
@pytest.mark.parametrize("scope", [ANA, IN_SESSION], ids=["user", "session"])
def test_conditions_use_their_index(database, parts, kind, index, scope):
    store, query = Store(database), Query(scope=scope, kinds=(kind,), **eval(parts))
    for ask in (store.find, store.count, Store(database).scan):
        for plan in plans(database, lambda ask=ask: ask(query)):
            assert index in plan
            assert not NEVER_WHOLE.search(plan)
            assert "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)" in plan, "the condition leads, not the time"


@pytest.mark.parametrize("kind", SEARCHABLE)
def test_a_scan_walks_the_index_by_time_and_sorts_nothing(database, kind):
    query = Query(scope=ANA, kinds=(kind,), limit=100)
    for after in (None, (1, 2)):
        (plan,) = plans(database, lambda after=after: Store(database).scan(query, after))
        assert "documents_by_time (user_id=? AND kind=?" in plan
        assert "TEMP B-TREE" not in plan
        assert ("created_at>?" in plan) == (after is not None), "a later piece begins where one ended"


@pytest.mark.parametrize("lead", [{"subject": "edge-02"}, {"entity": "edge-02"}, {"sources": ("m",)}])
def test_a_point_of_a_subject_reads_that_subject_only(database, lead):
    query = Query(scope=ANA, kinds=("fact",), predicate="port", as_of=START, **lead)
    (plan,) = plans(database, lambda: Store(database).find(query))
    assert "(owner=?)" not in plan
    assert plan.count("SEARCH f EXISTS USING INTEGER PRIMARY KEY (rowid=?)") == 2, "asked of each found"


def test_facts_of_a_moment_read_no_other_users_rows(database):
    store = Store(database)
    for parts in ({"as_of": START}, {"fact_status": ("active",)}, {"predicate": "port"}, {}):
        query = Query(scope=ANA, kinds=("fact",), **parts)
        for plan in plans(database, lambda query=query: store.find(query)):
            assert not NEVER_WHOLE.search(plan)


def test_changing_and_taking_out_go_by_keys(database):
    store, trash = Store(database), Trash(database)
    store.put([fact(id=name, sources=("m",)) for name in "abc"])

    def change():
        store.put([fact(id="a", status="retracted", sources=("m",))])
        store.amend(ANA, "fact", [Amendment(id="a", confidence=0.5)])
        trash.discard(ANA, [("fact", "a"), ("fact", "b")], reason="x", at=START)
        trash.restore(ANA, [("fact", "a")])
        trash.erase(ANA, keys=[("fact", "b")])
        trash.erase(ANA, before=START + timedelta(days=1))
        trash.discarded(Query(scope=ANA, kinds=("fact",)))

    for plan in plans(database, change):
        assert not NEVER_WHOLE.search(plan), plan


def test_the_newest_summary_is_the_first_row_of_an_index(database):
    for agent in (None, "a"):
        scope = Scope(user_id="ana", agent_id=agent, session_id="s")
        query = Query(scope=scope, kinds=("summary",), newest_first=True, limit=1)
        (plan,) = plans(database, lambda query=query: Store(database).find(query))
        assert "summaries_by_session (user_id=? AND session_id=?" in plan
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("scope", [ANA, ANA.in_session("s")], ids=["user", "session"])
def test_summaries_of_messages_and_of_ids_are_looked_up(database, scope):
    store = Store(database)
    covering = Query(scope=scope, kinds=("summary",), sources=("m1", "m2"))
    named = Query(scope=scope, kinds=("summary",), ids=("x",))
    for ask in (store.find, store.count, store.scan):
        for plan in plans(database, lambda ask=ask: ask(covering)):
            assert "SEARCH c USING PRIMARY KEY (owner=? AND message=?" in plan
            assert "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)" in plan
            assert not NEVER_WHOLE.search(plan)
    for plan in plans(database, lambda: store.find(named)):
        assert "(user_id=? AND id=?)" in plan


def test_changing_summaries_goes_by_keys(database):
    store, trash = Store(database), Trash(database)

    def change():
        store.put([message("a", id="a"), message("b", id="b")])
        store.put([summary(None, ["a"], 1)])
        trash.discard(ANA, [("message", "b")], reason="x", at=START)
        trash.restore(ANA, [("message", "b")])
        store.scan(Query(scope=ANA, kinds=("summary",)), (1, 2))
        store.delete(Query(scope=ANA, kinds=("summary",)))

    for plan in plans(database, change):
        assert not NEVER_WHOLE.search(plan), plan


def test_a_statement_ends_at_once_also_where_its_cursor_is_kept(database):
    store, kept = Store(database), []
    store.put([fact(id="f")])
    with database.write() as db:
        db.raw.set_exec_trace(lambda cursor, *_: kept.append(cursor) or True)
    store.put([fact(id="f")])  # a change gives its number back, and is asked for one row only
    assert kept
    store.put([message("later")])


def test_a_statement_that_never_ends_costs_one_write_only(database):
    store = Store(database)
    with pytest.raises(StorageError, match="in progress, left by this process"), database.write() as db:
        kept = db.raw.execute("INSERT INTO owners (user_id) VALUES ('x') RETURNING owner")
    store.put([message("later", id="m")])
    with pytest.raises(apsw.CursorClosedError):
        next(kept)
    assert [one.id for one in store.find(Query(scope=ANA))] == ["m"]
