import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.skills.registry import parse_front_matter


def test_everything_is_text_as_it_is_written_even_with_a_colon_in_it():
    fields = parse_front_matter("name: one\nversion: 1.10\nwhen: 2026-01-02\nflag: yes\nnothing:\n")
    assert fields == {"name": "one", "version": "1.10", "when": "2026-01-02", "flag": "yes", "nothing": ""}
    fields = parse_front_matter(
        'name: one\ndescription: Use it when: "x" is \\ asked, or: y  \nlicense: MIT\n'
    )
    assert fields == {"name": "one", "description": 'Use it when: "x" is \\ asked, or: y', "license": "MIT"}


def test_quotes_blocks_lists_fields_and_comments():
    text = """
# a comment
description: >-
  folded
  lines
notes: |
  kept
  lines
quoted: "a: \\"b\\" #c"
tools: [Read, 'Bash(git:*)']
tags:
  - one
  - two
metadata: {author: 小舟}
"""
    assert parse_front_matter(text) == {
        "description": "folded lines",
        "notes": "kept\nlines\n",
        "quoted": 'a: "b" #c',
        "tools": ["Read", "Bash(git:*)"],
        "tags": ["one", "two"],
        "metadata": {"author": "小舟"},
    }


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"])))
def test_any_plain_value_with_a_colon_in_it(word):
    value = f"x{word}: y"
    assert parse_front_matter(f"description: {value}") == {"description": value}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        *literals(read_tables(__file__)["what is refused says where"]),
        ("a: " + "[" * 5000, "more than 500 brackets"),
        ("- " * 5000, "too deeply"),
        ("a: " + "[" * 500, "no YAML|too deeply"),
    ],
)
def test_what_is_refused_says_where(text, complaint):
    with pytest.raises(InputError, match=complaint):
        parse_front_matter(text)
