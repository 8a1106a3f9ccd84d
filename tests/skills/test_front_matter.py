import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.skills.registry import parse_front_matter

TABLES = read_tables(__file__)


@pytest.mark.parametrize(("text", "fields"), literals(TABLES["everything is text as it is written"]))
def test_everything_is_text_as_it_is_written(text, fields):
    assert parse_front_matter(text) == fields


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"])))
def test_any_plain_value_with_a_colon_in_it(word):
    value = f"x{word}: y"
    assert parse_front_matter(f"description: {value}") == {"description": value}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        *literals(TABLES["what is refused says where"]),
        ("a: " + "[" * 5000, "more than 500 brackets"),
        ("- " * 5000, "too deeply"),
        ("a: " + "[" * 500, "no YAML|too deeply"),
    ],
)
def test_what_is_refused_says_where(text, complaint):
    refused(InputError, complaint, parse_front_matter, text)
