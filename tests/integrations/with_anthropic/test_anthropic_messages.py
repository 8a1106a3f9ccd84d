"""The Messages API with a memory: Anthropic's own client, a model behind a real socket."""

import asyncio
import json
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")

from scripted_messages import model, says, uses  # noqa: E402

from jiyi.errors import BadMessage, Closed  # noqa: E402
from jiyi.integrations.anthropic import JiyiMessages  # noqa: E402

ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 100}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
LOOKED: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Which door?", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    {"type": "text", "text": "I look.", "citations": None},
    uses("look", "c1", what="door"),
    uses("look", "c2", what="code"),
]
TOLD = [
    {"type": "tool_result", "tool_use_id": "c1", "content": "blue"},
    {"type": "tool_result", "tool_use_id": "c2", "content": [PICTURE], "is_error": False},
    {"type": "text", "text": "Sure?", "cache_control": {"type": "ephemeral"}},
]
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": [PICTURE, {"type": "text", "text": "蓝色门的密码是 7341"}]},
    {"role": "assistant", "content": LOOKED},
    {"role": "user", "content": TOLD},
    {"role": "assistant", "content": "Yes."},
]


def test_what_is_kept_comes_back_as_it_was_and_once(memory):
    chat = JiyiMessages("s", memory)
    assert chat.save(TALK[:1], TALK[1]) == 2
    assert chat.save(TALK[:3], TALK[3]) == 4
    assert chat.save(TALK) == chat.save(TALK[:3], TALK[3]) == 0
    assert chat.history() == TALK
    assert memory.search("蓝色门的密码", kinds="message")[0].text == "蓝色门的密码是 7341"
    assert "thinking" not in json.dumps(memory.build_context("s", "code?").messages)
    odd = {"role": "user", "content": [object()], "at": object()}
    for broken in ({"role": "friend", "content": "hi"}, odd):
        with pytest.raises(BadMessage):
            chat.save([*TALK, broken, {"role": "wrong", "content": ""}])
    assert chat.history() == TALK


def test_messages_saved_by_other_means_are_messages(memory):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"what": "door"}'}}
    memory.save_message("s", {"role": "assistant", "content": "I look", "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "blue"})
    chat = JiyiMessages("s", memory)
    used, told = chat.history()
    assert used["content"] == [{"type": "text", "text": "I look"}, uses("look", "c1", what="door")]
    assert told["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "blue"}]
    assert chat.save(chat.history()) == 0


def test_what_a_forgotten_call_leaves_is_sound(memory):
    chat = JiyiMessages("s", memory)
    chat.save(TALK[:1], TALK[1])
    chat.save(TALK[:3], TALK[3])
    memory.forget(ids=next(m.id for m in memory.session_messages("s") if m.role == "tool"))
    left = {"role": "user", "content": [*TALK[0]["content"], TOLD[2]]}
    assert chat.history() == [left, TALK[3]]


def test_what_fits_passes_as_it_came(memory):
    chat = JiyiMessages("s", memory)
    request = {**ASKED, "system": [{"type": "text", "text": "Be brief."}], "messages": TALK}
    shown = chat.window(**request)
    assert shown == request
    assert all(one is other for one, other in zip(shown["messages"], TALK, strict=True))
    assert chat.last.tokens > memory.counter.count_text("Be brief.")


def test_what_another_conversation_said_is_shown_before_the_question(memory):
    JiyiMessages("before", memory).save([{"role": "user", "content": "蓝色门的密码是 7341"}])
    chat = JiyiMessages("now", memory, budget=3_000)
    messages: list[Any] = [{"role": "user", "content": "蓝色门的密码是什么?"}]
    with model([uses("look", "c1", what="door")], [says("7341")], [says("Yes")]) as (client, asked):
        answer = chat.create(client, messages=messages, **ASKED)
        result = {"type": "tool_result", "tool_use_id": answer.content[0].id, "content": "blue"}
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        answer = chat.create(client, messages=messages, **ASKED)
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "Sure?"}]
        chat.create(client.beta, messages=messages, **ASKED)
    recalled, question = asked[0]["messages"]
    assert "7341" in recalled["content"]
    assert question == messages[0]
    assert asked[1]["messages"][:2] == asked[0]["messages"], "the same while a run goes on"
    assert 0 <= chat.last.recalled.nothing_relevant <= 1
    kept = chat.history()
    assert [message["role"] for message in kept] == ["user", "assistant"] * 3
    assert kept[1]["content"][0]["name"] == "look"
    assert "取自记忆" not in json.dumps(kept, ensure_ascii=False)


def test_what_is_recalled_stands_after_results_in_their_message(memory):
    JiyiMessages("before", memory).save([{"role": "user", "content": "The north gate opens with 8812."}])
    asked = {"type": "text", "text": "What opens the north gate?"}
    last = {"role": "user", "content": [*TALK[2]["content"][:2], asked]}
    shown = JiyiMessages("now", memory).window(messages=[*TALK[:2], last])["messages"]
    assert shown[:2] == TALK[:2]
    *results, recalled, question = shown[2]["content"]
    assert (results, question) == (TALK[2]["content"][:2], asked)
    assert "8812" in recalled["text"]


def test_what_does_not_fit_leaves_with_its_calls(memory):
    def turn(number: int) -> list[dict[str, Any]]:
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "blue " * 50}
        return [
            {"role": "user", "content": f"{number}. Look again"},
            {"role": "assistant", "content": [uses("look", f"c{number}", what="door")]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": [says("Blue.")]},
        ]

    talk = [message for number in range(20) for message in turn(number)]
    chat = JiyiMessages("s", memory, budget=1_500, recall_tokens=100)
    tool = {"name": "look", "description": "Look " * 30, "input_schema": {"type": "object", "properties": {}}}
    shown = chat.window(messages=[*talk, {"role": "user", "content": "And?"}], tools=[tool])["messages"]
    assert 4 < len(shown) < 60
    assert shown == [*talk, {"role": "user", "content": "And?"}][-len(shown) :]
    assert shown[0]["content"].endswith("Look again")
    assert chat.last.tokens <= 1_500
    fewer = chat.window(messages=[*talk, {"role": "user", "content": "And?"}], system="Be brief. " * 100)
    assert len(fewer["messages"]) < len(shown)


def test_a_compaction_stays_and_what_it_stands_for_is_not_counted(memory):
    summary = {"type": "compaction", "content": "They spoke of doors."}
    talk = [
        {"role": "user", "content": "word " * 5_000},
        {"role": "assistant", "content": [summary, says("Fine.")]},
        *({"role": role, "content": "tea " * 100} for _ in range(10) for role in ("user", "assistant")),
        {"role": "user", "content": "And?"},
    ]
    chat = JiyiMessages("s", memory, budget=1_000, recall_tokens=100)
    shown = chat.window(messages=talk)["messages"]
    assert shown[0] is talk[0]
    assert shown[1]["content"][0] == summary
    assert shown[-1] is talk[-1]
    assert len(shown) < len(talk)
    assert chat.last.tokens <= 1_000


def test_a_memory_that_fails_changes_nothing(open_memory):
    memory = open_memory()
    chat = JiyiMessages("now", memory)
    memory.close()
    with model([says("Hello")], [says("Hello")]) as (client, asked):
        request = {**ASKED, "messages": [{"role": "user", "content": "Hi"}]}
        assert chat.create(client, **request).content[0].text == "Hello"
        there = anthropic.AsyncAnthropic(base_url=client.base_url, api_key="none", max_retries=0)
        assert asyncio.run(chat.acreate(there, **request)).content[0].text == "Hello"
    assert [one["messages"] for one in asked] == [request["messages"]] * 2
    with pytest.raises(Closed):
        chat.save(request["messages"])


def test_the_asynchronous_client_does_the_same(memory):
    chat = JiyiMessages("s", memory)
    with model([says("Hello")]) as (client, _):
        there = anthropic.AsyncAnthropic(base_url=client.base_url, api_key="none", max_retries=0)
        asyncio.run(chat.acreate(there, messages=[{"role": "user", "content": "Hi"}], **ASKED))
    assert chat.history() == [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": [says("Hello")]},
    ]  # fmt: skip
