"""The language model at an endpoint, against a server that does everything wrong."""

import json
import threading
import time
import traceback

import pytest
from at_once import at_once
from refusing import refused
from scripted_chat import ScriptedChat, answer, refuses, says
from scripted_endpoint import Reply
from tables import literals, read_tables

from jiyi.errors import InputError, LLMError, LLMRefused, LLMUnreachable, SettingsError
from jiyi.llm import LLM
from jiyi.llm import Reply as Answer

KEY = "sk-very-secret-0123456789"
HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
TABLES = read_tables(__file__)


# --- what is sent, and what comes of a good answer


def test_a_reply_is_read_whole(make):
    with ScriptedChat(says("你好")) as server:
        llm = make(server.url)
        reply = llm.complete(HELLO)
    assert reply == Answer(text="你好", input_tokens=7, output_tokens=3, model="m-2026", finish="stop")
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {KEY}"]
    assert isinstance(llm, LLM)


def test_what_is_sent(make):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "\ud83d ok \ud83d\ude00"}]
    with ScriptedChat() as server:
        llm = make(server.url, extra_body={"enable_thinking": False})
        llm.complete(messages, max_tokens=5, temperature=0.5, stop=["\n"], schema=SCHEMA)
        llm.complete(HELLO)
    assert server.asked[0] == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "\ufffd ok 😀"}],
        "max_tokens": 5,
        "temperature": 0.5,
        "stop": ["\n"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
        "enable_thinking": False,
    }
    assert server.asked[1] == {"model": "m", "messages": HELLO, "temperature": 0, "enable_thinking": False}
    assert messages[1]["content"] == "\ud83d ok \ud83d\ude00"


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        (answer("<think>\nhm, {}\n</think>\n\nyes"), "yes", "stop"),
        (answer("<think>cut off in the middle of"), "", "stop"),
        (answer("a <think> is a tag"), "a <think> is a tag", "stop"),
        (answer(None), "", "stop"),
        (answer("x", content=[{"type": "text", "text": t} for t in ("in ", "parts")]), "in parts", "stop"),
        *literals(TABLES["unusual bodies, text, finish"]),
    ],
)
def test_unusual_answers_are_understood(make, body, text, finish):
    with ScriptedChat(Reply(body=body)) as server:
        reply = make(server.url).complete(HELLO)
    assert (reply.text, reply.finish) == (text, finish)


def test_counts_that_are_none_are_not_believed_and_stop_words_end_the_reply(make):
    body = answer("x") | {"usage": {"prompt_tokens": -1, "completion_tokens": "3"}, "model": None}
    with ScriptedChat(Reply(body=body)) as server:
        reply = make(server.url).complete(HELLO)
    assert (reply.input_tokens, reply.output_tokens, reply.model) == (None, None, "")
    with ScriptedChat(says("one\ntwo END three")) as server:
        reply = make(server.url).complete(HELLO, stop=["END", "\n", ""])
    assert reply.text == "one"


# --- what the endpoint does not know


def formats(server: ScriptedChat) -> list[str]:
    return [asked.get("response_format", {"type": "none"})["type"] for asked in server.asked]


def test_where_schemas_are_refused_json_mode_is_asked_for_and_then_only_the_prompt(make):
    unknown = refuses("This response_format type is unavailable now")
    with ScriptedChat(unknown, says("{}"), unknown, says("{}")) as server:
        llm = make(server.url)
        for _ in range(3):
            assert llm.complete(HELLO, schema=SCHEMA).text in ("{}", "ok")
    assert formats(server) == ["json_schema", "json_object", "json_object", "none", "none"]
    for asked in server.asked[1:]:
        content = asked["messages"][-1]["content"]
        assert content.startswith("hello\n\n")
        assert json.dumps(SCHEMA) in content
        assert "JSON" in content


@pytest.mark.parametrize(("last", "expected"), literals(TABLES["last message, what is said"]))
def test_the_schema_is_said_at_the_end_in_the_language_spoken(make, last, expected):
    with ScriptedChat(refuses("no", status=422)) as server:
        make(server.url).complete([*HELLO, last], schema=SCHEMA)
    final = server.asked[1]["messages"][-1]
    assert final["role"] == "user"
    said = final["content"] if isinstance(final["content"], str) else final["content"][-1]["text"]
    assert expected in said


def test_fields_a_model_does_not_take_are_renamed_or_left_out_and_that_is_remembered(make):
    refusals = [
        refuses("Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"),
        refuses("Only the default (1) value is supported.", param="temperature", code="unsupported_value"),
        refuses("Unsupported parameter.", param="stop"),
    ]
    with ScriptedChat(*refusals, says("a;b")) as server:
        llm = make(server.url)
        assert llm.complete(HELLO, max_tokens=5, stop=[";"]).text == "a"
        llm.complete(HELLO, max_tokens=6, stop=[";"])
    assert len(server.asked) == 5
    assert server.asked[-1] == {"model": "m", "messages": HELLO, "max_completion_tokens": 6}


def test_a_refusal_for_another_reason_is_the_answer_and_teaches_nothing(make):
    too_long = refuses("maximum context length is 8192 tokens", code="context_length_exceeded")
    with ScriptedChat(*[too_long] * 3) as server:
        llm = make(server.url)
        with pytest.raises(LLMRefused, match=r"400 \(maximum context length.*fit its context window"):
            llm.complete(HELLO, schema=SCHEMA)
        llm.complete(HELLO, schema=SCHEMA)
    assert formats(server) == ["json_schema", "json_object", "none", "json_schema"]


# --- what is tried again and how long, and what is not


@pytest.mark.slow
def test_pauses_grow_and_the_time_limit_holds_over_all_tries(make):
    bad = Reply(status=500, body={})
    with ScriptedChat(bad, bad) as server:
        started = time.monotonic()
        make(server.url).complete(HELLO)
        assert time.monotonic() - started >= 0.75 * (0.5 + 1.0)
    with ScriptedChat(*[Reply(silent=True)] * 5) as server:
        started = time.monotonic()
        with pytest.raises(LLMUnreachable, match="did not answer within"):
            make(server.url, timeout=0.4, retries=5, time_limit=1).complete(HELLO)
        assert 0.3 < time.monotonic() - started < 5
    assert len(server.asked) < 4


@pytest.mark.slow
def test_an_answer_that_never_ends_is_left_alone(make):
    with ScriptedChat(*[Reply(body=b" " * 1_000, drip=0.05)] * 9) as server:
        llm = make(server.url, time_limit=0.2)
        started = time.monotonic()
        refused(LLMUnreachable, "gave no whole answer within", llm.complete, HELLO)
        assert time.monotonic() - started < 20, "the answer would take 50 s"
        started, threads = time.monotonic(), threading.active_count()
        for _ in range(20):
            refused(LLMUnreachable, r"not asked for another|being tried again", llm.complete, HELLO)
            time.sleep(0.06)  # together longer than the first pause
        assert time.monotonic() - started < 20
        assert threading.active_count() <= threads + 2, "late answers pile up"
        assert len(server.asked) in (2, 3), "3 where these calls outlasted the second pause"


@pytest.mark.parametrize(("body", "says"), literals(TABLES["junk, what is said of it"]))
def test_junk_is_refused_at_once(make, body, says):
    with ScriptedChat(Reply(body=body)) as server, pytest.raises(LLMRefused, match=says):
        make(server.url).complete(HELLO)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "messages", [[], "hello", {"role": "user", "content": "x"}, [5], [{"role": "user", "content": object()}]]
)
def test_messages_that_are_none_are_named(make, messages):
    with ScriptedChat() as server, pytest.raises(InputError, match="messages"):
        make(server.url).complete(messages)
    assert server.asked == []


def test_impossible_options_are_refused(make):
    for name in ("schema", "stop"):
        with pytest.raises(InputError, match=f"{name} cannot be written as JSON"):
            make("http://h").complete(HELLO, **{name: {"x": object()} if name == "schema" else [object()]})
    refused(InputError, "extra_body", make, "http://localhost", extra_body={"x": object()})
    refused(InputError, "max_tokens", make("http://localhost").complete, HELLO, max_tokens=0)
    for limit in (0, -1, float("inf"), float("nan")):
        refused(SettingsError, "time_limit", make, "http://localhost", time_limit=limit)


# --- keys, names, the package


def test_a_refusal_that_quotes_the_key_does_not_show_it(make):
    bad = says(None, refusal=f"not with {KEY}")
    with ScriptedChat(bad) as server, pytest.raises(LLMError, match=r"\*\*\*") as caught:
        make(server.url, retries=0).complete(HELLO)
    assert KEY[:10] not in "".join(traceback.format_exception(caught.value))


def test_several_threads_get_their_own_answers(make):
    class Echo(ScriptedChat):
        honest = staticmethod(lambda asked: answer(asked["messages"][0]["content"]))

    with Echo() as server:
        llm = make(server.url)
        got = at_once(lambda n: llm.complete([{"role": "user", "content": f"number {n}"}]).text, range(8))
    assert got == [f"number {number}" for number in range(8)]
