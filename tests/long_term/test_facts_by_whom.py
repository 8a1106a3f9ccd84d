"""Whose word counts: nobody else ends what the owner said, and no date outlives the present."""

from datetime import timedelta

import pytest
from stating import ANA, START, at, hear
from tables import read_tables

from jiyi.long_term.facts.memory import FactMemory
from jiyi.testing import ManualClock

TABLES = read_tables(__file__)


@pytest.fixture
def clock():
    return ManualClock(START + timedelta(days=10))


@pytest.fixture
def memory(store, clock):
    return FactMemory(store, clock=clock)


@pytest.fixture
def say(memory):
    return lambda text, day, **who: hear(memory, text, at(day), **who)


PORT = "The port of ledger-api is 8443."


@pytest.mark.parametrize("other", [{"name": "webpage"}, {"role": "assistant"}, {"name": "Bo"}], ids=str)
@pytest.mark.parametrize(("own", "told"), TABLES["what the owner said, and what others tell"])
def test_nobody_else_ends_what_the_owner_said(memory, say, own, told, other):
    say(own, 1)
    say(told, 2, **other)
    (kept,) = [fact for fact in memory.facts(ANA) if fact.speaker == "user"]
    assert (kept.valid_to, kept.superseded_by) == (None, None)
    assert all(fact.speaker in (other.get("name"), "assistant") for fact in memory.facts(ANA) if fact != kept)


@pytest.mark.parametrize("later", [{"name": "Mia"}, {}, {"role": "assistant"}], ids=str)
def test_a_person_ends_what_another_said_but_an_assistant_does_not(memory, say, later):
    say(PORT, 1, name="Bo")
    say("The port of ledger-api is 9999 now.", 2, **later)
    assert sorted(fact.object for fact in memory.facts(ANA)) == (
        ["8443", "9999"] if "role" in later else ["9999"]
    )


def test_a_tool_does_not_speak_for_the_user_and_the_user_ends_what_it_said(memory, say):
    say(PORT, 1)
    say("ledger-api: Port=9999", 2, role="tool", name="user", tool_call_id="c")
    assert {(fact.speaker, fact.object) for fact in memory.facts(ANA)} == {("user", "8443"), ("tool", "9999")}
    say("The port of ledger-api is 9000.", 3)
    assert [(fact.speaker, fact.object) for fact in memory.facts(ANA)] == [("user", "9000")]


@pytest.mark.parametrize("own", [PORT, "ledger-api的端口是8443。"])
@pytest.mark.parametrize("told", TABLES["dated beyond every calendar"])
def test_what_is_dated_beyond_every_calendar_changes_nothing(memory, say, own, told):
    say(own, 1)
    say(told, 2)
    assert [(fact.object, fact.valid_to) for fact in memory.facts(ANA)] == [("8443", None)]


@pytest.mark.parametrize("told", TABLES["numbers that are no years"])
def test_numbers_are_no_years(memory, say, told):
    say(told, 1)
    assert [fact.object for fact in memory.facts(ANA)] in (["8443"], ["3000"])


def test_a_message_dated_ahead_is_said_by_now(memory, say, clock):
    say("The port of edge-02 is 9999.", 400_000)
    clock.forward(days=2)
    say("The port of edge-02 is 8443.", 12)
    assert [fact.object for fact in memory.facts(ANA)] == ["8443"]
