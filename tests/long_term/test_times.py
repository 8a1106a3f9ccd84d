"""Times, in both languages: what time a question asks about, and how long a statement holds."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.clock import to_micros, utc_from_micros
from jiyi.long_term.recall.question import read_question, validity

ASKED = datetime(2026, 3, 20, 11, tzinfo=UTC)


def time_of(text):
    return read_question(text, ASKED).time


@pytest.mark.parametrize(
    "text",
    [
        "edge-02 网关对外监听的端口是多少？",
        "室友现在上班怎么走？",
        "周三夜里谁值班？",
        "Which rack is holding db-west?",
        "Am I still training toward the half marathon?",
        "Where do the Tuesday Larks rehearse?",
    ],
)
def test_a_question_in_the_present_asks_about_now(text):
    assert time_of(text).kind == "now"
    assert time_of(text).moment == to_micros(ASKED)


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("一月底的时候 page_size 最大能传到多少？", datetime(2026, 2, 1, tzinfo=UTC)),
        ("3 月 5 日那个周四谁值班？", datetime(2026, 3, 6, tzinfo=UTC)),
        ("Where was Nico at school in October 2025?", datetime(2025, 11, 1, tzinfo=UTC)),
        ("On 6 October, who had to sign off?", datetime(2025, 10, 7, tzinfo=UTC)),
        ("Who stood in for Nico in early October 2025?", datetime(2025, 10, 11, tzinfo=UTC)),
        ("How often did the nurse call in October 2025?", datetime(2025, 11, 1, tzinfo=UTC)),
        ("How did I get to work before August 2025?", datetime(2025, 7, 31, tzinfo=UTC)),
        ("2025 年 8 月之前报告周几交？", datetime(2025, 7, 31, tzinfo=UTC)),
        ("What was the lock code in March 2026?", ASKED),
    ],
)
def test_a_time_gone_by_is_asked_about_until_its_end(text, until):
    assert time_of(text).kind == "then"
    assert utc_from_micros(time_of(text).moment) == until


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("Who plays the drums now?", True),
        ("现在谁打扫房间？", True),
        ("Where was Nico at school in October 2025?", False),
        ("Who plays the drums?", False),
        ("谁打扫房间？", False),
    ],
)
def test_who_says_now_takes_it_that_something_changed(text, changed):
    assert time_of(text).changed is changed


def test_a_day_to_come_counts_as_now_then():
    found = time_of("到了 8 月 20 号，改动需要几个人 approve？")
    assert found.kind == "now"
    assert utc_from_micros(found.moment) == datetime(2026, 8, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "镜像仓库为什么又换回来？",
        "GraphQL 是被谁否掉的？",
        "Why was the attempt count raised?",
        "Who asked whether the header can go?",
        "What did Mel paint?",
        "edge-02 的端口",
        "I moved to Lyon last week and like it.",
        "What is the port? " + "It matters. " * 30,
    ],
)
def test_of_history_and_of_what_is_no_question_time_is_no_matter(text):
    assert time_of(text) is None


MONDAY = datetime(2026, 5, 18, 19, 20, tzinfo=UTC)


def day(month, number, year=2026):
    return datetime(year, month, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("这周三到周五周阿姨回老家，接糖糖换我爸去", day(5, 20), day(5, 23)),
        ("7 月 27 到 8 月 7 这两周，main 允许直接推", day(7, 27), day(8, 8)),
        ("只有这周改到五点", day(5, 18), day(5, 25)),
        ("今天先用备机", day(5, 18), day(5, 19)),
        ("下周三之前先用备机", day(5, 18), day(5, 28)),
        ("My parents are staying from May 20 to May 28", day(5, 20), day(5, 29)),
        ("Until 17 October Dmitri signs off", day(5, 18), day(10, 18)),
        ("until Jan 3 the office is closed", day(5, 18), day(1, 4, 2027)),
        ("for these two weeks only", day(5, 18), day(6, 1)),
        ("the lease holds until 2027", day(5, 18), day(1, 1, 2028)),
        ("this month only", day(5, 18), day(6, 1)),
        ("for now", day(5, 18), day(6, 1)),
    ],
)
def test_dates_are_read_forward(text, start, end):
    found = validity(text, to_micros(MONDAY))
    assert tuple(map(utc_from_micros, found)) == (start, end)


@given(st.text(alphabet="0123456789月号日周下一三五 thofadeMyJun"), st.integers(0, 4 * 10**15))
def test_any_text_has_a_time_that_begins_before_it_ends(text, said):
    start, end = validity(text, said)
    assert start < end
