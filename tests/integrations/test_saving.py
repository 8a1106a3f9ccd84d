"""Conversations that a framework keeps, saved as they grow, without a framework."""

import json
from threading import Timer

import pytest

from jiyi.errors import DatabaseLocked
from jiyi.integrations.recalling import Entry, Owner, Saver, read_conversation
from jiyi.records import Message


def talk(*texts: str) -> list[Entry]:
    """Messages known by their first letter."""
    return [Entry(text[0], json.dumps({"t": text}), Message(role="user", content=text)) for text in texts]


def texts(owner: Owner) -> list[str]:
    return [message.text for message in read_conversation(owner)]


@pytest.fixture
def owner(memory):
    return Owner(memory, None, "s")


def test_each_message_is_saved_once(owner):
    saver = Saver()
    saver.save(owner, talk("a", "b"))
    ids = [message.id for message in read_conversation(owner)]
    saver.save(owner, talk("a", "b", "c"))
    Saver().save(owner, talk("a", "b", "c", "d"))
    saver.save(owner, talk("c", "d"))
    assert texts(owner) == ["a", "b", "c", "d"]
    assert [message.id for message in read_conversation(owner)][:2] == ids


@pytest.mark.parametrize("again", [True, False])
def test_a_changed_message_takes_the_place_of_the_one_before(owner, again):
    saver = Saver()
    saver.save(owner, talk("a", "b", "c"))
    owner.memory.save_message("s", role="user", content="by other means", id="b.1")
    (saver if again else Saver()).save(owner, talk("a", "b changed", "c", "d"))
    assert texts(owner) == ["a", "b changed", "c", "d", "by other means"]
    assert [hit.text for hit in owner.memory.search("changed", limit=1)] == ["b changed"]


def test_a_message_that_is_put_between_others_stands_there(owner):
    saver = Saver()
    saver.save(owner, talk("a", "d"))
    saver.save(owner, talk("0", "a", "b", "c", "d", "e"))
    assert texts(owner) == ["0", "a", "b", "c", "d", "e"]


@pytest.mark.parametrize("again", [True, False])
def test_what_was_forgotten_is_not_saved_again(owner, again):
    saver = Saver()
    saver.save(owner, talk("a", "b", "c"))
    owner.memory.forget(ids=[read_conversation(owner)[1].id])
    (saver if again else Saver()).save(owner, talk("a", "b", "c", "d"))
    assert texts(owner) == ["a", "c", "d"]


@pytest.mark.slow
def test_a_database_that_is_in_use_is_waited_for(open_memory, hold):
    owner = Owner(open_memory(lock_timeout=1), None, "s")
    Saver().save(owner, talk("0"))
    timer = Timer(1.5, hold())
    with pytest.raises(DatabaseLocked):
        Saver().save(owner, talk("0", "a"))
    timer.start()
    Saver().save(owner, talk("0", "a"))
    timer.join()
    assert texts(owner) == ["0", "a"]


def test_no_window_shows_what_a_transaction_rolled_back(owner):
    memory = owner.memory

    def fail_after_reading():
        saved = memory.save_message("s", role="user", content="kept by nobody")
        assert memory.recent_messages("s") == [saved]
        raise KeyError

    with pytest.raises(KeyError):
        memory.parts.run_in_transaction(fail_after_reading, None)
    kept = memory.save_message("s", role="user", content="kept")
    assert memory.recent_messages("s") == [kept]
