"""A summary: what it refuses to be."""

from datetime import UTC, datetime

import pytest

from jiyi.errors import InputError, NaiveDatetime
from jiyi.records import Scope, Summary

S = Scope(user_id="ana", session_id="s")


def made(**fields):
    given = {"scope": S, "text": "words", "version": 1, "covers": ("m1",), "upto_seq": 0}
    given["method"] = "extractive"
    return Summary(**(given | fields))


def test_ids_are_new_and_dates_in_utc_and_never_without_a_zone():
    moment = datetime.fromisoformat("2026-03-01T12:00+08:00")
    one, two = made(created_at=moment), made(created_at=moment)
    assert one.id != two.id
    assert one.created_at == moment
    assert one.created_at.tzinfo is UTC
    assert made(covers=()).covers == ()
    with pytest.raises(NaiveDatetime, match="created_at"):
        made(created_at=datetime(2026, 3, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"text": " \n"}, "needs a text"),
        ({"text": None}, "needs a text"),
        ({"scope": Scope(user_id="ana")}, "session_id"),
        ({"version": 0}, "version=0"),
        ({"upto_seq": -1}, "upto_seq=-1"),
        ({"tokens": -1}, "tokens=-1"),
        ({"method": "magic"}, "extractive, llm"),
        ({"id": ""}, "id"),
        ({"previous": "\0"}, "previous"),
        ({"covers": ["m1"]}, "tuple"),
        ({"covers": ("m1", 2)}, "text"),
        ({"covers": ("m1", "")}, "empty id"),
        ({"covers": ("m1", "half \ud800")}, "covers"),
        ({"covers": ("nul\0",)}, "covers"),
    ],
)
def test_what_could_not_stand_for_messages_is_refused(fields, told):
    with pytest.raises(InputError, match=told):
        made(**fields)
