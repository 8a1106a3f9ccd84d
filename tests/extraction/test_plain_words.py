"""What people plainly say of themselves, and what of it has ended, Chinese and English."""

from datetime import UTC, datetime

import pytest

from jiyi.extraction import Statement, extract

SAID_AT = datetime(2026, 5, 20, tzinfo=UTC)


def read(text: str, speaker: str) -> list[Statement]:
    return extract(text, speaker=speaker, role="user", said_at=SAID_AT, zone=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm a software engineer at Acme.", {"job": "software engineer", "works at": "Acme"}),
        ("I work as a nurse at St James's Hospital.", {"job": "nurse", "works at": "St James's Hospital"}),
        ("I'm Hannah, I'm 29 and I live in Leeds.", {"name": "Hannah", "age": "29", "lives in": "Leeds"}),
        ("We've moved to York.", {"lives in": "York"}),
        ("I've just started at the Royal Infirmary.", {"works at": "Royal Infirmary"}),
        ("I joined Spotify last week.", {"works at": "Spotify"}),
        ("I turned 30 last week.", {"age": "30"}),
        ("We have two kids, Maya and Arjun.", {"kids": "Maya and Arjun"}),
        ("I drive a Toyota Corolla.", {"car": "Toyota Corolla"}),
        ("I've become a vegan.", {"diet": "vegan"}),
        ("I have a dentist appointment on May 3.", {"dentist appointment": "on May 3"}),
        (
            "我叫王晓雯，今年27岁，住在杭州滨江，在网易做设计。",
            {"姓名": "王晓雯", "年龄": "27岁", "住址": "杭州滨江", "工作单位": "网易"},
        ),
        ("我从滨江搬出来了，现在一个人住在拱墅区。", {"住址": "拱墅区"}),
        ("我跳槽到网易了。", {"工作单位": "网易"}),
        ("前天过生日，我28啦。", {"年龄": "28"}),
        ("我太太叫沈静，女儿陆一诺今年读初一。", {"太太": "沈静", "女儿": "陆一诺"}),
        ("我的车是比亚迪汉。", {"车": "比亚迪汉"}),
        ("我吃素。", {"饮食": "吃素"}),
    ],
)
def test_several_points_in_plain_words(text, expected):
    named = [one for one in read(text, "Ana") if not one.predicate.startswith(("(", "（"))]
    assert {one.predicate: one.object for one in named} == expected
    assert {one.subject for one in named} == {"Ana"}


@pytest.mark.parametrize(
    "text",
    [
        "I'm Danish, I love the sea.",
        "My brother moved to York.",
        "我老婆叫林悦，在医院做护士。",
        "我等了三十分钟了。",
        "女儿今年在上学。",
    ],
)
def test_what_is_not_said_of_the_speaker(text):
    own = {one.predicate for one in read(text, "Ana") if one.subject == "Ana"}
    assert not own & {"name", "lives in", "works at", "工作单位", "年龄", "女儿"}


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("I don't live in Leeds any more.", "Ana"),
        ("Maya isn't allergic to peanuts any more.", "Maya"),
        ("I'm not allergic to cats after all.", "Ana"),
        ("我不在字节跳动了。", "Ana"),
        ("医生说我现在对海鲜不过敏了。", "Ana"),
    ],
)
def test_what_has_ended(text, subject):
    (found,) = read(text, "Ana")
    assert (found.action, found.subject) == ("end", subject)
