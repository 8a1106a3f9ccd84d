"""Messages that a search read are not read again; who changes one, here or elsewhere, is heeded at once."""

import apsw
import pytest
from samples import ANA, fact, message
from taken_out import undone

from jiyi.records import Query
from jiyi.storage import Amendment, SqliteDatabase, Store
from jiyi.storage.search.user_terms import HeldMessages, UserTerms

KEYS = [("message", "a"), ("message", "b"), ("fact", "f")]


@pytest.fixture
def store(database):
    store = Store(database)
    store.put([message("the port", id="a"), message("of staging", id="b"), fact(id="f")])
    return store


def named(store, keys=KEYS, user="ana"):
    return store.find_by_keys(user, keys, store.snapshot(user))


def held(database):
    return database.cache._users["ana"].parts[UserTerms].messages.rows


def test_a_message_is_read_once_and_a_fact_each_time(store, database):
    first = named(store)
    again = named(store)
    assert again == first == store.find_by_keys("ana", KEYS)
    assert list(held(database)) == ["a", "b"]
    assert all(again[key] is first[key] for key in KEYS[:2])
    asked = []
    with database.read() as db:
        execute = db._execute
        db._execute = lambda name, *rest: asked.append(name) or execute(name, *rest)
    named(store, KEYS[:2])
    named(store)
    assert [name for name in asked if name.startswith("find")] == ["find_fact"]


def test_short_messages_of_few_records_are_read_at_once(store, database):
    store.put([message("long " * 300, id="long")])
    assert list(named(store, KEYS[2:])) == KEYS[2:]
    assert set(held(database)) == {"a", "b"}
    store.put([message("later", id="c")])
    keys = [*KEYS[:2], ("message", "c"), ("message", "long")]
    assert named(store, keys) == store.find_by_keys("ana", keys)
    assert set(held(database)) == {"a", "b", "c"}


def test_a_damaged_row_among_those_read_at_once_is_left_out_and_noted(store, path):
    damaged = "UPDATE messages SET body = '{' WHERE doc = (SELECT doc FROM documents WHERE id = 'a')"
    apsw.Connection(str(path)).execute(damaged)
    assert list(named(store)) == KEYS[1:]
    assert [gone.id for gone in store.damaged(ANA)] == ["a"]
    assert list(named(store)) == KEYS[1:]


def test_a_user_is_given_nothing_of_another(store):
    named(store)
    store.put([message("mine", id="b", user="ben")])
    assert {key: one.text for key, one in named(store, KEYS, "ben").items()} == {KEYS[1]: "mine"}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_taken_out_or_amended_is_seen_at_once(store, database, path, elsewhere):
    other = SqliteDatabase(path) if elsewhere else database
    writer = Store(other)
    named(store)
    for change in ({"pinned": True}, {"importance": 0.9}, {"pinned": False, "importance": 0.1}):
        writer.amend(ANA, "message", [Amendment(id="a", **change)])
        now = named(store)[KEYS[0]]
        assert {name: getattr(now, name) for name in change} == change
    (gone,) = writer.find(Query(scope=ANA, kinds=("message",), ids=("a",)))
    writer.delete(Query(scope=ANA, ids=("a",)))
    assert list(named(store)) == KEYS[1:]
    assert "a" not in held(database), "nothing is left of it"
    writer.put([message("other words", id="a")])
    assert named(store)[KEYS[0]].text == "other words" != gone.text
    other.close()


def test_what_a_transaction_undid_is_not_kept(store, database):
    named(store)
    with undone(store):
        store.amend(ANA, "message", [Amendment(id="a", pinned=True)])
        assert named(store)[KEYS[0]].pinned
    assert not named(store)[KEYS[0]].pinned


def test_few_are_kept_and_no_long_ones(store, database, monkeypatch):
    monkeypatch.setattr(HeldMessages, "MAX_MESSAGES", 3)
    store.put([message("long " * 300, id="long"), *(message(f"{i}", id=f"m{i}") for i in range(9))])
    assert len(named(store, [("message", "long")])[("message", "long")].text) > 1_000
    assert held(database) == {}
    for i in range(9):
        key = ("message", f"m{i}")
        assert named(store, [key])[key].text == f"{i}"
        assert f"m{i}" in held(database)
        assert len(held(database)) <= 4
