"""What a text does: the signs, in both languages, and what must not set them off."""

import pytest
from tables import literals, read_tables

from jiyi.text import Mode, modes

SHOWN = [(Mode[name], text) for name, *texts in read_tables(__file__)["what a text does"] for text in texts]


@pytest.mark.parametrize(("mode", "text"), SHOWN, ids=lambda v: str(v)[:20])
def test_a_sign_shows_what_a_text_does(mode, text):
    assert mode in modes(text)


@pytest.mark.parametrize("text", literals(read_tables(__file__)["a plain statement shows nothing"]))
def test_a_plain_statement_shows_nothing(text):
    assert modes(text) == Mode(0)


def test_of_a_long_text_the_beginning_decides():
    assert modes("x " * 1_500 + "Forget that.") == Mode(0)
