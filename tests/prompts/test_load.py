"""Prompts: each in both languages with the same places, and each rendered."""

from importlib.resources import files

import pytest
from refusing import raises, refused
from tables import literals, read_tables

from jiyi.errors import InputError
from jiyi.prompts import load_prompt, quote

FILES = sorted(
    (language, file.name.removesuffix(".md"))
    for language in ("zh", "en")
    for file in (files("jiyi.prompts") / language).iterdir()
    if file.name.endswith(".md")
)
NAMES = sorted({name for _, name in FILES})


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_places(name):
    zh, en = load_prompt(name, "zh"), load_prompt(name, "en")
    assert sorted(zh.get_identifiers()) == sorted(en.get_identifiers())
    assert zh.is_valid()
    assert en.is_valid()


@pytest.mark.parametrize(("language", "name"), FILES)
def test_every_prompt_is_rendered(language, name):
    prompt = load_prompt(name, language)
    values = {place: f"<{place}: $5 ${{x}}>" for place in prompt.get_identifiers()}
    text = prompt.substitute(values)
    for value in values.values():
        assert value in text, "what is put in stays as it is"
    assert text == text.strip()
    assert any("一" <= char <= "鿿" for char in text) == (language == "zh")
    raises(KeyError, prompt.substitute, {})


@pytest.mark.parametrize("name", ["nothing", "../en/rerank", "", "rerank.md", "re rank"])
def test_a_prompt_that_is_none_is_named_with_those_there_are(name):
    refused(InputError, r"there are .*rerank", load_prompt, name, "zh")


def test_a_language_that_is_none_is_named():
    refused(InputError, "'fr'; there are none", load_prompt, "rerank", "fr")


@pytest.mark.parametrize(("text", "quoted"), literals(read_tables(__file__)["texts, how they are quoted"]))
def test_no_line_of_a_quoted_text_can_pass_for_one_of_the_prompt(text, quoted):
    assert quote(text) == quoted
