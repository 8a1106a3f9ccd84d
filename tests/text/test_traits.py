"""Traits: each sign where it is meant, and not where it only looks like it; any text, and fast."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from jiyi.text import Trait, traits


def texts_of(sign, table):
    return [text for name, *texts in read_tables(__file__)[table] if name == sign.name for text in texts]


@pytest.mark.parametrize("sign", list(Trait), ids=lambda sign: sign.name)
def test_signs_are_where_they_are_meant(sign):
    for text in texts_of(sign, "a text has the trait"):
        assert sign in traits(text), text
    for text in texts_of(sign, "a text has not the trait"):
        assert sign not in traits(text), text


def test_a_text_can_carry_several_and_none():
    assert traits("Do you remember what I decided on 3 May about Anna?") == (
        Trait.QUESTION | Trait.ASKS_LAST | Trait.MOSTLY_ASKS | Trait.FIRST_PERSON | Trait.SECOND_PERSON
        | Trait.DECISION | Trait.NUMBER | Trait.DATE | Trait.NAME
    )  # fmt: skip
    assert traits("rain in the north") == traits("") == Trait(0)


def test_the_numbers_stored_keep_their_meaning():
    in_order = enumerate(read_tables(__file__)["traits in the order of their numbers"])
    assert {sign.name: sign.value for sign in Trait} == {name: 2**place for place, name in in_order}


@given(st.text())
def test_any_text_has_traits(text):
    assert 0 <= traits(text).value < 2**19
    assert traits(text) == traits(text)


def test_a_megabyte_costs_no_more_than_its_beginning():
    for text in ("nginx 502 重启\n" * 60_000, "a" * 10**6, "'" * 10**6, "《" * 10**6, "last " * 200_000):
        began = time.thread_time()
        traits(text)
        assert time.thread_time() - began < 0.1
