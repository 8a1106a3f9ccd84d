"""The rules: the formula computed by hand, its bounds and directions, and what other kinds go by."""

from ast import literal_eval
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from samples import ANA, START, episode, fact, knowledge, message
from tables import read_tables

from jiyi.errors import InputError
from jiyi.long_term.forget_gate.rules import OTHER_RULES, FactRule, ForgetRule, KnowledgeRule, MessageRule
from jiyi.records import Episode, ForgetWeights, Step

TABLES = read_tables(__file__)
DAY = timedelta(days=1)
spans = st.timedeltas(timedelta(0), timedelta(days=400))
RULE = ForgetRule()
STEP = Step(scope=ANA, task_id="t", description="look")


def fields(cell):
    """Return the fields of a cell, of which steps are a number and times are days after START."""
    given_fields = literal_eval(cell)
    for name, value in given_fields.items():
        if name == "steps":
            given_fields[name] = (STEP,) * value
        elif name in ("valid_from", "valid_to", "last_accessed_at"):
            given_fields[name] = START + value * DAY
    return given_fields


nows = st.floats(0, 100 * 8_766).map(lambda hours: datetime(1990, 1, 1, tzinfo=UTC) + timedelta(hours=hours))
episodes = st.builds(
    Episode,
    scope=st.just(ANA),
    trigger_summary=st.just("x"),
    outcome=st.sampled_from(["success", "partial", "failed"]),
    trigger_type=st.sampled_from(["user_request", "alert", "scheduled"]),
    access_count=st.integers(0, 1_000),
    steps=st.integers(0, 9).map(lambda n: (STEP,) * n),
    created_at=nows,
)


def worth(hours=0.0, **fields):
    return RULE.importance(episode(**fields), START + timedelta(hours=hours))


@pytest.mark.parametrize(("expected", "hours", "given_fields"), TABLES["worth, hours, episode"])
def test_the_formula(expected, hours, given_fields):
    assert worth(float(hours), **fields(given_fields)) == pytest.approx(float(expected), abs=1e-12)


def test_the_formula_with_other_weights():
    by_use = {"access": 0.01, "access_most": 0.02, "alert": 0.03, "steps": 0.04}
    heavy = ForgetWeights(base=0.2, age=0.02, age_most=0.05, **by_use)
    rule = ForgetRule(weights=replace(heavy, success=0.3, partial=0.2, failed=0.1))
    seen = episode(outcome="partial", access_count=9, trigger_type="alert", steps=(STEP,) * 4)
    assert rule.importance(seen, START) == pytest.approx(0.2 + 0.2 + 0.02 + 0.03 + 0.04)
    assert rule.importance(episode(outcome="failed"), START + timedelta(hours=720)) == pytest.approx(0.28)
    assert rule.importance(episode(), START + timedelta(days=999)) == pytest.approx(0.45)


@pytest.mark.parametrize("bad", [{"base": 2}, {"age": -0.1}, {"failed": float("nan")}, {"alert": "much"}])
def test_what_is_no_weight_is_refused(bad):
    refused(InputError, f"the weight {next(iter(bad))}=", ForgetWeights, **bad)


def test_the_defaults_are_those_of_the_requirement():
    assert (RULE.threshold, RULE.min_age, RULE.max_episodes) == (0.25, timedelta(days=7), 10_000)
    assert [rule.kind for rule in OTHER_RULES] == ["knowledge", "fact", "message", "item"]


def test_an_episode_from_the_future_counts_as_new():
    assert worth(hours=-1) == worth(hours=-1e6) == worth(hours=0)


@given(episodes, nows, spans)
def test_it_lies_between_0_and_1_and_never_grows_with_age(e, now, later):
    assert 0 <= RULE.importance(e, now + later) <= RULE.importance(e, now) <= 1


@given(episodes, nows)
def test_nothing_but_age_accesses_outcome_trigger_and_steps_counts(e, now):
    more = {"pinned": True, "consolidated": True, "importance": 0.1, "tags": ("a",)}
    assert RULE.importance(replace(e, id="o", trigger_summary="y", **more), now) == RULE.importance(e, now)


@pytest.mark.parametrize(("days", "goes", "given_fields"), TABLES["days, whether it goes, knowledge"])
def test_knowledge_goes_uncertain_and_unused(days, goes, given_fields):
    reason = KnowledgeRule().reason(knowledge(**fields(given_fields)), START + int(days) * DAY)
    assert reason == ("confidence below 0.6 and unused for 180 days" if goes == "goes" else None)


def test_knowledge_that_grew_lately_is_in_use():
    grown = replace(knowledge(confidence=0.5), updated_at=START + 100 * DAY)
    assert KnowledgeRule().reason(grown, START + 200 * DAY) is None
    assert KnowledgeRule().reason(grown, START + 280 * DAY)


@pytest.mark.parametrize(("days", "reason", "given_fields"), TABLES["days, why it goes, fact"])
def test_facts_go_long_after_they_ended(days, reason, given_fields):
    assert FactRule().reason(fact(**fields(given_fields)), START + int(days) * DAY) == (reason or None)


def test_messages_stay_unless_an_age_is_given():
    said = message("hello")
    assert MessageRule().until(START) is None
    assert MessageRule().reason(said, START + 9_999 * DAY) is None
    rule = MessageRule(max_age=365 * DAY)
    assert rule.reason(said, START + 364 * DAY) is None
    assert rule.reason(said, START + 365 * DAY) == "older than 365 days"


def test_nobody_is_asked_about_what_is_too_young_to_go():
    """What `until` leaves out has no reason to go: it only saves work."""
    rules = KnowledgeRule(), FactRule(), MessageRule(max_age=9 * DAY)
    records = knowledge(confidence=0), fact(status="retracted"), message("hello")
    for rule, record in zip(rules, records, strict=True):
        first = next(d for d in range(500) if rule.reason(record, START + d * DAY))
        assert rule.until(START + first * DAY) == START


def test_an_endless_span_means_never():
    assert KnowledgeRule(unused=timedelta.max).until(START) is None
    assert MessageRule(max_age=timedelta.max).until(START) is None
    assert ForgetRule(min_age=timedelta.max).min_age == timedelta.max


@given(episodes, nows, st.integers(0, 9))
def test_it_never_sinks_with_accesses_or_steps(e, now, more):
    recalled = replace(e, access_count=e.access_count + more)
    longer = replace(e, steps=(*e.steps, *(STEP,) * more))
    assert RULE.importance(recalled, now) >= RULE.importance(e, now)
    assert RULE.importance(longer, now) >= RULE.importance(e, now)
