"""Asking for JSON: found wherever it is, checked, mended once."""

from typing import Any

import pytest
from refusing import refused
from scripted_chat import ScriptedChat, answer, refuses, says
from scripted_endpoint import Reply
from tables import literals, read_tables

from jiyi.errors import BadReply, InputError, LLMError, LLMRefused
from jiyi.llm import ask_json

TABLES = read_tables(__file__)
SCHEMA = {
    "type": "object",
    "properties": {"port": {"type": "integer", "minimum": 1}, "why": {"type": "string", "default": "?"}},
    "required": ["port"],
    "additionalProperties": False,
}
ASK = [{"role": "user", "content": "Which port, as JSON?"}]


@pytest.mark.parametrize("said", [*literals(TABLES["the object is found"]), "{" * 40 + '{"port": 9443}'])
def test_the_object_is_found(make, said):
    with ScriptedChat(says(said)) as server:
        assert ask_json(make(server.url), ASK, SCHEMA) == {"port": 9443}
    assert (len(server.asked), server.asked[0]["messages"]) == (1, ASK)
    assert server.asked[0]["response_format"]["json_schema"]["schema"] == SCHEMA


def test_bad_strings_are_mended_and_nothing_is_filled_in_or_changed(make):
    with ScriptedChat(says('{"port": 1, "why": "a\nb \\ud83d \\ud83d\\ude00"}')) as server:
        assert ask_json(make(server.url), ASK, SCHEMA) == {"port": 1, "why": "a\nb \ufffd 😀"}
    messages: list[dict[str, Any]] = [dict(ASK[0])]
    with ScriptedChat(says("no"), says('{"port": 9}')) as server:
        assert ask_json(make(server.url), messages, SCHEMA) == {"port": 9}
    assert messages == ASK


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        *literals(TABLES["the model sees its bad answer and why and may answer again"]),
        ('{"port": ' + "9" * 5_000 + "}", "no JSON object"),
        ('{"a":' * 3_000, "no JSON object"),
    ],
)
def test_the_model_sees_its_bad_answer_and_why_and_may_answer_again(make, said, reason):
    with ScriptedChat(says(said), says('{"port": 9443}')) as server:
        assert ask_json(make(server.url), ASK, SCHEMA) == {"port": 9443}
    first, again = server.asked
    assert again["messages"][: len(ASK)] == first["messages"]
    assert again["messages"][1] == {"role": "assistant", "content": said[:8_000] or "…"}
    assert reason in again["messages"][2]["content"]
    assert '"minimum": 1' in again["messages"][2]["content"]
    assert again["response_format"] == first["response_format"]


def test_an_answer_that_was_cut_off_is_told_so_in_the_language_asked_for(make):
    body = answer('{"port": 94')
    body["choices"][0]["finish_reason"] = "length"
    with ScriptedChat(Reply(body=body), says('{"port": 9}')) as server:
        assert ask_json(make(server.url), ASK, SCHEMA, max_tokens=4) == {"port": 9}
    assert "cut off, be shorter" in server.asked[1]["messages"][2]["content"]
    assert [asked["max_tokens"] for asked in server.asked] == [4, 4]
    with ScriptedChat(says("不知道"), says('{"port": 9}')) as server:
        ask_json(make(server.url), ASK, SCHEMA, language="zh")
    assert server.asked[1]["messages"][2]["content"].startswith("你的回答无法使用：")


def test_a_second_bad_answer_is_quoted_and_what_the_endpoint_refuses_passed_on(make):
    with ScriptedChat(says("no"), says("still\nno")) as server:
        with pytest.raises(BadReply, match=r"twice: it holds no JSON object; .*begins: still no") as caught:
            ask_json(make(server.url), ASK, SCHEMA)
        assert len(server.asked) == 2
    assert isinstance(caught.value, LLMError)
    with ScriptedChat(refuses("bad key", status=401)) as server, pytest.raises(LLMRefused, match="bad key"):
        ask_json(make(server.url), ASK, SCHEMA)


@pytest.mark.parametrize(
    "schema",
    [
        *literals(TABLES["a schema that is none is refused before anyone is asked"]),
        {"type": "object", "properties": {"a": object()}},
    ],
)
def test_a_schema_that_is_none_is_refused_before_anyone_is_asked(make, schema):
    with ScriptedChat() as server, pytest.raises(InputError, match="schema"):
        ask_json(make(server.url), ASK, schema)
    assert server.asked == []


def test_a_schema_reaches_for_nothing_outside_itself(make, tmp_path):
    file = tmp_path / "port.json"
    file.write_text('{"type": "integer"}')
    with ScriptedChat() as server:
        for uri in (f"{server.url}/schema.json", file.as_uri()):
            schema = {"type": "object", "properties": {"port": {"$ref": uri}}}
            refused(InputError, "outside itself", ask_json, make(server.url), ASK, schema)
    assert server.asked == []
