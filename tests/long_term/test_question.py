"""Questions taken apart: each sign where it is meant and not where it only looks like it."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AWKWARD
from tables import read_tables

from jiyi.clock import to_micros
from jiyi.long_term.recall.question import named_speakers, parse_question, remove_names
from jiyi.text import analyse, query_terms

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday

TABLES = read_tables(__file__)


def flags(name):
    return [(flag, text) for flag, *texts in TABLES[name] for text in texts]


@pytest.mark.parametrize(("flag", "text"), flags("asks for"))
def test_a_question_asks_for(flag, text):
    assert getattr(parse_question(text, NOW), flag)


@pytest.mark.parametrize(("flag", "text"), flags("does not ask for"))
def test_a_question_does_not_ask_for(flag, text):
    assert not getattr(parse_question(text, NOW), flag)


def test_the_question_itself_stays_as_it_was_asked():
    asked = parse_question("  Which port does pay-gw use?\n", NOW)
    assert asked.text == "  Which port does pay-gw use?\n"
    assert asked.terms == tuple(query_terms(asked.text))
    assert asked.asked_at == to_micros(NOW)
    assert asked.ranges == ()


@pytest.mark.parametrize(("text", "marked", "plain"), TABLES["entities, and words that are none"])
def test_names_titles_and_numbers_are_its_entities(text, marked, plain):
    found = parse_question(text, NOW).entities
    assert set(analyse(marked)) <= found
    assert not set(analyse(plain)) & found if plain else found == set(analyse(marked))


@pytest.mark.parametrize("text", [*TABLES["no entities"], ""])
def test_the_first_word_of_a_sentence_is_no_name_but_begins_one_of_two_words(text):
    assert parse_question(text, NOW).entities == frozenset()
    assert parse_question("Anna Smith likes what?", NOW).entities == set(analyse("Anna Smith"))


def days(first, last, zone=UTC):
    """From the begin of the first day to the end of the last, days of March 2026 (0: last of February)."""
    begin, after = (datetime(2026, 2, 28, tzinfo=zone) + timedelta(days=d) for d in (first, last + 1))
    return to_micros(begin), to_micros(after)


@pytest.mark.parametrize(("text", "expected"), TABLES["days that are asked about"])
def test_times_are_seen_from_when_it_is_asked(text, expected):
    spans = [days(*map(int, span.split())) for span in expected.split(",") if span]
    assert list(parse_question(text, NOW).ranges) == spans


def test_a_day_is_a_day_of_the_zone():
    shanghai = ZoneInfo("Asia/Shanghai")
    late = datetime(2026, 3, 4, 20, tzinfo=UTC)  # the 5th in Shanghai
    assert parse_question("昨天谁来了", late, shanghai).ranges == (days(4, 4, shanghai),)
    assert parse_question("昨天谁来了", late).ranges == (days(3, 3),)


SPEAKERS = ["Melanie", "Anna Smith", "user", "AI", "王小明", "José García", "Will", "Project Manager", " "]


@pytest.mark.parametrize(("text", "named"), TABLES["speakers that are named"])
def test_speakers_are_named_by_any_of_their_names(text, named):
    assert [SPEAKERS[place] for place in named_speakers(text, SPEAKERS)] == named.split(", ")


@pytest.mark.parametrize("text", [*TABLES["no names"], ""])
def test_what_only_looks_like_a_name_names_nobody(text):
    assert named_speakers(text, SPEAKERS) == []


def test_function_words_are_names_only_where_they_are_written_like_one():
    names = ["May", "Don", "Queen of Hearts"]
    assert named_speakers("May I know what may be of use? Don't you, or I don't", names) == []
    assert named_speakers("What did May and Don say of the Queen?", names) == [0, 1, 2]


@pytest.mark.parametrize("role", TABLES["roles"])
def test_roles_are_no_names(role):
    assert named_speakers(f"What did {role} say, {role}?", [role]) == []
    assert named_speakers(f"{role}说了什么", [role]) == []


@pytest.mark.parametrize(("text", "names", "rest"), TABLES["names taken off"])
def test_names_are_taken_off_and_something_stays(text, names, rest):
    assert remove_names(text, names.split(", ") if names else []) == rest


HUGE = ["a" * 5_000, "5 " * 3_000, "“" * 3_000, "你说" * 2_000]
anything = st.text() | st.sampled_from([*AWKWARD.values(), *HUGE])
anybody = st.lists(st.text(max_size=12) | st.sampled_from(SPEAKERS), max_size=5)


@given(text=anything, names=anybody, asked_at=st.datetimes(timezones=st.just(UTC)))
def test_any_text_is_fine(text, names, asked_at):
    asked = parse_question(text, asked_at)
    assert asked.text == text
    assert all(begin < end for begin, end in asked.ranges)
    named = named_speakers(text, names)
    assert named == sorted(set(named))
    assert all(0 <= place < len(names) for place in named)
    rest = remove_names(text, names)
    assert rest == text or any(letter.isalnum() for letter in rest)
    assert remove_names(text, []).split() == text.split(), "only white space changes"


@pytest.mark.parametrize("text", ["word 1 ", "网关502错误", "A ", "“", "you said ", " ", "ü"])
def test_a_huge_question_is_read_in_good_time(text):
    huge = (text * 100_000)[:100_000]
    began = time.thread_time()
    parse_question(huge, NOW)
    named_speakers(huge, ["Melanie"] * 20)
    remove_names(huge, ["Melanie"] * 20)
    assert time.thread_time() - began < 10
