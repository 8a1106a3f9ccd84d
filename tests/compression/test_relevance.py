"""Sentences that serve a query."""

import json

import pytest
from reading_model import FixedModel
from refusing import refused
from tables import read_tables

from jiyi.compression import Relevance
from jiyi.errors import InputError, LLMUnreachable
from jiyi.records import Message, ToolCall
from jiyi.text import counter_for

COUNT = counter_for().count_text

TABLES = read_tables(__file__)
TALK = "\n".join(TABLES["said en"])


@pytest.mark.parametrize(("language", "query", "kept", "gone"), TABLES["asked, kept, gone"])
def test_question_and_answer_are_kept(language, query, kept, gone):
    talk = "\n".join(TABLES[f"said {language}"])
    made = Relevance()(talk, max_tokens=COUNT(talk) // 2, query=query)
    assert made.tokens == COUNT(made.text) <= COUNT(talk) // 2
    for word in kept.split():
        assert word in made.text
    for word in gone.split():
        assert word not in made.text


def test_order_and_speakers_are_kept():
    made = Relevance()(TALK, max_tokens=60, query="port of edge-02 and the billing module")
    lines = made.text.splitlines()
    assert lines == [line for line in TALK.splitlines() if any(line.startswith(one) for one in lines)] or all(
        line.split(":")[0] in ("Ana", "Ben") for line in lines
    )
    assert made.text.index("8444") < made.text.index("billing")


def test_a_small_text_comes_back_whole_and_without_a_limit_half_of_it():
    assert Relevance()(TALK, max_tokens=1_000, query="port").text == TALK
    assert Relevance()(TALK, query="port").tokens <= COUNT(TALK) // 2


def test_a_result_brings_its_call():
    call = ToolCall(id="c1", name="shell", arguments='{"cmd": "ss -ltn"}')
    asked, normal = TABLES["around a call"]
    messages = [
        Message(role="user", content=asked, id="1"),
        Message(role="assistant", tool_calls=(call,), id="2"),
        Message(role="tool", tool_call_id="c1", content="LISTEN 0 511 edge-02:8444", id="3"),
        Message(role="assistant", content=normal, id="4"),
    ]
    made = Relevance()(messages, max_tokens=35, query="edge-02 8444")
    assert made.sources == ("2", "3")
    assert "ss -ltn" in made.text
    assert "edge-02:8444" in made.text


def test_speakers_are_written_before_messages_where_there_is_room():
    messages = [
        Message(role="user", content=f"Point {n} is about lunch and the weather.", id=f"{n}")
        for n in range(8)
    ]
    messages[5] = Message(role="user", name="Mira", content="The port is 8444.", id="5")
    made = Relevance()(messages, max_tokens=15, query="port")
    assert (made.text, made.sources) == ("Mira: The port is 8444.", ("5",))


def test_nothing_in_common_keeps_the_newest_and_too_little_room_prunes_a_sentence():
    made = Relevance()(TALK, max_tokens=25, query="quantum chromodynamics")
    assert "noodle" in made.text
    assert "nothing in the text" in made.notes[0]
    made = Relevance()(TALK, max_tokens=4, query="port edge-02")
    assert 0 < made.tokens <= 4
    assert "no sentence fits" in made.notes[0]


def test_a_model_names_the_numbers_and_one_that_fails_costs_a_note():
    model = FixedModel(json.dumps({"numbers": [1]}))
    made = Relevance(model)(TALK, max_tokens=30, query="which port does edge-02 use?")
    assert made.method == "llm"
    assert "Good morning" in made.text, "what the model names goes first"
    assert made.tokens <= 30
    assert "> Ben:" in model.asked[0]
    query = "which port does edge-02 use?"
    made = Relevance(FixedModel(LLMUnreachable("gone")))(TALK, max_tokens=40, query=query)
    assert made.text == Relevance()(TALK, max_tokens=40, query=query).text
    assert made.method == "relevance"
    assert "gone" in made.notes[0]


@pytest.mark.parametrize(
    ("query", "told"), [*((none, "query=.*PruneTokens") for none in (None, "", "  ")), (3, "must be text")]
)
def test_without_a_query_it_says_what_to_do(query, told):
    refused(InputError, told, Relevance(), TALK, query=query)
