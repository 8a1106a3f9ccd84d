"""Scopes, queries and budgets refuse what cannot be meant, and say what can."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused
from tables import each, literals, read_tables

from jiyi.clock import to_micros, utc_from_micros
from jiyi.errors import BadBudget, BadQuery, BadScope, NaiveDatetime, ScopeMissing
from jiyi.records import SHARES, Budget, Episode, Query, Scope, Step, Task, new_id, stable_id

ANA = Scope(user_id="ana")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BACKWARDS = {"since": NOW, "until": NOW - timedelta(seconds=1)}
NO_NUMBER = {"shares": {"history": float("nan")}}
QUERIES, BUDGETS = (each(**dict(literals(rows))) for rows in read_tables(__file__).values())


@pytest.mark.parametrize("bad", ["", "  ", 5, b"ana", "x" * 513, "a\0b", "\ud800"])
@pytest.mark.parametrize("field", ["user_id", "agent_id", "session_id"])
def test_unusable_ids_are_named(field, bad):
    refused(BadScope, field, Scope, **{"user_id": "ana"} | {field: bad})


def test_a_scope_needs_a_user():
    refused(ScopeMissing, r"jiyi\.open", Scope, user_id=None)
    inside = Scope(user_id="ana", agent_id="b", session_id="s")
    assert Scope(user_id="ana", agent_id="b").in_session("s") == inside


@pytest.mark.parametrize("parts", [*QUERIES, BACKWARDS])
def test_impossible_queries_are_refused(parts):
    with pytest.raises(BadQuery) as caught:
        Query(**({"scope": ANA} | parts))
    assert next(iter(parts)).rstrip("s") in str(caught.value) or "text" in str(caught.value)


def test_kinds_are_a_set_in_order_dates_need_a_zone_and_filters_have_names():
    assert Query(scope=ANA, kinds="message").kinds == ("message",)
    assert Query(scope=ANA, kinds=["task", "message", "task"]).kinds == ("task", "message")
    for name in ("since", "until", "asked_at", "as_of"):
        refused(NaiveDatetime, name, Query, scope=ANA, **{name: NOW.replace(tzinfo=None)})
    asked = Query(scope=ANA).with_filters({"role": ["user", "tool"], "since": NOW, "pinned": True})
    assert (asked.roles, asked.since, asked.pinned) == (("user", "tool"), NOW, True)
    assert Query(scope=ANA).with_filters({"role": "user"}).roles == ("user",)
    assert Query(scope=ANA).with_filters(None) == Query(scope=ANA).with_filters({}) == Query(scope=ANA)


@pytest.mark.parametrize("filters", [{"colour": 1}, {"user_id": "ben"}, {"limit": 5}, {"scope": 1}, {5: 5}])
def test_unknown_filters_are_named_with_the_known_ones(filters):
    refused(BadQuery, "there are role, since, until, pinned", Query(scope=ANA).with_filters, filters)


@pytest.mark.parametrize("parts", [*BUDGETS, NO_NUMBER])
def test_impossible_budgets_are_refused(parts):
    raises(BadBudget, Budget, **({"max_input_tokens": 100} | parts))


def test_a_budget_is_a_value():
    shares = {"history": 0.5}
    budget = Budget(max_input_tokens=100, shares=shares)
    shares["history"] = 5
    assert budget.shares["history"] == 0.5
    assert sum(SHARES.values()) == pytest.approx(1)


@given(st.integers(-5, 2000), st.integers(-5, 2000))
def test_of_a_window_input_and_output_fit_together(window, output):
    if output < 0 or window <= output:
        raises(BadBudget, Budget.of_window, window, output)
    else:
        budget = Budget.of_window(window, output)
        assert budget.max_input_tokens + budget.max_output_tokens == window


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_survive_to_the_microsecond(moment):
    assert utc_from_micros(to_micros(moment)) == moment


def test_new_ids_sort_by_time_and_those_of_a_task_and_stable_ones_stay():
    made = [new_id() for _ in range(2000)]
    assert len(set(made)) == 2000
    assert made == sorted(made)
    assert all(len(i) == 32 for i in made)
    assert stable_id("a", "bc") != stable_id("ab", "c")
    assert stable_id("a\ud800") == stable_id("a\ud800") != stable_id("a")
    mine = job(outcome="success", target="web", id="t")
    theirs = job(Scope(user_id="ben"), outcome="success", id="t")
    assert Episode.of_task(mine) == Episode.of_task(mine)
    assert Episode.of_task(mine).target == "web"
    assert Episode.of_task(mine).id != Episode.of_task(theirs).id


def job(scope=ANA, **fields):
    return Task(scope=scope, request="x", started_at=NOW, updated_at=NOW, **fields)


def test_the_step_in_work_is_the_first_in_progress_else_the_first_pending():
    def current(*states):
        steps = (Step(scope=ANA, task_id="t", description=str(i), status=s) for i, s in enumerate(states))
        return job(steps=tuple(steps)).current_step

    assert current("completed", "pending", "in_progress").description == "2"
    assert current("completed", "pending", "pending").description == "1"
    assert current("completed", "failed") is None
    assert current() is None
