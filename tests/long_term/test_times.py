"""Times, in both languages: what time a question asks about, and how long a statement holds."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.clock import to_micros, utc_from_micros
from jiyi.long_term.recall.question import parse_question, validity

TABLES = read_tables(__file__)
ASKED = datetime(2026, 3, 20, 11, tzinfo=UTC)


def day(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def time_of(text):
    return parse_question(text, ASKED).time


@pytest.mark.parametrize("text", TABLES["questions in the present"])
def test_a_question_in_the_present_asks_about_now(text):
    assert (time_of(text).kind, time_of(text).moment) == ("now", to_micros(ASKED))


@pytest.mark.parametrize(("text", "until"), TABLES["times gone by, and their ends"])
def test_a_time_gone_by_is_asked_about_until_its_end(text, until):
    assert (time_of(text).kind, utc_from_micros(time_of(text).moment)) == ("then", day(until))


@pytest.mark.parametrize(("text", "changed"), TABLES["who takes it that something changed"])
def test_who_says_now_takes_it_that_something_changed(text, changed):
    assert time_of(text).changed is (changed == "changed")


def test_a_day_to_come_counts_as_now_then():
    found = time_of("到了 8 月 20 号，改动需要几个人 approve？")
    assert (found.kind, utc_from_micros(found.moment)) == ("now", datetime(2026, 8, 21, tzinfo=UTC))


@pytest.mark.parametrize("text", [*TABLES["no matter of time"], "What is the port? " + "It matters. " * 30])
def test_of_history_and_of_what_is_no_question_time_is_no_matter(text):
    assert time_of(text) is None


MONDAY = datetime(2026, 5, 18, 19, 20, tzinfo=UTC)


@pytest.mark.parametrize(("text", "start", "end"), TABLES["from when and until when a statement holds"])
def test_dates_are_read_forward(text, start, end):
    assert tuple(map(utc_from_micros, validity(text, to_micros(MONDAY)))) == (day(start), day(end))


@given(st.text(alphabet="0123456789月号日周下一三五 thofadeMyJun"), st.integers(0, 4 * 10**15))
def test_any_text_has_a_time_that_begins_before_it_ends(text, said):
    start, end = validity(text, said)
    assert start < end
