"""Filters as callers write them: what is refused, what is the same, and what a query answers by itself."""

import json
from datetime import UTC, datetime

import pytest
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import BadQuery, NaiveDatetime
from jiyi.records import Message, Query, Scope, matches, read_filter

TABLES = read_tables(__file__)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEEP = {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"role": "user"}}}}}}}}}}


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        *((json.loads(told), BadQuery, words) for told, words in TABLES["impossible"]),
        ({"metadata.n": float("nan")}, BadQuery, "keep such a number as text"),
        ({"metadata": {5: 1}}, BadQuery, "keys must be text"),
        ({"metadata": [("n", 1)]}, BadQuery, "must be a dict"),
        ({"since": "2026-01-01"}, NaiveDatetime, "time zone"),
        (DEEP, BadQuery, "deeper than 8"),
        ({"or": [{"role": "user"}] * 101}, BadQuery, "more than 100"),
        ({"metadata.n": list(range(1_001))}, BadQuery, "1,001 values"),
    ],
)
def test_impossible_filters_are_refused(given, error, words):
    refused(error, words, read_filter, given)
    refused(error, words, Query(scope=Scope(user_id="ana")).with_filters, {"and": [given]})


@pytest.mark.parametrize(("one", "other"), literals(TABLES["the same"]))
def test_several_ways_to_say_one_thing(one, other):
    assert read_filter(one) == read_filter(other)


def test_what_rows_in_memory_answer_stays_with_the_query():
    asked = Query(scope=Scope(user_id="ana")).with_filters(
        {"role": ["user"], "since": "2026-01-01T00:00:00Z", "pinned": False, "until": None, "agent_id": "bot"}
    )
    assert (asked.roles, asked.since, asked.pinned, asked.until) == (("user",), NOW, False, None)
    assert asked.where == read_filter({"agent_id": "bot"})
    both = asked.with_filters({"role": {"ne": "tool"}})
    assert both.where == read_filter({"and": [{"agent_id": "bot"}, {"role": {"ne": "tool"}}]})
    with pytest.raises(BadQuery, match="where is what read_filter returns"):
        Query(scope=Scope(user_id="ana"), where={"agent_id": "bot"})


def test_a_record_that_lacks_it_is_equal_to_nothing():
    message = Message(role="user", content="x", scope=Scope(user_id="ana"), created_at=NOW)
    for given in ({"confidence": {"ne": 0.5}}, {"metadata.n": {"nin": [None]}}, {"agent_id": None}):
        assert matches(message, read_filter(given))
    for given in ({"confidence": {"lte": 1}}, {"metadata.n": None}, {"not": {"kind": "message"}}):
        assert not matches(message, read_filter(given))
