"""What servers share: keys as they were put, answers for a day, none of a purged user."""

from datetime import timedelta

import pytest
from samples import ANA, BEN, START

from jiyi.storage import Ledger, StoredAnswer

ANSWER = StoredAnswer(asked="post", status=200, body='{"id": "茶"}')


@pytest.fixture
def opened(backend):
    opened = backend.open_all()
    yield opened
    opened.database.close()


@pytest.fixture
def ledger(opened):
    return Ledger(opened.database)


def test_keys_come_back_as_they_were_put(ledger):
    assert ledger.key("a") is None
    ledger.put_key("a", "one")
    ledger.put_key("b", "two")
    ledger.put_key("a", "三")
    assert ledger.key("a") == "三"
    assert ledger.keys() == {"a": "三", "b": "two"}


def test_an_answer_is_its_user_s_for_a_day(ledger):
    ledger.put_answer("ana", "k", ANSWER, START)
    assert ledger.find_answer("ana", "k", START + timedelta(hours=24)) == ANSWER
    assert ledger.find_answer("ben", "k", START) is None
    assert ledger.find_answer("ana", "other", START) is None
    assert ledger.find_answer("ana", "k", START + timedelta(hours=25)) is None


def test_an_answer_goes_with_the_transaction_it_was_kept_in(opened, ledger):
    with pytest.raises(KeyError), opened.store.transaction():  # noqa: PT012
        ledger.put_answer("ana", "k", ANSWER, START)
        raise KeyError
    assert ledger.find_answer("ana", "k", START) is None


def test_what_is_erased_is_in_no_answer(opened, ledger):
    for user in ("ana", "ben"):
        ledger.put_answer(user, "k", ANSWER, START)
    opened.trash.erase(ANA, before=START)
    assert ledger.find_answer("ana", "k", START) == ANSWER
    opened.trash.erase(ANA, keys=[("message", "m")])
    assert ledger.find_answer("ana", "k", START) is None
    assert ledger.find_answer("ben", "k", START) == ANSWER
    opened.trash.erase(BEN)
    assert ledger.find_answer("ben", "k", START) is None
