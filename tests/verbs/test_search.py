"""Searching by the verb: when it is asked, what was said around, why a hit is one, and doubt."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from refusing import refused

from jiyi.errors import BadQuery, NaiveDatetime
from jiyi.long_term import WEIGHTS
from jiyi.testing import ManualClock

MONDAY = datetime(2026, 3, 2, 8, tzinfo=UTC)


def say(memory, *texts, session="s", begin=MONDAY, step=timedelta(minutes=1), **fields):
    return [
        memory.save_message(session, {"role": "user", "content": text} | fields, created_at=begin + i * step)
        for i, text in enumerate(texts)
    ]


@pytest.fixture
def lunches(memory):
    """A week of lunches, from Monday on."""
    said = say(memory, *(f"lunch 午饭: dish {i}" for i in range(6)), step=timedelta(days=1))
    memory.flush()
    return said


@pytest.mark.parametrize("text", ["lunch two days ago", "前天的午饭"])
def test_times_in_a_question_are_seen_from_when_it_is_asked(memory, lunches, text):
    for day in (4, 5):
        found = memory.search(text, asked_at=MONDAY + timedelta(days=day))
        assert found[0].id in {lunches[day - 2].id, lunches[day - 1].id}, "that day, or told a day later"
        assert [hit.why["in_time"] > 0 for hit in found[:2]] == [True, True]


def test_without_a_time_the_clock_says_when(open_memory):
    clock = ManualClock(MONDAY)
    memory = open_memory(clock=clock)
    say(memory, "lunch")
    clock.forward(days=1)
    assert memory.search("lunch yesterday")[0].why["in_time"] > 0
    clock.forward(days=9)
    assert "in_time" not in memory.search("lunch yesterday")[0].why


def test_a_day_is_one_of_the_zone_in_the_settings(open_memory):
    asked_at = datetime(2026, 3, 2, 20, tzinfo=UTC)  # the 3rd in Shanghai, where "yesterday" began on the 1st
    for zone, found in (("Asia/Shanghai", False), ("UTC", True)):
        memory = open_memory(timezone=zone)
        if not memory.stats()["message"]:
            say(memory, "lunch", begin=datetime(2026, 3, 1, 12, tzinfo=UTC))
        assert ("in_time" in memory.search("lunch yesterday", asked_at=asked_at)[0].why) == found, zone


def test_moments_of_any_zone_are_fine_and_naive_ones_are_refused(memory, lunches):
    plain = memory.search("lunch yesterday", asked_at=MONDAY + timedelta(days=3))
    moved = (MONDAY + timedelta(days=3)).astimezone(timezone(timedelta(hours=9)))
    assert memory.search("lunch yesterday", asked_at=moved) == plain
    with pytest.raises(NaiveDatetime):
        memory.search("lunch", asked_at=datetime(2026, 3, 5))  # noqa: DTZ001
    refused(BadQuery, "asked_at", memory.search, "lunch", asked_at="yesterday")


def test_hits_come_with_what_was_said_around_them(memory):
    said = say(memory, "hello", "the disk is full", "which one?", "web-7")
    say(memory, "nothing to see here", session="t")
    memory.flush()
    (hit,) = memory.search("disk", limit=1, around=1)
    assert hit.around == (said[0], said[2])
    (hit,) = memory.search("disk", limit=1, around=50, session_id="s")
    assert hit.around == (said[0], said[2], said[3])
    assert [hit.around for hit in memory.search("disk", limit=1)] == [()]
    refused(BadQuery, "around", memory.search, "disk", around=-1)


def test_a_hit_says_why_it_is_one(memory, lunches):
    for hit in memory.search("lunch dish 3"):
        assert set(hit.why) <= set(WEIGHTS) | {"pinned", "importance", "confidence"}
        assert sum(hit.why.values()) == pytest.approx(hit.score, abs=0.01)
    (pinned,) = say(memory, "lunch was great")
    memory.save_message("s", role="user", content="lunch was awful", pinned=True, importance=1.0)
    shares = {hit.text: hit.why for hit in memory.search("great or awful lunch", limit=20)}
    assert {"pinned", "importance"} <= set(shares["lunch was awful"])
    assert not {"pinned", "importance"} & set(shares[pinned.content])
