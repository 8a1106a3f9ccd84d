"""Texts are cut between words and, where that leaves enough, after sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import literals, read_tables

from jiyi.text import counter_for, excerpt, query_terms
from jiyi.text.cut import clip, word_break

TABLES = read_tables(__file__)
COUNT = counter_for("gpt-4o").count_text


@pytest.mark.parametrize(
    ("text", "place", "kept"), [*literals(TABLES["the break is between words"]), ("x" * 60, 50, "x" * 50)]
)
def test_the_break_is_between_words(text, place, kept):
    assert text[: word_break(text, place)] == kept


@given(st.text(alphabet="ab 服务器数据库。.\U00020000", max_size=80), st.integers(0, 90))
def test_a_break_is_a_place_at_or_before_the_one_given(text, place):
    assert 0 <= word_break(text, place) <= place


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [*literals(TABLES["a long text ends with a sentence or a word"]), ("x" * 50, 10, "x" * 9 + "…")],
)
def test_a_long_text_ends_with_a_sentence_or_a_word(text, most, shown):
    assert clip(text, most) == shown
    assert len(shown) <= most


@given(st.text(alphabet="ab 服务器数据库。.", max_size=80), st.integers(1, 60))
def test_what_is_clipped_is_never_longer(text, most):
    assert len(clip(text, most)) <= most


@pytest.mark.parametrize("limit", [8, 15, 40, 90])
@pytest.mark.parametrize("asked", ["zebra", "quota exceeded"])
def test_an_excerpt_has_whole_words_at_both_ends(limit, asked):
    text = " ".join([f"word{n} quota{'-exceeded' if n == 300 else ''}" for n in range(500)])
    found = excerpt(text, query_terms(asked), limit, COUNT)
    assert found
    assert set(found.replace("…", " ").split()) <= set(text.split())
