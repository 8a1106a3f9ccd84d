"""Plain talk in a memory: what is moved, what stays as it was, and where somebody lives now."""

from datetime import UTC, datetime, timedelta

import pytest
from stating import ANA, hear
from tables import read_tables

from jiyi.long_term.facts.memory import FactMemory
from jiyi.storage import Store

TABLES = read_tables(__file__)
START = datetime(2026, 6, 1, 9, tzinfo=UTC)


def active(store: Store, *said: str) -> set[str]:
    """Say one thing a day and return the active facts as lines."""
    memory = FactMemory(store, clock=lambda: START + timedelta(days=30))
    for place, text in enumerate(said):
        hear(memory, text, START + timedelta(days=place))
    return {fact.line for fact in memory.facts(ANA, limit=100)}


@pytest.mark.parametrize(("said", "expected"), TABLES["what is said, and what is known then"])
def test_what_is_known_after_plain_talk(store, said, expected):
    assert active(store, *said.split(" / ")) == set(filter(None, expected.split("; ")))


@pytest.mark.parametrize(("now", "move"), TABLES["a home, and a move to come"])
def test_who_will_move_lives_where_they_live_until_then(store, now, move):
    said = [START, START + timedelta(days=1)]
    memory = FactMemory(store, clock=lambda: said[-1])
    for at, text in zip(said, (now, move), strict=True):
        hear(memory, text, at)
    old, new = memory.facts(ANA)
    assert old.valid_to == new.valid_from == datetime(2026, 6, 21, tzinfo=UTC)
    assert memory.facts(ANA, as_of=START + timedelta(days=2)) == [old]
