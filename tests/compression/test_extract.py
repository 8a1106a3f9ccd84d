"""Four typed lists out of a conversation."""

import json

import pytest
from reading_model import FixedModel, read_fact
from tables import read_tables

from jiyi.compression import Extract
from jiyi.errors import LLMUnreachable
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text

TABLES = read_tables(__file__)
TALK, TALK_ZH = (
    [Message(role=role, content=text, id=str(n)) for n, (role, text) in enumerate(TABLES[name], 1)]
    for name in ("talk en", "talk zh")
)


def texts(items) -> str:
    return " | ".join(item.text for item in items)


@pytest.mark.parametrize(("talk", "language"), [(TALK, "en"), (TALK_ZH, "zh")], ids=["en", "zh"])
def test_both_languages_by_patterns(talk, language):
    found = Extract().extract(talk)
    for name, word in TABLES[f"found {language}"]:
        assert word in texts(getattr(found, name))
    everything = texts([*found.user_information, *found.conclusions, *found.todos])
    for word in TABLES[f"not found {language}"]:
        assert word not in everything


def test_what_is_found_has_its_source_and_the_later_value():
    found = Extract().extract(TALK)
    (item,) = [item for item in found.user_information if "Lyon" in item.text]
    assert item.source == "1"
    assert 0 < item.confidence <= 1
    assert item.method == "patterns"
    assert {item.method for item in found.topics} == {"terms"}
    sources = [item.source for item in found.conclusions]
    assert sources == sorted(sources), "in the order they were said"
    found = Extract().extract("Ana: I live in Lyon.\nBen: I live in Turin.")
    assert "Lyon" in texts(found.user_information)
    assert "Turin" in texts(found.user_information)


def test_as_a_compressor_it_writes_bullets_in_the_language():
    made = Extract()(TALK)
    assert "## User information\n- " in made.text
    assert "## To do\n- " in made.text
    assert made.tokens == COUNT(made.text) <= made.tokens_before
    assert set(made.sources) <= {message.id for message in TALK}
    assert "5" in made.sources
    assert "## 待办\n- " in Extract()(TALK_ZH * 2).text


def test_within_the_limit_the_least_certain_goes_first_and_a_small_text_comes_back():
    made = Extract()(TALK, max_tokens=30)
    assert 0 < made.tokens <= 30
    assert "did not fit" in made.notes[-1]
    assert Extract()("hello there", max_tokens=50).text == "hello there"
    made = Extract()("How are you?")
    assert (made.text, made.notes) == ("", ("nothing was found",))


def test_by_a_model():
    fact = read_fact(1, "I", "Lyon", "I live in Lyon", predicate="home", category="profile")
    words = "renew the billing certificate"
    todo = fact | {"message": 5, "predicate": "has to", "object": words, "category": "todo", "quote": words}
    answer = {
        "facts": [fact, todo],
        "entities": [],
        "topics": ["billing"],
        "conclusions": ["The billing service moves to PostgreSQL.", "Pluto is inhabited by dragons."],
    }
    found = Extract(FixedModel(json.dumps(answer))).extract(TALK)
    assert [item.method for item in found.user_information] == ["llm"]
    assert (found.todos[0].text, found.todos[0].source) == (words, "5")
    assert texts(found.topics) == "billing"
    assert "PostgreSQL" in texts(found.conclusions)
    assert "dragons" not in texts(found.conclusions), "what the messages do not hold is left out"
    assert Extract(FixedModel(json.dumps(answer)))(TALK).method == "llm"


def test_a_model_that_fails_costs_a_note():
    found = Extract(FixedModel(LLMUnreachable("gone"))).extract(TALK)
    assert "gone" in found.notes[0]
    assert found.todos == Extract().extract(TALK).todos
    assert Extract().extract(TALK).notes == ()
