"""From when until when a temporary statement holds: its dates lie ahead of when it was said."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jiyi.clock import to_micros, utc_from_micros
from jiyi.long_term.recall.times import validity

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
        ("这三天换我爸去", day(5, 18), day(5, 22)),
        ("下周三之前先用备机", day(5, 18), day(5, 28)),
        ("My parents are staying from the 14th to the 28th", day(5, 14), day(5, 29)),
        ("From Friday 22nd until Monday 25th it rings the desk", day(5, 22), day(5, 26)),
        ("Until 17 October Dmitri signs off", day(5, 18), day(10, 18)),
        ("until Jan 3 the office is closed", day(5, 18), day(1, 4, 2027)),
        ("for these two weeks only", day(5, 18), day(6, 2)),
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
