"""Everyday talk: what moves, who has it now, what may be but is not, and what tools print."""

from datetime import UTC, datetime

import pytest
from said import points, read
from tables import read_tables

TABLES = read_tables(__file__)


@pytest.mark.parametrize(("text", "subject", "old", "new"), TABLES["moved or put right: subject, old, new"])
def test_what_is_moved_or_put_right(text, subject, old, new):
    (one,) = read(text)
    assert (one.subject, one.replaces, one.object) == (subject, old, new)
    assert one.corrects == bool(old and not old[-1].isdigit() and old != "3 路")


@pytest.mark.parametrize(("text", "expected"), TABLES["points"])
def test_whose_it_is_and_what_it_is_called(text, expected):
    assert points(text) == expected


@pytest.mark.parametrize("text", TABLES["nothing of the kind"])
def test_what_states_nothing_of_the_kind(text):
    assert not points(text)


@pytest.mark.parametrize("text", ["we moved to the sofa", "我们搬到沙发上了", "搬去次卧睡了"])
def test_what_is_no_address(text):
    assert not any(one.predicate in ("lives in", "住址") for one in read(text))


@pytest.mark.parametrize(
    ("asked", "answer"), [("那改哪天", "周四"), ("几点到", "七点半"), ("要几个", "四个")]
)
def test_a_value_alone_answers(asked, answer):
    assert [one.object for one in read(answer, context=[asked])] == [answer]
    assert not points("不知道", context=[asked])


def test_what_is_said_of_a_week_is_over_with_it():
    ends = [read(text)[0].valid_to for text in ("这周我不吃辣", "我不吃辣", "这周三我不吃午饭")]
    assert ends == [datetime(2026, 6, 15, tzinfo=UTC), None, None]
    (one,) = read("Ines leads us since May")
    assert one.valid_from is None


@pytest.mark.parametrize(("text", "expected"), TABLES["what tools print"])
def test_what_tools_print(text, expected):
    assert points(text, speaker="sh", role="tool") == expected
