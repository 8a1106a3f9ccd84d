"""The rules: the formula computed by hand, its bounds and directions, and what other kinds go by."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import ANA, START, episode, fact, knowledge, message

from jiyi.errors import InputError
from jiyi.long_term.forget_gate.rules import OTHER_RULES, FactRule, ForgetRule, KnowledgeRule, MessageRule
from jiyi.records import Episode, ForgetWeights, Step

spans = st.timedeltas(timedelta(0), timedelta(days=400))


RULE = ForgetRule()
STEP = Step(scope=ANA, task_id="t", description="look")

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


@pytest.mark.parametrize(
    ("expected", "fields"),
    [
        (0.60, {}),  # 0.5 + 0.1 for success
        (0.50, {"outcome": "partial"}),
        (0.45, {"outcome": "failed"}),
        (0.50, {"hours": 720}),  # 0.6 - 0.1
        (0.55, {"hours": 360}),
        (0.30, {"hours": 2_160}),  # 0.6 - 0.3
        (0.30, {"hours": 100_000}),
        (0.65, {"access_count": 1}),
        (0.80, {"access_count": 4}),
        (0.80, {"access_count": 400}),
        (0.75, {"trigger_type": "alert"}),
        (0.60, {"trigger_type": "scheduled"}),
        (0.60, {"steps": (STEP,) * 3}),
        (0.70, {"steps": (STEP,) * 4}),
        (0.25, {"outcome": "failed", "hours": 1_440}),  # 0.45 - 0.2, after 60 days
        (0.15, {"outcome": "failed", "hours": 100_000}),
        (0.20, {"outcome": "partial", "hours": 100_000}),
        (1.00, {"access_count": 9, "trigger_type": "alert", "steps": (STEP,) * 9}),  # 1.05, clamped
    ],
)
def test_the_formula(expected, fields):
    assert worth(**fields) == pytest.approx(expected, abs=1e-12)


def test_the_formula_with_other_weights():
    heavy = ForgetWeights(
        base=0.2, age=0.02, age_most=0.05, access=0.01, access_most=0.02, alert=0.03, steps=0.04
    )
    weights = replace(heavy, success=0.3, partial=0.2, failed=0.1)
    rule = ForgetRule(weights=weights)
    seen = episode(outcome="partial", access_count=9, trigger_type="alert", steps=(STEP,) * 4)
    assert rule.importance(seen, START) == pytest.approx(0.2 + 0.2 + 0.02 + 0.03 + 0.04)
    assert rule.importance(episode(outcome="failed"), START + timedelta(hours=720)) == pytest.approx(0.28)
    assert rule.importance(episode(), START + timedelta(days=999)) == pytest.approx(0.45)


@pytest.mark.parametrize("bad", [{"base": 2}, {"age": -0.1}, {"failed": float("nan")}, {"alert": "much"}])
def test_what_is_no_weight_is_refused(bad):
    with pytest.raises(InputError, match=f"the weight {next(iter(bad))}="):
        ForgetWeights(**bad)


def test_the_defaults_are_those_of_the_requirement():
    assert (RULE.threshold, RULE.min_age, RULE.max_episodes) == (0.25, timedelta(days=7), 10_000)


def test_an_episode_from_the_future_counts_as_new():
    assert worth(hours=-1) == worth(hours=-1e6) == worth(hours=0)


@given(episodes, nows)
def test_it_lies_between_0_and_1(e, now):
    assert 0 <= RULE.importance(e, now) <= 1


@given(episodes, nows, spans)
def test_it_never_grows_with_age(e, now, later):
    assert RULE.importance(e, now + later) <= RULE.importance(e, now)


@given(episodes, nows)
def test_nothing_but_age_accesses_outcome_trigger_and_steps_counts(e, now):
    other = replace(
        e, id="o", trigger_summary="y", pinned=True, consolidated=True, importance=0.1, tags=("a",)
    )
    assert RULE.importance(other, now) == RULE.importance(e, now)


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("days", "goes", "fields"),
    [
        (181, True, {"confidence": 0.5}),
        (180, True, {"confidence": 0.59}),
        (179, False, {"confidence": 0.5}),
        (999, False, {"confidence": 0.6}),
        (181, False, {"confidence": 0.5, "last_accessed_at": START + 2 * DAY}),
        (182, True, {"confidence": 0.5, "last_accessed_at": START + 2 * DAY}),
        (-9, False, {"confidence": 0.5}),
    ],
)
def test_knowledge_goes_uncertain_and_unused(days, goes, fields):
    reason = KnowledgeRule().reason(knowledge(**fields), START + days * DAY)
    assert reason == ("confidence below 0.6 and unused for 180 days" if goes else None)


def test_knowledge_that_grew_lately_is_in_use():
    grown = replace(knowledge(confidence=0.5), updated_at=START + 100 * DAY)
    assert KnowledgeRule().reason(grown, START + 200 * DAY) is None
    assert KnowledgeRule().reason(grown, START + 280 * DAY)


@pytest.mark.parametrize(
    ("days", "reason", "fields"),
    [
        (9_999, None, {}),
        (9_999, None, {"valid_from": START}),
        (364, None, {"status": "superseded"}),
        (365, "superseded for 365 days", {"status": "superseded"}),
        (365, None, {"status": "superseded", "valid_to": START + DAY}),
        (366, "superseded for 365 days", {"status": "superseded", "valid_to": START + DAY}),
        (366, "expired for 365 days", {"status": "expired", "valid_to": START + DAY}),
        (366, "expired for 365 days", {"status": "active", "valid_to": START + DAY}),
        (365, None, {"status": "expired", "last_accessed_at": START + DAY}),
        (29, None, {"status": "retracted"}),
        (30, "retracted for 30 days", {"status": "retracted"}),
        (31, "retracted for 30 days", {"status": "retracted", "last_accessed_at": START + 30 * DAY}),
        (-400, None, {"status": "retracted"}),
    ],
)
def test_facts_go_long_after_they_ended(days, reason, fields):
    assert FactRule().reason(fact(**fields), START + days * DAY) == reason


def test_messages_stay_unless_an_age_is_given():
    said = message("hello")
    assert MessageRule().until(START) is None
    assert MessageRule().reason(said, START + 9_999 * DAY) is None
    rule = MessageRule(max_age=365 * DAY)
    assert rule.reason(said, START + 364 * DAY) is None
    assert rule.reason(said, START + 365 * DAY) == "older than 365 days"


def test_nobody_is_asked_about_what_is_too_young_to_go():
    """What `until` leaves out has no reason to go: it only saves work."""
    for rule in (KnowledgeRule(), FactRule(), MessageRule(max_age=9 * DAY)):
        records = {
            "knowledge": knowledge(confidence=0),
            "fact": fact(status="retracted"),
            "message": message("hello"),
        }
        first = next(d for d in range(500) if rule.reason(records[rule.kind], START + d * DAY))
        assert rule.until(START + first * DAY) == START


def test_an_endless_span_means_never():
    assert KnowledgeRule(unused=timedelta.max).until(START) is None
    assert MessageRule(max_age=timedelta.max).until(START) is None
    assert ForgetRule(min_age=timedelta.max).min_age == timedelta.max


def test_by_default_there_is_a_rule_for_each_other_kind():
    assert [rule.kind for rule in OTHER_RULES] == ["knowledge", "fact", "message", "item"]


@given(episodes, nows, st.integers(0, 9))
def test_it_never_sinks_with_accesses_or_steps(e, now, more):
    recalled = replace(e, access_count=e.access_count + more)
    longer = replace(e, steps=(*e.steps, *(STEP,) * more))
    assert RULE.importance(recalled, now) >= RULE.importance(e, now)
    assert RULE.importance(longer, now) >= RULE.importance(e, now)
