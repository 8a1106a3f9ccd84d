"""Four typed lists out of a conversation."""

import json

from reading_model import read_fact
from refusing import refused
from tables import read_tables

from jiyi.compression import Compressor, Extract
from jiyi.errors import InputError, LLMUnreachable
from jiyi.llm import Reply
from jiyi.records import Message
from jiyi.text import counter_for

COUNT = counter_for().count_text

TALK, TALK_ZH = (
    [Message(role=role, content=text, id=str(n)) for n, (role, text) in enumerate(said, 1)]
    for said in read_tables(__file__).values()
)


class Model:
    """Answers with what it is given."""

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def complete(self, messages, *, max_tokens=None, temperature=0, schema=None, stop=()) -> Reply:
        if isinstance(self.answer, Exception):
            raise self.answer
        return Reply(text=self.answer)


def texts(items) -> str:
    return " | ".join(item.text for item in items)


def test_english_by_patterns_has_sources_and_the_later_value():
    found = Extract().extract(TALK)
    assert "Ana" in texts(found.user_information)
    assert "Lyon" in texts(found.user_information)
    assert "PostgreSQL" in texts(found.conclusions)
    assert "certificate" in texts(found.todos)
    assert "billing" in texts(found.topics)
    everything = texts([*found.user_information, *found.conclusions, *found.todos])
    assert "weather" not in everything
    assert "Oracle" not in everything
    (item,) = [item for item in found.user_information if "Lyon" in item.text]
    assert item.source == "1"
    assert 0 < item.confidence <= 1
    assert item.method == "patterns"
    assert {item.method for item in found.topics} == {"terms"}
    sources = [item.source for item in found.conclusions]
    assert sources == sorted(sources), "in the order they were said"
    assert "8444" in texts(found.conclusions)
    assert "8443" not in texts(found.conclusions)


def test_chinese_and_lines_with_speakers_by_patterns():
    found = Extract().extract(TALK_ZH)
    assert "魏知夏" in texts(found.user_information)
    assert "PostgreSQL" in texts(found.conclusions)
    assert "证书" in texts(found.todos)
    assert "天气" not in texts([*found.user_information, *found.conclusions, *found.todos])
    found = Extract().extract("Ana: I live in Lyon.\nBen: I live in Turin.")
    assert "Lyon" in texts(found.user_information)
    assert "Turin" in texts(found.user_information)


def test_as_a_compressor_it_writes_bullets_in_the_language():
    assert isinstance(Extract(), Compressor)
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
    found = Extract(Model(json.dumps(answer))).extract(TALK)
    assert [item.method for item in found.user_information] == ["llm"]
    assert (found.todos[0].text, found.todos[0].source) == (words, "5")
    assert texts(found.topics) == "billing"
    assert "PostgreSQL" in texts(found.conclusions)
    assert "dragons" not in texts(found.conclusions), "what the messages do not hold is left out"
    assert Extract(Model(json.dumps(answer)))(TALK).method == "llm"


def test_a_model_that_fails_costs_a_note_and_misuse_is_named():
    found = Extract(Model(LLMUnreachable("gone"))).extract(TALK)
    assert "gone" in found.notes[0]
    assert found.todos == Extract().extract(TALK).todos
    assert Extract().extract(TALK).notes == ()
    refused(InputError, "text, a message", Extract().extract, 3)
    refused(InputError, "max_tokens", Extract(), "a", max_tokens=0)
