"""What is said in two languages: the same names with the same places in both."""

import tomllib
from importlib.resources import files
from string import Formatter

import pytest

from jiyi.errors import InputError
from jiyi.prompts import wording

ENGLISH, CHINESE = (
    tomllib.loads(files("jiyi.prompts").joinpath(language, "wording.toml").read_text("utf-8"))
    for language in ("en", "zh")
)
SAME = {("export", "agent"), ("json", "of")}  # a term that Chinese uses too, and a place alone


def test_both_languages_have_the_same_names():
    assert {section: list(words) for section, words in ENGLISH.items()} == {
        section: list(words) for section, words in CHINESE.items()
    }


@pytest.mark.parametrize("section", list(ENGLISH))
def test_both_languages_say_the_same_things(section):
    assert wording(section, "zh") == CHINESE[section]
    for name, words in wording(section, "en").items():
        other = CHINESE[section][name]
        places = [sorted(p for _, p, _, _ in Formatter().parse(w) if p is not None) for w in (words, other)]
        assert places[0] == places[1], name
        plain = "".join(text for text, _, _, _ in Formatter().parse(words))
        if any(map(str.isalpha, plain)) and (section, name) not in SAME:
            assert any("一" <= char <= "鿿" for char in other), name


def test_another_language_is_refused():
    with pytest.raises(InputError, match="zh"):
        wording("window", "fr")
