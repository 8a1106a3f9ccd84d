import time
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import NaiveDatetime
from jiyi.text import find_dates, has_date

NOW = datetime(2023, 5, 10, 15, 0, tzinfo=UTC)  # a Wednesday

TABLES = read_tables(__file__)


def days(text, now=NOW, zone=UTC):
    return [
        (f"{span.start:%Y-%m-%d}", f"{span.end - timedelta(microseconds=1):%Y-%m-%d}")
        for span in find_dates(text, now, zone)
    ]


def day(text, now=NOW, zone=UTC):
    [(first, last)] = days(text, now, zone)
    assert first == last
    return first


@pytest.mark.parametrize("phrase", [*chain(*TABLES["no dates"])])
@pytest.mark.parametrize("around", ["{}", "well, {}.", "他说，{}。"])
def test_no_dates(phrase, around):
    assert find_dates(around.format(phrase), NOW) == []


@pytest.mark.parametrize(("text", "words"), [(t, w) for t, *w in TABLES["the words that are dates"]])
def test_the_words_are_where_they_are_said_to_be(text, words):
    found = find_dates(text, NOW)
    assert [span.text for span in found] == words
    assert all(text[span.at : span.at + len(span.text)] == span.text for span in found)


def test_a_date_without_a_year_is_the_latest_and_means_the_same_when_asked_later():
    assert day("May 10", NOW) == day("5月10日", NOW) == "2023-05-10"
    assert day("May 11", NOW) == day("5月11日", NOW) == "2022-05-11"
    assert day("next May 11", NOW) == day("今年5月11日", NOW) == "2023-05-11"
    assert day("明年5月9日", NOW) == "2024-05-09"
    assert not find_dates("May 10", NOW)[0].exact
    [said] = find_dates("I went to the dentist yesterday", datetime(2023, 5, 8, 9, 0, tzinfo=UTC))
    [asked] = find_dates("What happened on 7 May 2023?", datetime(2024, 1, 1, tzinfo=UTC))
    assert (said.start, said.end) == (asked.start, asked.end)


def test_winter_ends_in_the_next_year_and_a_holiday_beyond_the_table_is_left_out():
    january = datetime(2023, 1, 15, tzinfo=UTC)
    assert days("this winter", january) == days("今年冬天", january) == [("2022-12-01", "2023-02-28")]
    assert days("last winter", january) == days("上个冬天", january) == [("2021-12-01", "2022-02-28")]
    assert day("春节", datetime(2035, 3, 1, tzinfo=UTC)) == "2035-02-08"
    assert days("春节", datetime(2036, 3, 1, tzinfo=UTC)) == []
    assert days("2040年中秋节 and Mid-Autumn Festival 2014") == []
    assert day("Easter 2038") == "2038-04-25"


def test_days_are_those_of_the_zone():
    now = datetime(2023, 5, 10, 1, 0, tzinfo=UTC)
    new_york = ZoneInfo("America/New_York")
    [span] = find_dates("yesterday", now, new_york)
    assert span.start == datetime(2023, 5, 8, tzinfo=new_york)
    assert span.end - span.start == timedelta(days=1)
    assert day("昨天", now, timezone(timedelta(hours=8))) == "2023-05-09"
    assert day("an hour ago", now, new_york) == "2023-05-09"
    [week] = find_dates("last week", datetime(2023, 3, 15, tzinfo=UTC), new_york)  # the clocks go forward
    assert (week.start.hour, week.end.hour) == (0, 0)


@pytest.mark.parametrize(
    ("year", "easter", "thanksgiving"),
    [(2000, "04-23", "11-23"), (2008, "03-23", "11-27"), (2011, "04-24", "11-24"), (2024, "03-31", "11-28")],
)
def test_computed_holidays(year, easter, thanksgiving):
    assert day(f"Easter {year}") == f"{year}-{easter}"
    assert day(f"Thanksgiving {year}") == f"{year}-{thanksgiving}"


def test_now_needs_a_zone():
    refused(NaiveDatetime, "time zone", find_dates, "yesterday", datetime(2023, 5, 10))  # noqa: DTZ001


@pytest.mark.parametrize("now", ["0001-01-01", "0001-01-02T00:00", "9999-12-30T00:00", "9999-12-31T23:59"])
@pytest.mark.parametrize("hours", [-14, 0, 14])
def test_the_ends_of_the_calendar(now, hours):
    text = (
        "yesterday tomorrow 去年 明年 9999 years ago in 9999 years next week 上上周 since 1900 Easter 2月29日"
    )
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    for span in find_dates(text, moment, timezone(timedelta(hours=hours))):
        assert span.start < span.end


WORDS = " ".join(TABLES["words of dates"]).split()
ODD_TEXT = st.lists(st.sampled_from([*WORDS, "\0", "\u3000", "\n", "\ud800"]), max_size=25).flatmap(
    lambda parts: st.sampled_from([" ".join(parts), "".join(parts)])
)
ANY_TEXT = st.one_of(ODD_TEXT, st.text(alphabet=st.characters(exclude_categories=())))
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
ANY_NOW = st.one_of(st.just(NOW), st.datetimes(timezones=ZONES))


@given(text=ANY_TEXT, now=ANY_NOW, zone=ZONES)
@example(text="from Feb 29 to May 1", now=NOW, zone=UTC)
def test_any_text_at_any_time(text, now, zone):
    found = find_dates(text, now, zone)
    at = 0
    for span in found:
        assert span.start < span.end
        assert span.start.tzinfo is zone
        assert span.end.astimezone(UTC) > span.start.astimezone(UTC)
        assert span.at >= at
        assert span.text
        at = span.at + len(span.text)
        assert text[span.at : at] == span.text
    assert has_date(text) or not found


@given(text=ODD_TEXT, before=st.sampled_from(["", "ok. ", "好的。"]))
def test_the_same_text_means_the_same_further_on(text, before):
    spans = [(span.at + len(before), span.text, span.start) for span in find_dates(text, NOW)]
    assert [(span.at, span.text, span.start) for span in find_dates(before + text, NOW)] == spans


@pytest.mark.slow
@pytest.mark.parametrize("unit", literals(TABLES["what a long text repeats"]))
def test_time_is_linear(unit):
    text = unit * (60_000 // len(unit))
    start = time.thread_time()
    find_dates(text, NOW)
    assert time.thread_time() - start < 20  # 0.01 to 1 s; quadratic time would be minutes


def test_a_long_message_takes_little_time():
    text = "We looked at the old bridge again, then went home; 我们又去看了那座老桥，然后回家。" * 50
    assert [span.text for span in find_dates(text + "That was last Friday.", NOW)] == ["last Friday"]
    taken = []
    for _ in range(20):
        start = time.thread_time()
        find_dates(text, NOW)
        taken.append(time.thread_time() - start)
    assert min(taken) < 0.02  # 0.5 ms for these 3,000 characters on a quiet core
