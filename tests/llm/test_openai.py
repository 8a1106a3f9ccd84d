"""The language model at an endpoint, against a server that does everything wrong."""

import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from at_once import at_once
from scripted_chat import SOON, ScriptedChat, answer, refuses, says
from scripted_endpoint import Reply

from jiyi.embeddings import Endpoint
from jiyi.errors import InputError, LLMError, LLMRefused, LLMUnreachable, MissingExtra, SettingsError
from jiyi.llm import LLM, OpenAILLM
from jiyi.llm import Reply as Answer

KEY = "sk-very-secret-0123456789"
HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

Make = Callable[..., OpenAILLM]


# --- what is sent, and what comes of a good answer


def test_a_reply_is_read_whole(make: Make) -> None:
    with ScriptedChat(says("你好")) as server:
        llm = make(server.url)
        reply = llm.complete(HELLO)
    assert reply == Answer(text="你好", input_tokens=7, output_tokens=3, model="m-2026", finish="stop")
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [f"Bearer {KEY}"]
    assert isinstance(llm, LLM)


def test_what_is_sent(make: Make) -> None:
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
        (
            answer("x", content=[{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]),
            "in parts",
            "stop",
        ),
        ({"choices": [{"message": {"content": "bare"}, "finish_reason": "length"}]}, "bare", "length"),
        ({"choices": [{"message": {"content": "bare"}, "finish_reason": None}], "usage": 5}, "bare", "stop"),
    ],
)
def test_unusual_answers_are_understood(make: Make, body: Any, text: str, finish: str) -> None:
    with ScriptedChat(Reply(body=body)) as server:
        reply = make(server.url).complete(HELLO)
    assert (reply.text, reply.finish) == (text, finish)


def test_counts_that_are_none_are_not_believed(make: Make) -> None:
    body = answer("x") | {"usage": {"prompt_tokens": -1, "completion_tokens": "3"}, "model": None}
    with ScriptedChat(Reply(body=body)) as server:
        reply = make(server.url).complete(HELLO)
    assert (reply.input_tokens, reply.output_tokens, reply.model) == (None, None, "")


def test_stop_words_end_the_reply_whatever_the_endpoint_knows(make: Make) -> None:
    with ScriptedChat(says("one\ntwo END three")) as server:
        reply = make(server.url).complete(HELLO, stop=["END", "\n", ""])
    assert reply.text == "one"


# --- what the endpoint does not know


def formats(server: ScriptedChat) -> list[str]:
    return [asked.get("response_format", {"type": "none"})["type"] for asked in server.asked]


def test_where_schemas_are_refused_json_mode_is_asked_for_and_then_only_the_prompt(make: Make) -> None:
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


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ({"role": "user", "content": "请列出所有端口"}, "只用一个 JSON 对象回答"),
        ({"role": "user", "content": [{"type": "text", "text": "ports?"}]}, "Answer with one JSON object"),
        ({"role": "assistant", "content": "let me see"}, "Answer with one JSON object"),
    ],
    ids=["Chinese", "parts", "not the user"],
)
def test_the_schema_is_said_at_the_end_in_the_language_spoken(
    make: Make, last: dict[str, Any], expected: str
) -> None:
    with ScriptedChat(refuses("no", status=422)) as server:
        make(server.url).complete([*HELLO, last], schema=SCHEMA)
    final = server.asked[1]["messages"][-1]
    assert final["role"] == "user"
    said = final["content"] if isinstance(final["content"], str) else final["content"][-1]["text"]
    assert expected in said


def test_fields_a_model_does_not_take_are_renamed_or_left_out_and_that_is_remembered(make: Make) -> None:
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


def test_a_refusal_for_another_reason_is_the_answer_and_teaches_nothing(make: Make) -> None:
    too_long = refuses("maximum context length is 8192 tokens", code="context_length_exceeded")
    with ScriptedChat(*[too_long] * 3) as server:
        llm = make(server.url)
        with pytest.raises(LLMRefused, match=r"400 \(maximum context length.*fit its context window"):
            llm.complete(HELLO, schema=SCHEMA)
        llm.complete(HELLO, schema=SCHEMA)
    assert formats(server) == ["json_schema", "json_object", "none", "json_schema"]


# --- what is tried again, and how long


@pytest.mark.parametrize(
    "bad",
    [
        refuses("oops", status=500),
        Reply(status=503, body=b"<html>busy</html>", headers={"Content-Type": "text/html"} | SOON),
        refuses("slow down", status=429),
        Reply(cut=True),
    ],
    ids=["500", "503 as a page", "429", "dies in the middle of an answer"],
)
def test_a_passing_fault_is_tried_again(make: Make, bad: Reply) -> None:
    with ScriptedChat(bad) as server:
        assert make(server.url).complete(HELLO).text == "ok"
    assert len(server.asked) == 2


@pytest.mark.slow
def test_pauses_grow(make: Make) -> None:
    bad = Reply(status=500, body={})
    with ScriptedChat(bad, bad) as server:
        started = time.monotonic()
        make(server.url).complete(HELLO)
        assert time.monotonic() - started >= 0.75 * (0.5 + 1.0)


def test_a_lasting_fault_is_unreachable(make: Make) -> None:
    with ScriptedChat(*[refuses("out of memory", status=500)] * 9) as server:
        with pytest.raises(LLMUnreachable, match=r"HTTP 500 \(out of memory\)") as caught:
            make(server.url).complete(HELLO)
        assert server.url in str(caught.value)
    assert len(server.asked) == 3
    assert isinstance(caught.value.__cause__, Exception)


def test_an_empty_account_is_not_asked_again(make: Make) -> None:
    empty = [refuses("no credit", status=429, code="insufficient_quota")] * 3
    with ScriptedChat(*empty) as server, pytest.raises(LLMRefused, match="no credit"):
        make(server.url).complete(HELLO)
    assert len(server.asked) == 1


def test_a_pause_longer_than_the_time_there_is_is_not_begun(make: Make) -> None:
    with ScriptedChat(Reply(status=429, body={}, headers={"Retry-After": "60"})) as server:
        started = time.monotonic()
        with pytest.raises(LLMUnreachable, match="HTTP 429"):
            make(server.url, time_limit=40).complete(HELLO)
        assert time.monotonic() - started < 20


@pytest.mark.slow
def test_silence_is_asked_again_and_then_an_error(make: Make) -> None:
    silent, says = [Reply(silent=True)] * 2, r"did not answer within 0\.3 s, 2 time"
    with ScriptedChat(*silent) as server, pytest.raises(LLMUnreachable, match=says):
        make(server.url, timeout=0.3, retries=1).complete(HELLO)
    assert len(server.asked) == 2


@pytest.mark.slow
def test_the_time_limit_holds_over_all_tries(make: Make) -> None:
    with ScriptedChat(*[Reply(silent=True)] * 5) as server:
        started = time.monotonic()
        with pytest.raises(LLMUnreachable, match="did not answer within"):
            make(server.url, timeout=0.4, retries=5, time_limit=1).complete(HELLO)
        assert 0.3 < time.monotonic() - started < 5
    assert len(server.asked) < 4


@pytest.mark.slow
def test_an_answer_that_never_ends_is_left_alone(make: Make) -> None:
    endless = Reply(body=b" " * 1_000, drip=0.05)
    with ScriptedChat(*[endless] * 9) as server:
        llm = make(server.url, time_limit=0.2)
        started = time.monotonic()
        with pytest.raises(LLMUnreachable, match="gave no whole answer within"):
            llm.complete(HELLO)
        assert time.monotonic() - started < 20, "the answer would take 50 s"
        started, threads = time.monotonic(), threading.active_count()
        for _ in range(20):
            with pytest.raises(LLMUnreachable, match=r"not asked for another|being tried again"):
                llm.complete(HELLO)
            time.sleep(0.06)  # together longer than the first pause
        assert time.monotonic() - started < 20
        assert threading.active_count() <= threads + 2, "late answers pile up"
        assert len(server.asked) in (2, 3), "3 where these calls outlasted the second pause"


def test_nobody_listening_is_unreachable(make: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:hidden@127.0.0.1:{free.getsockname()[1]}/v1?token=hidden"
        with pytest.raises(LLMUnreachable, match="could not be reached") as caught:
            make(url, retries=0).complete(HELLO)
    assert "hidden" not in str(caught.value)


# --- what is not tried again


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (400, "bad", "check the name"),
        (401, "bad key", "check api_key"),
        (403, "not yours", "allowed"),
        (404, "no such model", "check base_url"),
        (413, "large", "fewer or shorter"),
    ],
)
def test_a_refusal_is_passed_on_with_advice(make: Make, status: int, message: str, advice: str) -> None:
    with ScriptedChat(*[refuses(message, status=status)] * 3) as server:
        with pytest.raises(LLMRefused, match=rf"{status} \({message}\): .*{advice}") as caught:
            make(server.url).complete(HELLO, temperature=0)
        assert server.url in str(caught.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{cut", "not JSON.*begins: {cut"),
        (b"<html>Welcome</html>", "not JSON.*begins: <html>Welcome"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"", "begins: nothing"),
        ([1, 2], "no message under 'choices'"),
        ({"error": {"message": "model is loading"}}, "model is loading"),
        ({"choices": []}, "no message"),
        ({"choices": [{}]}, "no message"),
        ({"choices": [{"message": {"content": 5}}]}, "no text but int"),
        (answer(None, refusal="I can't help with that"), "declined, saying: I can't help"),
    ],
)
def test_junk_is_refused_at_once(make: Make, body: Any, says: str) -> None:
    with ScriptedChat(Reply(body=body)) as server, pytest.raises(LLMRefused, match=says):
        make(server.url).complete(HELLO)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "messages", [[], "hello", {"role": "user", "content": "x"}, [5], [{"role": "user", "content": object()}]]
)
def test_messages_that_are_none_are_named(make: Make, messages: Any) -> None:
    with ScriptedChat() as server, pytest.raises(InputError, match="messages"):
        make(server.url).complete(messages)
    assert server.asked == []


def test_impossible_options_are_refused(make: Make) -> None:
    for name in ("schema", "stop"):
        with pytest.raises(InputError, match=f"{name} cannot be written as JSON"):
            make("http://localhost").complete(
                HELLO, **{name: {"x": object()} if name == "schema" else [object()]}
            )
    with pytest.raises(InputError, match="extra_body"):
        make("http://localhost", extra_body={"x": object()})
    with pytest.raises(InputError, match="max_tokens"):
        make("http://localhost").complete(HELLO, max_tokens=0)
    for limit in (0, -1, float("inf"), float("nan")):
        with pytest.raises(SettingsError, match="time_limit"):
            make("http://localhost", time_limit=limit)
    with pytest.raises(SettingsError, match="model"):
        OpenAILLM(" ", endpoint=Endpoint(base_url="http://localhost"))


# --- keys, names, the package


@pytest.mark.parametrize(
    "reply",
    [
        refuses(f"wrong key: {KEY}", status=401),
        refuses(f"crashed on Bearer {KEY}", status=500),
        Reply(body=f"<html>{KEY}</html>".encode()),
        says(None, refusal=f"not with {KEY}"),
    ],
    ids=["401", "500", "junk", "refusal"],
)
def test_the_key_is_never_shown(make: Make, reply: Reply) -> None:
    with ScriptedChat(reply) as server:
        llm = make(server.url, retries=0)
        with pytest.raises(LLMError, match=r"\*\*\*") as caught:
            llm.complete(HELLO)
    assert KEY[:10] not in "".join(traceback.format_exception(caught.value))
    assert KEY not in f"{llm!r} {llm.name}"


def test_usable_again_after_close(make: Make) -> None:
    with ScriptedChat() as server:
        llm = make(server.url)
        llm.complete(HELLO)
        llm.close()
        llm.close()
        assert llm.complete(HELLO).text == "ok"
        assert (llm.name, repr(llm)) == ("openai:m", f"OpenAILLM('openai:m' at {server.url})")


def test_several_threads_get_their_own_answers(make: Make) -> None:
    class Echo(ScriptedChat):
        honest = staticmethod(lambda asked: answer(asked["messages"][0]["content"]))

    with Echo() as server:
        llm = make(server.url)
        got = at_once(lambda n: llm.complete([{"role": "user", "content": f"number {n}"}]).text, range(8))
    assert got == [f"number {number}" for number in range(8)]


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r'language models need .*pip install "jiyi\[openai\]"'):
        OpenAILLM("m", endpoint=Endpoint(base_url="http://localhost"))
