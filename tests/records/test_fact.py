"""A fact is a value: its times, its words, its keys."""

from datetime import UTC, timedelta, timezone

import pytest
from refusing import refused
from samples import START, fact

from jiyi.errors import InputError, NaiveDatetime

TIMES = ("created_at", "valid_from", "valid_to", "last_accessed_at")


def test_what_search_reads_when_it_was_recorded_and_which_facts_are_equal():
    assert fact().search_text == "edge-02 网关 监听端口 8444"
    assert fact(predicate="", text="the clause", speaker="Bob").search_text == "edge-02 网关 8444"
    assert fact(subject="", predicate="", object="").search_text == ""
    assert fact().recorded_at == fact().created_at == START
    assert fact().id != fact().id
    assert fact(id="f") == fact(id="f")
    assert fact(id="f") != fact(id="f", object="8443")


@pytest.mark.parametrize("name", TIMES)
def test_times_are_aware_and_kept_in_utc(name):
    kept = getattr(fact(**{name: START.astimezone(timezone(timedelta(hours=8)))}), name)
    assert kept == START
    assert kept.tzinfo is UTC
    refused(NaiveDatetime, name, fact, **{name: START.replace(tzinfo=None)})
    refused(InputError, name, fact, **{name: "yesterday"})
