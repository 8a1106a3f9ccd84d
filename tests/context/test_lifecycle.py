"""Health of a session, and the advice that follows from it."""

import json

import pytest
from conversations import conversations
from hypothesis import given
from hypothesis import strategies as st
from refusing import raises, refused
from tables import read_tables

from jiyi.context import Health, Thresholds, advise, health
from jiyi.errors import BadBudget, BadMessage, SettingsError
from jiyi.records import Message
from jiyi.text import counter_for

COUNTER = counter_for()
TABLES = read_tables(__file__)
ABOUT_WORK, ABOUT_FOOD = ({t: TABLES[f"{w} {t}"] for t in ("zh", "en")} for w in ("work", "food"))


def talk(*parts):
    return [{"role": role, "content": content} for part in parts for role, content in part]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_a_session_about_one_thing_is_well_and_what_the_newest_turns_have_left_is_stale(language):
    found = health(talk(ABOUT_WORK[language] * 1), 4_000, recent=1)
    assert found.length < 0.1
    assert found.stale == 0
    assert found.repeated < 0.2
    assert found.misses is None
    assert advise(found).action == "continue"
    assert advise(found).reasons == ()
    found = health(talk(ABOUT_WORK[language], ABOUT_FOOD[language]), 4_000, recent=2)
    assert 0.4 < found.stale < 0.7
    assert found.drift > 0.9
    back = health(talk(ABOUT_FOOD[language], ABOUT_WORK[language]), 4_000, recent=2, goal="pay-gw 9443")
    assert back.drift == 0


@pytest.mark.parametrize("language", ["zh", "en"])
def test_what_is_said_again_is_repeated(language):
    once = health(talk(ABOUT_WORK[language]), 4_000).repeated
    twice = health(talk(ABOUT_WORK[language], ABOUT_WORK[language]), 4_000).repeated
    assert twice > once + 0.4
    assert twice <= 0.6
    logs = [
        {"role": "user", "content": f"08:{n:02d} error upstream timed out while connecting to app-0{n}"}
        for n in range(9)
    ]
    assert health(logs, 4_000).repeated > 0.8, "numbers count as equal"


def test_system_and_pinned_messages_are_never_stale_and_the_length_is_the_windows():
    old = [
        Message(role="system", content="You are a cook."),
        Message(role="user", content="allergic to nuts", pinned=True),
    ]
    later = [Message.from_openai(m) for m in talk(ABOUT_WORK["en"])]
    found = health([*old, *later], 1_000, recent=1)
    assert found.stale == 0
    assert found.length == COUNTER.count_all([*old, *later]) / 1_000


def test_what_is_measured_elsewhere_is_taken_over():
    found = health(talk(ABOUT_WORK["en"]), 4_000, hit_rate=0.25, drift=0.9)
    assert (found.misses, found.drift) == (0.75, 0.9)
    assert health([], 100) == Health(length=0.03, stale=0, repeated=0)
    assert health(talk(ABOUT_WORK["en"]), 4_000, recent=5).drift is None


@given(conversations(), st.integers(1, 500), st.integers(1, 4))
def test_every_share_is_one(messages, size, recent):
    found = health(messages, size, recent=recent)
    assert all(0 <= share <= 1 for share in (found.stale, found.repeated, found.drift or 0))
    assert found == health(messages, size, recent=recent)


@pytest.mark.parametrize(("figures", "action", "signs"), TABLES["advice: figures, action, signs of wear"])
def test_the_advice_follows_from_the_figures(figures, action, signs):
    advice = advise(Health(**{"stale": 0.0, "repeated": 0.0, **json.loads(figures)}))
    assert advice.action == action
    size = [r for r in advice.reasons if "of the window" in r]
    assert len(advice.reasons) - len(size) == int(signs)
    assert bool(size) == (action != "continue")


def test_own_thresholds_decide():
    worn = Health(length=0.5, stale=0.3, repeated=0.0)
    assert advise(worn).action == "continue"
    assert advise(worn, Thresholds(stale=0.3)).action == "summarise"
    assert advise(worn, Thresholds(length=0.5)).action == "summarise"


def test_what_cannot_be_is_refused():
    for wrong in ({"max_tokens": 0}, {"max_tokens": 10, "recent": 0}):
        raises(BadBudget, health, [], **wrong)
    refused(BadMessage, "role", health, [{"content": "no role"}], 10)
    for value in (-0.1, float("nan"), "0.5", True):
        refused(SettingsError, "stale", Thresholds, stale=value)
