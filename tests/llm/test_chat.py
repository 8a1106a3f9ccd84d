"""Turns with tools and text as it comes, from an endpoint that does everything wrong."""

import threading
import time
import traceback
from typing import Any

import pytest
from refusing import raises, refused
from scripted_chat import END, ScriptedChat, answer, call, calls, delta, refuses, says, sse, streams, turn
from scripted_endpoint import Reply
from tables import literals, read_tables

from jiyi.errors import InputError, LLMError, LLMRefused, LLMUnreachable
from jiyi.llm import ChatLLM, OpenAILLM, Turn
from jiyi.llm.answers import WithoutThoughts
from jiyi.records import ToolCall

KEY = "sk-very-secret-0123456789"
HELLO = [{"role": "user", "content": "hello"}]
SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
    },
}
LS = ToolCall(id="c1", name="shell", arguments='{"cmd": "ls"}')


def heard(llm: OpenAILLM, **options: Any) -> tuple[Turn, list[str]]:
    """Take a turn as a stream; its text must be what the pieces say."""
    pieces: list[str] = []
    found = llm.chat(HELLO, on_text=pieces.append, **options)
    assert "".join(pieces) == found.text
    return found, pieces


# --- what is sent, and what comes of a good answer


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_a_turn_has_text_calls_and_counts(make, streaming):
    reply = turn("我看看：", tool_calls=[call("shell", {"cmd": "ls"}), call("read", {"文": 1}, "c2")])
    with ScriptedChat(reply) as server:
        llm = make(server.url)
        found = heard(llm, tools=[SHELL])[0] if streaming else llm.chat(HELLO, tools=[SHELL])
    assert found == Turn(
        text="我看看：",
        tool_calls=(LS, ToolCall(id="c2", name="read", arguments='{"文": 1}')),
        input_tokens=7,
        output_tokens=3,
        model="m-2026",
        finish="stop",
    )
    assert server.asked[0]["tools"] == [SHELL]
    assert server.asked[0].get("stream", False) is streaming
    assert isinstance(llm, ChatLLM)
    sent = found.to_openai()
    assert (sent["role"], sent["content"], sent["tool_calls"][0]) == ("assistant", "我看看：", LS.to_openai())


def test_without_tools_a_message_is_plain_and_results_of_tools_go_round(make):
    with ScriptedChat() as server:
        found = make(server.url).chat(HELLO, max_tokens=9, temperature=0.3)
    assert server.asked == [{"model": "m", "messages": HELLO, "max_tokens": 9, "temperature": 0.3}]
    assert found.to_openai() == {"role": "assistant", "content": "ok"}
    assert Turn().to_openai() == {"role": "assistant", "content": None}
    with ScriptedChat(calls(call("shell", {"cmd": "ls"}))) as server:
        llm = make(server.url)
        first = llm.chat(HELLO, tools=[SHELL])
        result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "a b"}
        assert llm.chat([*HELLO, first.to_openai(), result], tools=[SHELL]).text == "ok"
    assert server.asked[1]["messages"][1]["tool_calls"] == [LS.to_openai()]


def test_the_text_comes_as_it_is_said(make):
    times: list[float] = []
    body = sse(*[delta(content=word) for word in ("one ", "two ", "three")], END, "[DONE]")
    with ScriptedChat(Reply(body=body, drip=0.002, headers={"Content-Type": "text/event-stream"})) as server:
        threads: set[int] = set()

        def note(piece: str) -> None:
            times.append(time.monotonic())
            threads.add(threading.get_ident())

        make(server.url).chat(HELLO, on_text=note)
    assert len(times) == 3
    assert times[-1] - times[0] > 0.1
    assert threads == {threading.get_ident()}, "it is told in the caller's thread"


# --- endpoints that stream badly

WHOLE = [call("shell", {"cmd": "ls"})]
BAD_STREAMS = {
    "no usage, no model": [{"choices": [{"delta": {"content": "hi"}}]}, END, "[DONE]"],
    "empty choices first": [{"choices": []}, {"id": 1}, delta(content="hi"), END, "[DONE]"],
    "no DONE": [delta(content="hi"), END],
    "no finish": [delta(content="hi"), "[DONE]"],
    "null content and role": [delta(role="assistant", content=None), delta(content="hi"), END],
    "content in parts": [delta(content=[{"type": "text", "text": "hi"}]), END],
    "JSON over two lines": [delta(content="h"), '{"choices": [{"delta":\ndata: {"content": "i"}}]}', END],
    "no blank lines": ['{"choices": []}\ndata: {"choices": [{"delta": {"content": "hi"}}]}', END],
    "comments and other fields": [delta(content="hi"), '{"choices": []}\n: comment\nevent: x\nid: 5', END],
    "whole messages for deltas": [{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}],
    "reasoning beside it": [delta(reasoning_content="hm"), delta(reasoning="hm", content="hi"), END],
    "thoughts": [*(delta(content=p) for p in ("<thi", "nk>a", "</th", "ink>", "\n\n", "h", "i")), END],
}


def piece(arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": fields.pop("name")} if "name" in fields else {})
    return delta(tool_calls=[{"function": function} | fields])


BAD_CALLS = {
    "in one piece": [delta(tool_calls=WHOLE)],
    "an object for arguments": [piece({"cmd": "ls"}, id="c1", name="shell")],
    "without an index": [piece("", id="c1", name="shell"), piece('{"cmd":'), piece(' "ls"}')],
    "the id again": [piece('{"cmd":', id="c1", index=0, name="shell"), piece(' "ls"}', id="c1", index=0)],
    "no arguments at first": [piece(None, id="c1", index=0, name="shell"), piece('{"cmd": "ls"}', index=0)],
}


UNUSUAL = {name: (events, "hi", ()) for name, events in BAD_STREAMS.items()}
UNUSUAL |= {name: ([*events, END, "[DONE]"], "", (LS,)) for name, events in BAD_CALLS.items()}


@pytest.mark.parametrize(("events", "text", "calls"), UNUSUAL.values(), ids=UNUSUAL.keys())
def test_unusual_streams_and_calls_are_understood(make, events, text, calls):
    with ScriptedChat(streams(*events)) as server:
        found, pieces = heard(make(server.url, retries=0))
    assert (found.text, found.tool_calls, "".join(pieces)) == (text, calls, text)


@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["without an index", "all with index 0"])
def test_several_calls_are_told_apart_whatever_is_counted(make, index):
    events = [piece("{}", id=f"c{n}", name="shell", **index) for n in range(3)]
    with ScriptedChat(streams(*events, END)) as server:
        found, _ = heard(make(server.url))
    assert [(c.id, c.name, c.arguments) for c in found.tool_calls] == [
        (f"c{n}", "shell", "{}") for n in range(3)
    ]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "stream"])
def test_calls_without_ids_or_names_get_some(make, streaming):
    bare = {"function": {"name": "shell", "arguments": {"cmd": "ls"}}}
    two = [bare, bare, call("", None, "x", index=2), call("shell", "{}", "x", index=3), "junk", {"id": 5}]
    reply = streams(delta(tool_calls=two), END) if streaming else says(None, tool_calls=two)
    with ScriptedChat(reply) as server:
        llm = make(server.url)
        found = heard(llm)[0] if streaming else llm.chat(HELLO)
    assert [c.arguments for c in found.tool_calls][:2] == ['{"cmd": "ls"}'] * 2
    assert found.tool_calls[2].name == "unnamed"
    ids = [c.id for c in found.tool_calls]
    assert len(set(ids)) == len(ids) >= 4
    assert all(ids)


def test_line_ends_of_unicode_cut_no_event_and_a_whole_answer_is_read_all_the_same(make):
    with ScriptedChat(streams(delta(content="a\u2028b\x85c\x0bd"), END)) as server:
        assert heard(make(server.url, retries=0))[0].text == "a\u2028b\x85c\x0bd"
    with ScriptedChat(says("<think>hm</think>all at once", tool_calls=WHOLE)) as server:
        found, pieces = heard(make(server.url))
    assert (found.text, found.tool_calls, pieces) == ("all at once", (LS,), ["all at once"])


@pytest.mark.parametrize(("pieces", "text"), literals(read_tables(__file__)["thoughts are taken off"]))
def test_thoughts_are_taken_off_as_from_a_whole_answer(make, pieces, text):
    spoken = WithoutThoughts()
    assert "".join([*map(spoken, pieces), spoken.rest()]) == text
    with ScriptedChat(Reply(body=answer("".join(pieces)))) as server:
        assert make(server.url).chat(HELLO).text == text


# --- what the endpoint does not know


def test_what_is_refused_of_tools_and_streams_is_left_out_and_remembered(make):
    refusals = [
        refuses("Unrecognized request argument supplied: stream_options"),
        refuses("gemma:2b does not support tools"),
        refuses("streaming is not supported"),
    ]
    with ScriptedChat(*refusals, says("x")) as server:
        llm = make(server.url)
        found, pieces = heard(llm, tools=[SHELL])
        assert (found.text, pieces) == ("x", ["x"])
        assert "takes no tools" in found.notes[0]
        again = llm.chat(HELLO, tools=[SHELL])
        assert (again.text, len(again.notes)) == ("ok", 1)
        assert llm.chat(HELLO).notes == ()
    assert len(server.asked) == 6
    assert all(asked == {"model": "m", "messages": HELLO, "temperature": 0} for asked in server.asked[3:])


def test_a_refused_conversation_costs_no_tools_and_what_cannot_be_sent_is_named(make):
    words = "messages with role 'tool' must follow a message with 'tool_calls'"
    with ScriptedChat(refuses(words)) as server, pytest.raises(LLMRefused, match="must follow"):
        make(server.url).chat(HELLO, tools=[SHELL])
    assert len(server.asked) == 1
    llm = make("http://localhost")
    refused(InputError, "tools cannot be written", llm.chat, HELLO, tools=[{"x": object()}])
    refused(InputError, r"chat\(\) takes a list", llm.chat, [])
    refused(InputError, "max_tokens", llm.chat, HELLO, max_tokens=0)


# --- what fails, and when it is tried again


@pytest.mark.parametrize(
    "bad",
    [
        refuses("oops", status=500),
        streams(delta(content=""), cut=True),
        streams(delta(tool_calls=WHOLE)),
        streams({"error": {"message": "overloaded", "code": 529}}),
        streams("{cut"),
    ],
    ids=["500", "dies", "no end", "an error for an event", "half an event"],
)
def test_before_the_first_word_it_is_tried_again(make, bad):
    with ScriptedChat(bad) as server:
        assert heard(make(server.url))[0].text == "ok"
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (streams(delta(content="so far"), cut=True), "broke off in the middle"),
        (streams(delta(content="so far")), "ended without an end"),
        (streams(delta(content="so far"), {"error": "overloaded"}), "overloaded"),
        (streams(delta(content="so far"), {"error": {"message": f"bad {KEY}"}}), r"bad \*\*\*"),
    ],
    ids=["dies", "no end", "error", "the key"],
)
def test_after_the_first_word_it_is_not_said_twice(make, bad, says):
    pieces: list[str] = []
    with ScriptedChat(bad, turn("again")) as server, pytest.raises(LLMUnreachable, match=says) as caught:
        make(server.url).chat(HELLO, on_text=pieces.append)
    assert (pieces, len(server.asked)) == (["so far"], 1)
    assert KEY[:10] not in "".join(traceback.format_exception(caught.value))


def test_silence_in_the_middle_ends_at_the_timeout(make):
    body = sse(delta(content="so far"), delta(content=" and on"))
    hangs = Reply(body=body, drip=0.001, headers={"Content-Length": str(len(body) + 9)}, cut=True)
    with ScriptedChat(hangs) as server, pytest.raises(LLMUnreachable, match="broke off"):
        make(server.url, timeout=0.4).chat(HELLO, on_text=lambda piece: None)


@pytest.mark.slow
def test_a_stream_that_never_ends_is_left_alone(make):
    endless = Reply(body=sse(*[delta(content="x")] * 500), drip=0.002)
    pieces: list[str] = []
    with ScriptedChat(*[endless] * 9) as server:
        llm = make(server.url, time_limit=0.5)
        for _ in range(2):  # each stops reading once nobody waits: they do not pile up
            started = time.monotonic()
            refused(LLMUnreachable, "gave no whole answer within", llm.chat, HELLO, on_text=pieces.append)
            assert time.monotonic() - started < 20
            seen = len(pieces)
            refused(LLMUnreachable, "not asked for another", llm.chat, HELLO, on_text=pieces.append)
            time.sleep(1.01)  # the pause; the next call tries it again itself: there is no other way
            assert len(pieces) == seen
    assert pieces
    assert len(server.asked) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_the_listener_raises_ends_the_call_at_once(make, error):
    pieces: list[str] = []

    def stop(piece: str) -> None:
        pieces.append(piece)
        raise error

    with ScriptedChat(Reply(body=sse(*[delta(content="x")] * 500), drip=0.002)) as server:
        started = time.monotonic()
        raises(error, make(server.url).chat, HELLO, on_text=stop)
        assert time.monotonic() - started < 20, "it would be said for a minute"
        time.sleep(0.3)
    assert pieces == ["x"]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (streams(delta(refusal="I can't "), delta(refusal="do it"), END), "declined, saying: I can't do it"),
        (streams(delta(content=5), END), "no text but int"),
        (Reply(body=b"<html>Welcome</html>"), "not JSON.*<html>Welcome"),
        (streams(), "not JSON"),
        (refuses("bad key", status=401), "check api_key"),
    ],
)
def test_junk_is_refused_at_once(make, reply, says):
    with ScriptedChat(reply) as server, pytest.raises(LLMError, match=says):
        make(server.url).chat(HELLO, on_text=lambda piece: None)
    assert len(server.asked) == 1
