"""Plain talk in a memory: what is moved, what stays as it was, and where somebody lives now."""

from datetime import UTC, datetime, timedelta

import pytest

from jiyi.long_term.facts.memory import FactMemory
from jiyi.records import Message, Scope
from jiyi.storage import SqliteDatabase, Store

ANA = Scope(user_id="ana", session_id="s")
START = datetime(2026, 6, 1, 9, tzinfo=UTC)


@pytest.fixture
def store(path):
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
        (("we run postgres 14 on db1, staging db is on port 5433", "we finally upgraded db1 to 16"),
         {"db1 · postgres: 16", "staging db · port: 5433"}),
        (("our deadline for the migration is October 15", "they pushed the migration to November 3"),
         {"migration · deadline: November 3"}),
        (("my standup is at 10", "my standup is at 9:15 now instead of 10"), {"user's standup · time: 9:15"}),
        (("my standup is at 9:45", "it's at 9:15 now"), {"user's standup · time: 9:15"}),
        (("my standup is at 9:45", "my yoga class is at 11:30", "it's at 9:15 now"),
         {"user's standup · time: 9:45", "user's yoga class · time: 9:15"}),
        (("I drive a 2015 Skoda Octavia", "sold the Skoda finally"), {"user: sold the Skoda finally"}),
        (("Sam drives a Skoda", "my son plays the violin", "he quit violin"),
         {"user: Sam drives a Skoda", "user: he quit violin"}),
        (("our drummer is Kit", "our baker is Jo", "Kit quit the band"),
         {"user · baker: Jo", "user: Kit quit the band"}),
        (("my budget for the bike is 4,000 zł tops",), {"bike · budget: 4,000 zł"}),
        (("I dropped my phone", "I closed the window", "I finished dinner early"), set()),
        (("pay-gw 听 8443", "pay-gw 从今天起改到 9443"), {"pay-gw · 端口: 9443"}),
        (("孩子的班主任是王老师", "班主任换成李老师了"), {"孩子 · 班主任: 李老师"}),
        (("迁移的截止日期是10月15号", "迁移推迟到11月3号了"), {"迁移 · 截止日期: 11月3号"}),
        (("我开一辆老款的斯柯达", "把斯柯达卖了"), set()),
        (("我住在浦东", "我们公司搬到望京了"), {"user · 住址: 浦东", "user的公司 · 地址: 望京"}),
    ],
)  # fmt: skip
def test_what_is_known_after_plain_talk(store, said, expected):
    assert active(store, *said) == expected


@pytest.mark.parametrize(
    ("now", "move"),
    [("I live in Kraków", "we're moving to Poznań end of June"), ("我住在浦东", "六月底我们搬去苏州")],
)
def test_who_will_move_lives_where_they_live_until_then(store, now, move):
    said = [START, START + timedelta(days=1)]
    memory = FactMemory(store, clock=lambda: said[-1])
    for at, text in zip(said, (now, move), strict=True):
        message = Message(role="user", content=text, created_at=at, scope=ANA)
        with store.transaction():
            memory.learn([one for one in store.put([message]) if isinstance(one, Message)])
    old, new = memory.facts(ANA)
    assert old.valid_to == new.valid_from == datetime(2026, 6, 21, tzinfo=UTC)
    assert memory.facts(ANA, as_of=START + timedelta(days=2)) == [old]
