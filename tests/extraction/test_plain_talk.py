"""What people plainly type to an assistant: whom and what it is about, and what of it has ended."""

from datetime import UTC, datetime

import pytest
from said import named_points, read
from tables import read_tables

TABLES = read_tables(__file__)


@pytest.mark.parametrize(("text", "expected"), TABLES["points that have a name"])
def test_what_is_said_of_somebody_or_something(text, expected):
    assert sorted(named_points(text).split("; ")) == sorted(expected.split("; "))


@pytest.mark.parametrize(("before", "text", "expected"), TABLES["pronouns"])
def test_a_pronoun_means_the_last_person_it_can(before, text, expected):
    assert named_points(text, context=[before] if before else []) == expected


@pytest.mark.parametrize("text", TABLES["no point of anybody"])
def test_what_gives_no_point_of_anybody(text):
    assert not named_points(text)
    assert not [one for one in read(text) if text.startswith(("he ", "she ", "他", "她"))]


@pytest.mark.parametrize("text", TABLES["not said of the speaker"])
def test_what_is_not_said_of_the_speaker(text):
    own = {one.predicate for one in read(text) if one.subject == "Ana"}
    assert own.isdisjoint(TABLES["points of a speaker"])


@pytest.mark.parametrize(("text", "subject"), TABLES["what has ended, and whose it was"])
def test_what_has_ended(text, subject):
    (found,) = read(text)
    assert (found.action, found.subject) == ("end", subject)


def test_what_does_not_eat_for_some_days_has_not_ended():
    assert not [one for one in read("年糕这两天不吃东西") if one.action == "end"]


def test_a_new_job_holds_from_its_day():
    (one,) = read("promoted! head of product from next month")
    assert one.valid_from == datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["我们打算明年搬去上海", "我们准备下个月搬到杭州", "We're planning to move to Oslo in July"]
)
def test_what_is_only_intended_is_a_plan(text: str) -> None:
    assert [one.category for one in read(text)] == ["plan"]


def test_a_value_is_not_of_what_is_named_after_it() -> None:
    found = read("我们换了芯片，现在用 GD32 了，波特率也改成 921600")
    assert [(one.object, one.subject) for one in found] == [("921600", "波特率"), ("GD32", "Ana")]


def test_a_new_value_is_of_the_point_that_was_just_named() -> None:
    assert "Ana · 密码: abc12345" in named_points("密码我换了，现在是 abc12345")
    assert "password · value: abc12345" in named_points("I changed the password, now it's abc12345")


def test_it_is_what_the_sentence_named_last() -> None:
    assert read("They swapped the router, it's RX-7 now", context=["I ride a Peugeot"])[0].subject == "router"


def test_who_raises_a_value_is_not_the_point() -> None:
    for text in ("医生给加到40了", "领导叫我小张", "The landlord gives me 40 a month"):
        assert not {one.predicate for one in read(text)} & {"医生", "领导", "landlord"}
