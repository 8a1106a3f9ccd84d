"""The language model adapter and the JSON asker on a real server of this machine."""

import pytest
from refusing import refused
from tables import literals, read_tables

from jiyi.errors import LLMRefused
from jiyi.llm import ask_json

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "people": {"type": "integer", "minimum": 1, "maximum": 99},
        "mood": {"type": "string", "enum": ["good", "bad"]},
    },
    "required": ["city", "people", "mood"],
    "additionalProperties": False,
}


@pytest.fixture
def llm(local_llm, llm_at):
    return llm_at(local_llm, "smollm2", timeout=30, retries=4, time_limit=120)


@pytest.mark.slow
def test_it_answers_and_counts(llm):
    reply = llm.complete([{"role": "user", "content": "Say hello."}], max_tokens=8)
    assert reply.text.strip()
    assert reply.finish in ("stop", "length")
    assert (reply.input_tokens or 0) > 5
    assert 0 < (reply.output_tokens or 0) <= 8


def test_it_is_cut_off_where_told(llm):
    cut = llm.complete([{"role": "user", "content": "Count from 1 to 100."}], max_tokens=3)
    assert (cut.finish, cut.output_tokens) == ("length", 3)
    whole = llm.complete([{"role": "user", "content": "Say: one two"}], max_tokens=12)
    assert " " in whole.text.strip()
    first = llm.complete([{"role": "user", "content": "Say: one two"}], max_tokens=12, stop=[" "])
    assert first.text == whole.text.partition(" ")[0]
    assert first.finish == "stop"


@pytest.mark.slow
@pytest.mark.parametrize("question", ["Tell me about a party in Paris.", "说说杭州的一次聚会。"])
def test_it_is_held_to_a_schema(llm, question):
    found = ask_json(llm, [{"role": "user", "content": question}], SCHEMA, max_tokens=200)
    assert found.keys() == {"city", "people", "mood"}
    assert 1 <= found["people"] <= 99
    assert found["mood"] in ("good", "bad")


def test_any_text_is_accepted(llm):
    for odd in literals(read_tables(__file__)["odd texts"]):
        assert llm.complete([{"role": "user", "content": odd}], max_tokens=2).finish in ("stop", "length")


def test_the_stream_says_what_the_whole_answer_says_and_too_much_is_refused(llm):
    pieces: list[str] = []
    asked = [{"role": "user", "content": "Say hello."}]
    streamed = llm.chat(asked, max_tokens=12, on_text=pieces.append)
    assert len(pieces) > 3
    assert "".join(pieces) == streamed.text == llm.chat(asked, max_tokens=12).text
    assert (streamed.finish, streamed.output_tokens) == ("length", 12)
    refused(LLMRefused, r"400 .*context", llm.complete, [{"role": "user", "content": "word " * 10_000}])


def test_tools_and_their_results_are_taken(llm):
    weather = {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    talk = [
        {"role": "user", "content": "How is the weather in Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    turn = llm.chat(talk, tools=[{"type": "function", "function": weather}], max_tokens=8)
    assert turn.finish in ("stop", "length", "tool_calls")
    assert turn.notes == ()
