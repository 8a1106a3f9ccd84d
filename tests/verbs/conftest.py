"""Fixtures of the verbs' tests: a clock to turn by hand, and a memory that goes by it."""

from datetime import UTC, datetime

import pytest

from jiyi.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock(datetime(2026, 1, 5, 9, tzinfo=UTC))


@pytest.fixture
def memory(open_memory, clock):
    return open_memory(clock=clock, timezone="UTC")
