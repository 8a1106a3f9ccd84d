"""Reading messages by patterns: what gives a statement, and what must not."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from said import NOW, named_points, points, read
from tables import read_tables

TABLES = read_tables(__file__)


def day(told: str) -> datetime | None:
    return datetime.fromisoformat(told).replace(tzinfo=UTC) if told else None


@pytest.mark.parametrize(("text", "category", "expected"), TABLES["points with their category"])
def test_points_have_a_category(text, category, expected):
    assert points(text) == expected
    assert read(text)[0].category == category


@pytest.mark.parametrize(("text", "expected"), TABLES["points"])
def test_points_with_their_values(text, expected):
    assert points(text) == expected


def test_an_omitted_subject_is_the_thing_the_sentence_spoke_of():
    text = "库存服务 stock-svc 由 Go 写成，对外超时 3 秒，熔断阈值 50%。"
    assert points(text) == "stock-svc · 超时: 3 秒; stock-svc · 熔断阈值: 50%"
    text = "staging 的测试账号是 qa_robot，登录口令 Mx7-tulip-93。"
    assert points(text) == "staging · 账号: qa_robot; staging · 登录口令: Mx7-tulip-93"
    two = "edge-02 的端口是 8443，edge-05 的端口是 9080"
    assert points(two) == "edge-02 · 端口: 8443; edge-05 · 端口: 9080"


def test_it_is_what_was_spoken_of_just_before():
    assert points("Its port is 8443", context=["edge-02 is up", "Good."]) == "edge-02 · port: 8443"
    assert points("It is on 14.11", context=["We upgrade Postgres"]) == "Postgres · version: 14.11"
    assert points("It is on 14.11") == ""


@pytest.mark.parametrize("text", [*TABLES["no statement"], "", "   \n "])
def test_what_is_no_statement(text):
    assert read(text) == []


@pytest.mark.parametrize(("text", "begins", "ends"), TABLES["since when and until when"])
def test_since_when_and_until_when(text, begins, ends):
    (one,) = read(text)
    assert (one.valid_from, one.valid_to) == (day(begins), day(ends))


@pytest.mark.parametrize(("text", "begins"), TABLES["plans, and the day they begin"])
def test_plans_begin_on_their_day(text, begins):
    (one,) = read(text)
    assert one.category in ("plan", "todo")
    assert (one.valid_from, one.valid_to) == (day(begins), None)


@pytest.mark.parametrize(("text", "erases"), TABLES["taking back, and whether it is to be erased"])
def test_taking_back(text, erases):
    (one,) = read(text)
    assert (one.action, one.quote) == ("retract", text)
    assert one.erases is (erases == "yes")
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
    assert points("I live in Berlin", speaker=None) == "user · lives in: Berlin"
    assert points("我住在杭州", speaker="小雨") == "小雨 · 住址: 杭州"
    (one,) = read("I live in Berlin", speaker="Bo")
    assert (one.speaker, one.said_at, one.quote) == ("Bo", NOW, "I live in Berlin")


def test_assistants_state_points_of_things_only():
    assert points("I live in Berlin. I love tea. Remember to drink water.", role="assistant") == ""
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
    assert points(begin + filler + "The port of edge-03 is 9000.") == "edge-02 · port: 8443"
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
        "a换" * 2_000,
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


@pytest.mark.parametrize(("before", "text", "expected"), TABLES["answers to what was said before"])
def test_a_short_answer_is_about_whom_the_question_names(before, text, expected):
    assert named_points(text, context=before.split(" / ")) == expected


def test_half_of_a_surrogate_pair_is_no_letter():
    found = points("我住在杭州，\ud801今天很热\udc00")
    assert found == points("我住在杭州，今天很热") == "Ana · 住址: 杭州"
