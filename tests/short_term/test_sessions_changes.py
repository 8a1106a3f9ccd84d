"""Windows in memory notice what was removed, brought back, pinned: here, and by another process."""

import subprocess
import sys

import pytest
from conversations import assistant, user
from session_tools import NOON, SCOPE, CountingStore, save, talk_of, texts

from jiyi.records import Query, Scope
from jiyi.short_term import ShortTermMemory
from jiyi.storage import Amendment, Store, Trash


@pytest.fixture
def store(database):
    return CountingStore(Store(database))


@pytest.fixture
def memory(store, database):
    memory = ShortTermMemory(store, changes=Store(database).changes, max_turns=2)
    yield memory
    memory.close()


def test_what_was_removed_leaves_the_window_and_comes_back(store, database, memory):
    said = save(store, user("secret"), assistant("noted"), user("next"))
    assert texts(memory.messages(SCOPE)) == ["secret", "noted", "next"]
    trash = Trash(database)
    trash.discard(SCOPE, [("message", said[0].id)], reason="asked for", at=NOON)
    assert texts(memory.messages(SCOPE)) == ["noted", "next"]
    trash.restore(SCOPE, [("message", said[0].id)])
    assert texts(memory.messages(SCOPE)) == ["secret", "noted", "next"]
    store.delete(Query(scope=SCOPE, kinds=("message",), ids=(said[2].id,)))
    assert texts(memory.messages(SCOPE)) == ["secret", "noted"]


def test_a_pin_brings_an_old_message_in_and_unpinning_lets_it_go(store, database, memory):
    said = save(store, *talk_of(50))
    usual = ["问题 48", "answer 48", "问题 49", "answer 49"]
    assert texts(memory.messages(SCOPE)) == usual
    store = Store(database)
    store.amend(SCOPE, "message", [Amendment(id=said[0].id, pinned=True)])
    assert texts(memory.messages(SCOPE)) == ["问题 0", *usual]
    store.amend(SCOPE, "message", [Amendment(id=said[0].id, pinned=False)])
    assert texts(memory.messages(SCOPE)) == usual


def test_what_is_saved_after_a_removal_does_not_hide_it_nor_that_all_was_removed(store, database, memory):
    said = save(store, *talk_of(2))
    memory.messages(SCOPE)
    store.delete(Query(scope=SCOPE, kinds=("message",), ids=(said[3].id,)))
    save(store, user("later"))
    assert texts(memory.messages(SCOPE)) == ["问题 1", "later"]
    store.delete(Query(scope=SCOPE, kinds=("message",), limit=100))
    assert memory.messages(SCOPE) == []
    assert save(store, user("again"))[0].seq == 0
    assert texts(memory.messages(SCOPE)) == ["again"]


def test_removals_elsewhere_and_other_changes_cost_one_reading_at_most(store, database, memory):
    save(store, *talk_of(3))
    ben = Scope(user_id="ben", session_id="s-1")
    others = save(store, user("x"), scope=ben)
    memory.messages(SCOPE)
    store.delete(Query(scope=ben, kinds=("message",), ids=(others[0].id,)))
    Store(database).amend(SCOPE, "message", [Amendment(id=others[0].id, importance=1.0)])
    store.reset()
    memory.messages(SCOPE)
    assert (store.finds, store.rows) == (1, 0)


OTHER = """
import sys
from datetime import datetime, UTC
from jiyi.records import Scope
from jiyi.storage import Amendment, SqliteDatabase, Store, Trash
database = SqliteDatabase(sys.argv[1])
scope = Scope(user_id="ana")
Trash(database).discard(scope, [("message", sys.argv[2])], reason="r", at=datetime.now(UTC))
Store(database).amend(scope, "message", [Amendment(id=sys.argv[3], pinned=True)])
database.close()
"""


def test_another_process_is_noticed(store, database, memory):
    said = save(store, *talk_of(4))
    assert texts(memory.messages(SCOPE)) == ["问题 2", "answer 2", "问题 3", "answer 3"]
    arguments = [sys.executable, "-c", OTHER, str(database.path), said[7].id, said[0].id]
    subprocess.run(arguments, check=True, timeout=60)
    assert texts(memory.messages(SCOPE)) == ["问题 0", "问题 2", "answer 2", "问题 3"]
