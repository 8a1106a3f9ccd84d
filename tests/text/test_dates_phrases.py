"""What phrases mean, said on Wednesday, 10 May 2023: all of a line mean the same days, in both languages.

"=" is exact, "~" is not; the last day is included; "now" is the moment of speaking.
"""

import re
from datetime import UTC, date, datetime, timedelta
from itertools import chain

import pytest
from tables import read_tables

from jiyi.text import find_dates, has_date

NOW = datetime(2023, 5, 10, 15, 0, tzinfo=UTC)
HAN = re.compile(r"[\u4e00-\u9fff]")


def lines():
    for days, *phrases in chain(*read_tables(__file__).values()):
        span, sign = days.split()
        first, _, last = span.partition("..")
        for phrase in phrases:
            yield phrase, first, last or first, sign == "="


def midnight(day):
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)


LINES = list(lines())


@pytest.mark.parametrize(("phrase", "first", "last", "exact"), LINES, ids=[line[0] for line in LINES])
@pytest.mark.parametrize("around", ["{}", "so: {}, I think", "听说{}，是吗"])
def test_phrases(phrase, first, last, exact, around):
    text = around.format(phrase)
    found = find_dates(text, NOW)
    end = NOW if last == "now" else midnight(last) + timedelta(days=1)
    assert (midnight(first), end, exact) in [(span.start, span.end, span.exact) for span in found]
    assert text[found[0].at :].startswith(found[0].text)
    assert has_date(text)


def test_there_are_enough_of_both_languages():
    chinese = {phrase for phrase, *_ in LINES if HAN.search(phrase)}
    english = {phrase for phrase, *_ in LINES} - chinese
    assert len(chinese) >= 250
    assert len(english) >= 250
