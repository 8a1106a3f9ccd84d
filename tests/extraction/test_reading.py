"""Reading messages by patterns: what gives a statement, and what must not."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.extraction import Statement, extract

NOW = datetime(2026, 6, 10, 9, 30, tzinfo=UTC)  # a Wednesday


def read(text: str, speaker: str | None = "Ana", **options: Any) -> list[Statement]:
    given: dict[str, Any] = {"role": "user", "said_at": NOW, "zone": UTC} | options
    return extract(text, speaker=speaker, **given)


def parts(text: str, speaker: str | None = "Ana", **options: Any) -> list[tuple[str, str, str]]:
    return [(one.subject, one.predicate, one.object) for one in read(text, speaker, **options)]


def day(month: int, number: int) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我叫林芷", ("Ana", "姓名", "林芷")),
        ("我是一名护士。", ("Ana", "职业", "护士")),
        ("我住在杭州", ("Ana", "住址", "杭州")),
        ("我的生日是 5 月 4 日", ("Ana", "生日", "5 月 4 日")),
        ("我妈的生日是 3 月 2 日", ("Ana的妈", "生日", "3 月 2 日")),
        ("我的手机号是 13800001111", ("Ana", "手机号", "13800001111")),
        ("My name is Ana Lopez.", ("Ana", "name", "Ana Lopez")),
        ("I work as a nurse in Porto", ("Ana", "job", "nurse")),
        ("I'm a software engineer.", ("Ana", "job", "software engineer")),
        ("I live in Berlin", ("Ana", "lives in", "Berlin")),
        ("my birthday is May 4", ("Ana", "birthday", "May 4")),
        ("I'm 32 years old", ("Ana", "age", "32")),
    ],
)
def test_who_somebody_is(text, expected):
    assert parts(text) == [expected]
    assert read(text)[0].category == "profile" or "的妈" in expected[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我很喜欢川菜和粤菜。", ("Ana", "喜欢", "川菜和粤菜")),
        ("我不太喜欢喝咖啡", ("Ana", "讨厌", "喝咖啡")),
        ("我不再喜欢咖啡了", ("Ana", "讨厌", "咖啡")),
        ("我对花生过敏", ("Ana", "过敏", "花生")),
        ("我最喜欢的颜色是蓝色", ("Ana", "最喜欢的颜色", "蓝色")),
        ("I really enjoy hiking, it clears my head", ("Ana", "likes", "hiking")),
        ("I hate early meetings", ("Ana", "dislikes", "early meetings")),
        ("I don't like snakes.", ("Ana", "dislikes", "snakes")),
        ("I no longer like coffee", ("Ana", "dislikes", "coffee")),
        ("I prefer window seats because I sleep better", ("Ana", "prefers", "window seats")),
        ("I'm allergic to peanuts.", ("Ana", "allergic to", "peanuts")),
        ("My favourite colour is blue", ("Ana", "favourite colour", "blue")),
    ],
)
def test_what_somebody_likes(text, expected):
    assert parts(text) == [expected]
    assert read(text)[0].category == "preference"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("记一下，edge-02 网关对外监听的端口是 8443，nginx 那层直接转过去。", ("edge-02", "端口", "8443")),
        ("page_size 上限 100", ("page_size", "上限", "100")),
        ("page_size 的天花板提到 500 吧，别的规则照旧。", ("page_size", "天花板", "500")),
        ("token 过期从两小时调到四小时，测过了。", ("token", "过期", "四小时")),
        ("hk-4 是 10.8.3.22", ("hk-4", "地址", "10.8.3.22")),
        ("orders 表里 remark 是 varchar(200)", ("orders 表里 remark", "类型", "varchar(200)")),
        ("结算模块里 amount 字段的单位是元", ("结算模块里 amount 字段", "单位", "元")),
        ("新家门锁密码 602918，帮我存一下", ("新家门锁", "密码", "602918")),
        ("The port of edge-02 is 8443.", ("edge-02", "port", "8443")),
        ("edge-02's port changed from 8443 to 8444", ("edge-02", "port", "8444")),
        ("retention is 30 days", ("retention", "value", "30 days")),
        ("The public API rate limit is 600 requests per minute per key.",
         ("public API", "rate limit", "600 requests per minute per key")),
        ("CI image runs Node 20, so no native require.", ("CI", "image", "Node 20")),
        ("The billing Postgres is on 14.11.", ("billing Postgres", "version", "14.11")),
        ("So ci-forge is up to 10 executors.", ("ci-forge", "executors", "10")),
        ("My passport runs out in May 2027", ("Ana's passport", "expires", "May 2027")),
        ("Dad's hip operation is on 8 October", ("Dad's hip operation", "time", "8 October")),
    ],
)  # fmt: skip
def test_points_with_their_values(text, expected):
    assert parts(text) == [expected]


def test_an_omitted_subject_is_the_thing_the_sentence_spoke_of():
    text = "库存服务 stock-svc 由 Go 写成，对外超时 3 秒，熔断阈值 50%。"
    assert parts(text) == [("stock-svc", "超时", "3 秒"), ("stock-svc", "熔断阈值", "50%")]
    text = "staging 的测试账号是 qa_robot，登录口令 Mx7-tulip-93。"
    assert parts(text) == [("staging", "账号", "qa_robot"), ("staging", "登录口令", "Mx7-tulip-93")]
    two = "edge-02 的端口是 8443，edge-05 的端口是 9080"
    assert parts(two) == [("edge-02", "端口", "8443"), ("edge-05", "端口", "9080")]


def test_it_is_what_was_spoken_of_just_before():
    assert parts("Its port is 8443", context=["edge-02 is up", "Good."]) == [("edge-02", "port", "8443")]
    assert parts("It is on 14.11", context=["We upgrade Postgres"]) == [("Postgres", "version", "14.11")]
    assert parts("It is on 14.11") == []


@pytest.mark.parametrize(
    ("text", "category", "expected"),
    [
        ("数据库决定用 Postgres", "decision", ("数据库", "选用", "Postgres")),
        ("We decided on Postgres for billing", "decision", ("billing", "uses", "Postgres")),
        ("小雨是老王的女儿", "relation", ("老王", "女儿", "小雨")),
        ("我女儿叫糖糖", "relation", ("Ana", "女儿", "糖糖")),
        ("小雨在腾讯工作", "relation", ("小雨", "工作单位", "腾讯")),
        ("billing 的负责人是小冉", "relation", ("billing", "负责人", "小冉")),
        ("鉴权模块 authn 我在维护", "relation", ("authn", "负责人", "Ana")),
        ("Mei is Bob's daughter", "relation", ("Bob", "daughter", "Mei")),
        ("My daughter is called Mia", "relation", ("Ana", "daughter", "Mia")),
        ("Bob reports to Alice", "relation", ("Bob", "manager", "Alice")),
        ("Sarah works at Google now", "relation", ("Sarah", "works at", "Google")),
        ("记得明天给妈妈打电话", "todo", ("Ana", "待办", "明天给妈妈打电话")),
        ("别忘了周五交周报", "todo", ("Ana", "待办", "周五交周报")),
        ("Please remind me to call mom tomorrow", "todo", ("Ana", "to-do", "call mom tomorrow")),
        ("TODO: rotate the keys", "todo", ("Ana", "to-do", "rotate the keys")),
    ],
)
def test_decisions_relations_and_to_dos(text, category, expected):
    assert parts(text) == [expected]
    assert read(text)[0].category == category


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("hk-3 以后叫 relay-hk，监控上的名字今天都换好了。", "hk-3", "relay-hk"),
        ("今天开始 order-svc 正式更名为 trade-core", "order-svc", "trade-core"),
        ("Struck. gizmo becomes ci-forge from today", "gizmo", "ci-forge"),
        ("The old repo was renamed to signal-kit", "old repo", "signal-kit"),
        ("the Larks are Harbour Voices from now on.", "Larks", "Harbour Voices"),
        ("The build server, which everyone calls gizmo, is slow", "build server", "gizmo"),
    ],
)
def test_names_for_the_same_thing(text, one, other):
    assert parts(text) == [(one, "alias", other)]


@pytest.mark.parametrize(
    "text",
    [
        "edge-02 的端口是 8443 吗？",
        "Is the port of edge-02 8443?",
        "如果 edge-02 的端口是 9000 就好了",
        "要是上限提到 2000，得先压测",
        "If the port of edge-02 is 9000 it works",
        "Unless the timeout is 5 s we fail",
        "edge-02 的端口不是 8443",
        "The port of edge-02 is not 8443",
        "部署文档上写着 edge-02 监听端口是 8443",
        "The wiki still claims billing Postgres is on 14.11",
        "Capacity sheet says gizmo has 6 executors",
        "我喜欢你的想法",
        "I love that!",
        "I'd love to live in Berlin",
        "I like your idea",
        "I like how it looks",
        "I went to Woodhaven",
        "享受自由的感觉",
        "最近我在找了几份工作",
        "大致记得是醋和糖",
        "It's easy to get lost and forget that.",
        "> the port of edge-02 is 8443",
        "```\nport: the port of edge-02 is 8443\n```",
        "嗯，好的，谢谢！",
        "",
        "   \n ",
    ],
)
def test_what_is_no_statement(text):
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("dinner is at six until Friday", None, day(6, 13)),
        ("只有这周，发布窗口改成周三晚上九点", None, day(6, 15)),
        ("从 7 月 1 日起，edge-02 的端口是 9000", day(7, 1), None),
        ("周二夜班从 16 号起交给小满", day(6, 16), None),
        ("dinner is at six from the 14th to the 28th, for those two weeks", day(6, 14), day(6, 29)),
        ("我妈的生日是 3 月 2 日", None, None),
        ("Dad's hip operation is on 8 October", None, None),
    ],
)
def test_since_when_and_until_when(text, begins, ends):
    (one,) = read(text)
    assert (one.valid_from, one.valid_to) == (begins, ends)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("5 月 10 日凌晨把 prod 升到 1.31", None),
        ("7 月 10 日凌晨把 prod 升到 1.31", day(7, 10)),
        ("On July 10 we upgrade prod to 1.31", day(7, 10)),
        ("I'm planning to run a marathon next month", day(7, 1)),
        ("记得明天给妈妈打电话", day(6, 11)),
        ("I plan to stay home until Sunday", "never said"),
    ],
)
def test_plans_begin_on_their_day(text, begins):
    (one,) = read(text)
    assert one.category in ("plan", "todo")
    assert one.valid_to is None
    if begins == "never said":
        assert one.valid_from is None
    elif begins is None:  # the next tenth of May
        assert one.valid_from is not None
        assert one.valid_from > NOW
    else:
        assert one.valid_from == begins


@pytest.mark.parametrize(
    ("text", "erases"),
    [
        ("算了，别记这个", False),
        ("当我没说", False),
        ("算了，prod 升 1.31 那条当我没说，整个计划作废。", False),
        ("把我之前给你的 staging 登录口令删掉，彻底删", True),
        ("forget that", False),
        ("Ignore the 3.9 drop, unsay it.", False),
        ("Scratch Lisbon, please don't plan toward it any more.", False),
        ("Delete the charting licence key you hold.", True),
    ],
)
def test_taking_back(text, erases):
    (one,) = read(text)
    assert one.action == "retract"
    assert one.quote == text
    assert one.erases is erases
    assert read(text, role="assistant") == []


def test_corrections_name_the_old_value():
    (one,) = read("对了，我手滑写错了，02 那台不是 8443，实际开的是 8444，8443 是它的健康检查口。")
    assert (one.subject, one.predicate, one.object, one.replaces) == ("02", "", "8444", "8443")
    assert one.corrects
    (one,) = read("I misread a digit. Mine runs out in May 2026, not 2027.")
    assert (one.subject, one.object, one.replaces, one.corrects) == ("Ana", "May 2026", "2027", True)


def test_going_back():
    (one,) = read("定了，ledger-api 退回最早那套 SQLAlchemy，别再折腾了。")
    assert (one.action, one.subject, one.object) == ("revert", "ledger-api", "SQLAlchemy")
    (one,) = read("Bus events return to JSON as of Monday")
    assert (one.action, one.subject, one.object) == ("revert", "Bus events", "JSON")


def test_the_speaker_is_the_first_person():
    assert parts("I live in Berlin", speaker=None) == [("user", "lives in", "Berlin")]
    assert parts("我住在杭州", speaker="小雨") == [("小雨", "住址", "杭州")]
    (one,) = read("I live in Berlin", speaker="Bo")
    assert (one.speaker, one.said_at, one.quote) == ("Bo", NOW, "I live in Berlin")


def test_assistants_state_points_of_things_only():
    assert parts("I live in Berlin. I love tea. Remember to drink water.", role="assistant") == []
    (one,) = read("The port of edge-02 is 8443.", role="assistant")
    assert one.confidence < read("The port of edge-02 is 8443.")[0].confidence
    assert read("The port of edge-02 is 8443.", role="system") == []


def test_tools_are_read_by_their_name_and_value_lines_only():
    line = "inspect pay-gw → Image=lan/pay-gw:2.9.0 StartedAt=2026-06-16T23:58:07 RestartCount=0 Health=ok"
    found = read(line, role="tool", speaker="docker")
    assert [(one.subject, one.predicate, one.object) for one in found] == [
        ("pay-gw", "Image", "lan/pay-gw:2.9.0"),
        ("pay-gw", "version", "2.9.0"),
    ]
    assert {one.speaker for one in found} == {"docker"}
    assert read("Image=x RestartCount=0", role="tool") == []
    assert read("The port of edge-02 is 8443.\nI live in Berlin", role="tool") == []


def test_a_statement_said_twice_in_a_message_is_read_once():
    assert len(read("The port of edge-02 is 8443. The port of edge-02 is 8443.")) == 1


def test_long_texts_are_bounded():
    begin = "The port of edge-02 is 8443. "
    filler = "Nothing of note happened on that day, people came and went. " * 100
    late = begin + filler + "The port of edge-03 is 9000."
    assert parts(late) == [("edge-02", "port", "8443")]
    many = " ".join(f"The port of edge-{n} is {n}." for n in range(100, 200))
    assert len(read(many)) == 40
    started = time.thread_time()
    for text in (
        "的" * 100_000,
        "a " * 100_000,
        "edge-02 " * 20_000,
        "1" * 100_000,
        "，" * 100_000,
        "is " * 50_000,
    ):
        read(text)
    assert time.thread_time() - started < 5


def test_an_ordinary_message_costs_little():
    texts = [
        "记一下，edge-02 网关对外监听的端口是 8443，nginx 那层直接转过去。",
        "Thanks, that was a great help today!",
    ]
    texts += [
        "We toured a place too but I couldn't afford it in a hundred years.",
        "今天压测有人报错，我看了下跟它没关系。",
    ]
    for text in texts:
        read(text)
    best = []
    for _ in range(5):
        started = time.thread_time()
        for text in texts * 10:
            read(text)
        best.append((time.thread_time() - started) / (10 * len(texts)))
    assert min(best) < 0.004  # half a millisecond where the machine is free


@given(st.text(max_size=400))
def test_any_text_can_be_read(text):
    for one in read(text):
        assert one.quote
        assert one.object or one.action != "state"


_SIGNS = (
    "我 喜欢 的 端口 是 8443 edge-02 改成 从 到 ， 。 I like the port of is not 8444 to moved May 10 until "
    "Friday forget that , . ? 如果 别记 算了 decided on for 2026 年 月 ``` > : = “ ” 负责人 小冉 remind me"
)


@given(st.lists(st.sampled_from(_SIGNS.split()), max_size=30), st.sampled_from(["user", "assistant", "tool"]))
def test_any_mixture_of_signs_can_be_read(pieces, role):
    for one in read(" ".join(pieces), role=role):
        assert one.valid_to is None or one.valid_to > NOW
        assert len(one.subject) <= 80


@pytest.mark.parametrize(
    ("before", "text", "expected"),
    [
        (["hi", "What is your name?"], "Callum", [("Ana", "name", "Callum")]),
        (["coffee with the hinge guy", "Nice. What is his name?"], "Callum", []),
        (["we got a puppy", "What is its name?"], "Pepper", []),
        (["we got a puppy", "What's your dog's name?"], "Pepper", [("Ana's dog", "name", "Pepper")]),
        (["hi", "What's Mia's birthday?"], "May 4", [("Mia", "birthday", "May 4")]),
        (["hi", "And your salary?"], "4200", [("Ana", "salary", "4200")]),
        (["小满换号了", "她的手机号是多少？"], "13800001111", [("小满", "手机号", "13800001111")]),
        (["你好", "你女儿的生日是哪天？"], "5 月 4 日", [("Ana的女儿", "生日", "5 月 4 日")]),
        (["在吗", "你的手机尾号还是6620吗？"], "3158！老号停机了 套餐太坑", [("Ana", "手机尾号", "3158")]),
    ],
)
def test_a_short_answer_is_about_whom_the_question_names(before, text, expected):
    assert [one for one in parts(text, context=before) if one[1][0] not in "(（"] == expected


def test_half_of_a_surrogate_pair_is_no_letter():
    found = parts("我住在杭州，\ud801今天很热\udc00")
    assert found == parts("我住在杭州，今天很热") == [("Ana", "住址", "杭州")]
