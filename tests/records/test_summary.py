"""A summary: what it refuses to be."""

from datetime import UTC, datetime

import pytest
from refusing import refused
from tables import literals, read_tables

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
    refused(NaiveDatetime, "created_at", made, created_at=datetime(2026, 3, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        *literals(read_tables(__file__)["what could not stand for messages is refused"]),
        ({"scope": Scope(user_id="ana")}, "session_id"),
    ],
)
def test_what_could_not_stand_for_messages_is_refused(fields, told):
    refused(InputError, told, made, **fields)
