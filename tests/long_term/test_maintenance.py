"""Maintenance by itself: once in so many hours, by one of the processes on a database."""

import logging
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from at_once import wait_until
from refusing import refused

from jiyi.errors import SettingsError
from jiyi.long_term import memory as long_term

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clock(clock, monkeypatch):
    monkeypatch.setattr(long_term, "_MAX_POLL", 0.01)
    return clock


@pytest.fixture
def opened(open_memory, clock):
    return partial(open_memory, clock=clock, background=True)


@pytest.fixture
def runs(monkeypatch):
    """Whose memory was maintained, and as often."""
    done, real = [], long_term.maintain

    def noted(memory, scope, **options):
        done.append(scope.user_id)
        return real(memory, scope, **options)

    monkeypatch.setattr(long_term, "maintain", noted)
    return done


def test_it_ends_what_is_over_for_every_user_once_a_day(opened, clock, runs):
    first, second = opened(maintain_hours=24), opened(maintain_hours=24)
    for user in ("ana", "ben"):
        first.remember("the gate is open", valid_to=START + DAY, user_id=user)
    wait_until(lambda: all(one.parts.workers[0]._done_period >= 0 for one in (first, second)))
    runs.clear()
    for day in (1, 2):
        clock.forward(days=1, minutes=5)
        wait_until(lambda day=day: len(runs) >= 2 * day)
        time.sleep(0.1)  # the other one looks, too
    assert sorted(runs) == ["ana", "ana", "ben", "ben"]
    for user in ("ana", "ben"):
        assert [fact.text for fact in second.facts(status="expired", user_id=user)] == ["the gate is open"]


def test_it_does_not_run_unless_asked_to(opened, clock, runs):
    opened().remember("the gate is open", valid_to=START + DAY)
    clock.forward(days=3)
    time.sleep(0.2)
    assert runs == []
    refused(SettingsError, "maintain_hours", opened, maintain_hours=0)


def test_what_fails_is_tried_again_by_the_same_process(opened, clock, runs, monkeypatch, caplog):
    monkeypatch.setattr("jiyi.long_term.worker._MAX_PAUSE", 0.01)
    memory = opened(maintain_hours=24)
    for user in ("ana", "ben"):
        memory.save_message("s-1", role="user", content="hello", user_id=user)
    wait_until(lambda: memory.parts.workers[0]._done_period >= 0)
    noted, failures = long_term.maintain, [OSError("the disk is away")]

    def moody(*given, **options):
        if failures:
            raise failures.pop()
        return noted(*given, **options)

    monkeypatch.setattr(long_term, "maintain", moody)
    runs.clear()
    with caplog.at_level(logging.WARNING, "jiyi"):
        clock.forward(days=1)
        wait_until(lambda: runs == ["ben", "ana", "ben"])  # the others' are done in spite of it
    assert "the disk is away" in caplog.text
