"""Everyday talk: what moves, who has it now, what may be but is not, and what tools print."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from jiyi.extraction import Statement, extract
from jiyi.records import Role

SAID_AT = datetime(2026, 6, 18, 9, 30, tzinfo=UTC)


def read(text: str, *, role: Role = "user", context: Sequence[str] = ()) -> list[Statement]:
    speaker = "Ana" if role == "user" else "sh"
    return extract(text, speaker=speaker, role=role, said_at=SAID_AT, zone=UTC, context=context)


def parts(text: str, **more) -> list[tuple[str, str, str]]:
    return [(one.subject, one.predicate, one.object) for one in read(text, **more)]


@pytest.mark.parametrize(
    ("text", "subject", "old", "new"),
    [
        ("门禁码 4417 换 9032", "门禁码", "4417", "9032"),
        ("班车 3 路改 8 路了", "班车", "3 路", "8 路"),
        ("储物柜 B07 换 B21 了", "储物柜", "B07", "B21"),
        ("早会改九点半", "早会", "", "九点半"),
        ("体检改期，改下周一", "", "", "下周一"),
        ("测试库上个月也升到 8.0 了", "测试库", "", "8.0"),
        ("it never was dairy, it's soya", "", "dairy", "soya"),
        ("跟奶粉没关系 是面霜闹的", "", "奶粉", "面霜"),
    ],
)
def test_what_is_moved_or_put_right(text, subject, old, new):
    (one,) = read(text)
    assert (one.subject, one.replaces, one.object) == (subject, old, new)
    assert one.corrects == bool(old and not old[-1].isdigit() and old != "3 路")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("payroll belongs to Jonas", ("payroll", "owner", "Jonas")),
        ("the allotment keys went over to Ruth", ("allotment keys", "owner", "Ruth")),
        ("I'm handing the minutes to Greta", ("minutes", "owner", "Greta")),
        ("Nadia heads the committee now", ("committee", "head", "Nadia")),
        ("Lena's doing the lighting instead", ("lighting", "owner", "Lena")),
        ("我们店叫半山", ("店", "名字", "半山")),
        ("缓存服务用的是 2.3", ("缓存服务", "版本", "2.3")),
        ("搬完了，在黑石礁，跟同事合租", ("Ana", "住址", "黑石礁")),
        ("我们组长换人了，以前是老胡，现在是林珊", ("Ana", "组长", "林珊")),
        ("Moving to Delft on the first of December.", ("Ana", "lives in", "Delft")),
        ("the box called heron-3 and listens on 7070", ("heron-3", "port", "7070")),
        ("糖糖转学了，现在在文星小学", ("糖糖", "（是）", "文星小学")),
        ("妈妈出院了，现在在舅舅家", ("Ana的妈妈", "（是）", "舅舅家")),
    ],
)
def test_whose_it_is_and_what_it_is_called(text, expected):
    assert parts(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        *("别改周五", "想改周五", "要不改周三", "如果 G102 改 G118", "我改天再说", "2 换 1 不划算"),
        *("你们店叫什么", "我们公司叫我出差", "我们班叫家长来", "押金一千 是吧", "搬走了，在哪不知道"),
        *("我可能把车卖了", "我想把猫送人", "我要把旧手机卖了", "perhaps we cancelled the gym"),
        *("we went to Rome", "who does payroll belong to?", "Nadia might head the committee"),
        *("it's not good, it's great", "we moved to a bigger flat near the canal"),
    ],
)
def test_what_states_nothing_of_the_kind(text):
    assert parts(text) == []


@pytest.mark.parametrize("text", ["we moved to the sofa", "我们搬到沙发上了", "搬去次卧睡了"])
def test_what_is_no_address(text):
    assert not any(point in ("lives in", "住址") for _, point, _ in parts(text))


@pytest.mark.parametrize(
    ("asked", "answer"), [("那改哪天", "周四"), ("几点到", "七点半"), ("要几个", "四个")]
)
def test_a_value_alone_answers(asked, answer):
    assert [value for _, _, value in parts(answer, context=[asked])] == [answer]
    assert parts("不知道", context=[asked]) == []


def test_what_is_said_of_a_week_is_over_with_it():
    ends = [read(text)[0].valid_to for text in ("这周我不吃辣", "我不吃辣", "这周三我不吃午饭")]
    assert ends == [datetime(2026, 6, 22, tzinfo=UTC), None, None]
    (one,) = read("Ines leads us since May")
    assert one.valid_from is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$ node --version\nv22.3.0", [("node", "version", "22.3.0")]),
        ("$ cat /etc/app/worker.conf\nconcurrency = 12", [("worker.conf", "concurrency", "12")]),
        ("$ ctl show\nrate_limit 200 -> 350 ok", [("ctl", "rate_limit", "350")]),
        ("$ redis-cli config set maxmemory 2gb\nOK", [("redis-cli", "maxmemory", "2gb")]),
        ("service=checkout replicas=4 restarts=2", [("checkout", "replicas", "4")]),
        ('job=nightly schedule="0 3 * * *"', [("nightly", "schedule", "0 3 * * *")]),
        ("deployment.apps/web replicas=6", [("web", "replicas", "6")]),
        ("redis:7.2.4  0.0.0.0:6380->6379/tcp", [("redis", "version", "7.2.4"), ("redis", "port", "6380")]),
        (
            'b94265c3722f  hub.int/edge/tea:0.4.1  "/bin/tea"  Up 3 days  0.0.0.0:8088->80/tcp',
            [("tea", "version", "0.4.1"), ("tea", "port", "8088")],
        ),
        ("Issuer: C = US, O = Let's Encrypt", []),
        ("Successfully installed httpx-0.27.2", [("httpx", "version", "0.27.2")]),
    ],
)
def test_what_tools_print(text, expected):
    assert parts(text, role="tool") == expected


@pytest.mark.parametrize(
    "text",
    [
        *("$ redis-cli config set maxmemory 2gb\n(error) denied", "ERROR: job=nightly failed after 3s"),
        *("retries 3 -> 5", "total = total + 1", "test_login ... ok", "64 bytes from 10.0.0.3: time=0.3 ms"),
        *("https://x.test/a?b=1&c=2", "Progress: 45%", "+ x = 3 passed", "restarts=0 image=x"),
    ],
)
def test_what_passes_in_a_tools_output(text):
    assert parts(text, role="tool") == []
