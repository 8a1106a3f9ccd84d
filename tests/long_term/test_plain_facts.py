"""Plain talk in a memory: what is moved, what stays as it was, and where somebody lives now."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jiyi.long_term.facts.memory import FactMemory
from jiyi.records import Message, Scope
from jiyi.storage import SqliteDatabase, Store

ANA = Scope(user_id="ana", session_id="s")
START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    database = SqliteDatabase(path)
    yield Store(database)
    database.close()


def active(store: Store, *said: str) -> set[str]:
    """Say one thing a day and return the active facts as lines."""
    memory = FactMemory(store, clock=lambda: START + timedelta(days=30))
    for place, text in enumerate(said):
        message = Message(role="user", content=text, created_at=START + timedelta(days=place), scope=ANA)
        with store.transaction():
            memory.learn([one for one in store.put([message]) if isinstance(one, Message)])
    return {fact.line for fact in memory.facts(ANA, limit=100)}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("moved staging to 9191",), {"staging · value: 9191"}),
        (("the staging port is 9090", "moved staging to 9191"), {"staging · port: 9191"}),
        (("moved the standup to 10:15",), {"standup · time: 10:15"}),
        (("standup is at 9:45 every day", "moved the standup to 10:15"), {"standup · time: 10:15"}),
        (("standup is at 9:45 every day", "dentist is at 4pm on Friday"),
         {"standup · time: 9:45 every day", "dentist · time: 4pm on Friday"}),
        (("I live in Kothrud", "new place is in Baner"), {"user · lives in: Baner"}),
        (("我住在望京", "搬到新家了，在通州"), {"user · 住址: 通州"}),
        (("I have asthma", "I have migraines"), {"user · condition: asthma", "user · condition: migraines"}),
        (("I'm vegetarian", "I can't have gluten", "I don't do dairy"),
         {"user · diet: vegetarian", "user · diet: can't have gluten", "user · diet: don't do dairy"}),
        (("我对花生过敏", "我不吃花生"), {"user · 过敏: 花生", "user · 饮食: 不吃花生"}),
    ],
)  # fmt: skip
def test_what_is_known_after_plain_talk(store: Store, said: tuple[str, ...], expected: set[str]) -> None:
    assert active(store, *said) == expected
