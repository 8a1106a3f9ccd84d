"""A fact is a value: its times, its words, its keys."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from refusing import refused

from jiyi.errors import InputError, NaiveDatetime
from jiyi.records import Fact, Scope

NOW = datetime(2026, 3, 4, tzinfo=UTC)
TIMES = ("created_at", "valid_from", "valid_to", "last_accessed_at")


def fact(**fields):
    given = {"subject": "edge-02 网关", "predicate": "监听端口", "object": "8444", "created_at": NOW}
    return Fact(scope=Scope(user_id="ana"), **(given | fields))


def test_what_search_reads_when_it_was_recorded_and_which_facts_are_equal():
    assert fact().search_text == "edge-02 网关 监听端口 8444"
    assert fact(predicate="", text="the clause", speaker="Bob").search_text == "edge-02 网关 8444"
    assert fact(subject="", predicate="", object="").search_text == ""
    assert fact().recorded_at == fact().created_at == NOW
    assert fact().id != fact().id
    assert fact(id="f") == fact(id="f")
    assert fact(id="f") != fact(id="f", object="8443")


@pytest.mark.parametrize("name", TIMES)
def test_times_are_aware_and_kept_in_utc(name):
    kept = getattr(fact(**{name: datetime(2026, 3, 4, 8, tzinfo=timezone(timedelta(hours=8)))}), name)
    assert kept == NOW
    assert kept.tzinfo is UTC
    refused(NaiveDatetime, name, fact, **{name: NOW.replace(tzinfo=None)})
    refused(InputError, name, fact, **{name: "yesterday"})
