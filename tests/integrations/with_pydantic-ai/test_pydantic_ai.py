"""pydantic-ai's agents with a memory: the real agent, a model behind a real socket."""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from examples_run import printed_by
from pydantic_ai import Agent
from pydantic_ai import messages as parts
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scripted_chat import ScriptedChat, assert_recalled_before, call, calls, refuses, says

from jiyi.integrations.pydantic_ai import JiyiMemory


@dataclass
class Deps:
    user_id: str


def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


def agent(chat: ScriptedChat, *capabilities: Any, **options: Any) -> Any:
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=chat.url, api_key="none"))
    options = {"instructions": "Be brief.", "tools": [look]} | options
    return Agent(model, capabilities=capabilities, **options)


def as_stored(messages: Any) -> Any:
    """What pydantic-ai itself makes of messages that it wrote as JSON."""
    return parts.ModelMessagesTypeAdapter.validate_json(
        parts.ModelMessagesTypeAdapter.dump_json(list(messages))
    )


@pytest.mark.parametrize("how", ["run", "stream"])
async def test_what_another_conversation_said_is_shown_before_the_question(memory, how):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    mine = JiyiMemory(memory, 2_000)

    async def ask(text: str, history: Any) -> Any:
        if how == "run":
            return await asker.run(text, conversation_id="now", message_history=history)
        async with asker.run_stream(text, conversation_id="now", message_history=history) as result:
            await result.get_output()
            return result

    look_first = calls(call("look", {"what": "Rome"}))
    with ScriptedChat(look_first, calls(text="It is 7341"), calls(text="Yes")) as chat:
        asker = agent(chat, mine)
        result = await ask("蓝色门的密码是什么?", None)
        assert mine.last is not None
        assert 0 <= mine.last.recalled.nothing_relevant <= 1
        assert mine.last.recalled.why
        result = await ask("Sure?", mine.history("now"))
    assert_recalled_before(chat.asked, "蓝色门的密码是什么?", "7341")
    assert "取自记忆" not in str(result.all_messages())
    assert mine.history("now") == as_stored(result.all_messages())


PICTURE = parts.BinaryContent(b"a" * 40_000, media_type="image/png")
ASKED = ["蓝色门", parts.CachePoint(), PICTURE]
CALLS = [parts.ToolCallPart("look", {"what": "蓝"}, "c1"), parts.ToolCallPart("look", '{"what": "绿"}', "c2")]
TOLD = [parts.ToolReturnPart("look", {"n": 42}, "c1"), parts.ToolReturnPart("look", "42", "c2")]
TALK: list[Any] = [
    parts.ModelRequest([parts.SystemPromptPart("Be kind."), parts.UserPromptPart(ASKED)]),
    parts.ModelResponse([parts.ThinkingPart("hm", signature="c2ln"), parts.TextPart("So"), *CALLS]),
    parts.ModelRequest([*TOLD, parts.UserPromptPart("Well?")]),
    parts.ModelResponse([parts.TextPart("It is 42.")]),
]


def test_messages_come_back_as_they_were(memory):
    with ScriptedChat() as chat:
        for _ in range(2):
            mine = JiyiMemory(memory, 4_000)
            result = agent(chat, mine).run_sync("Go on", conversation_id="now", message_history=TALK)
    first, second = mine.history("now"), as_stored(result.all_messages())
    assert first[:4] == second[:4] == as_stored(TALK)
    assert [m.kind for m in first] == [m.kind for m in TALK] + ["request", "response"] * 2
    assert "蓝色门" in [hit.text for hit in memory.search("蓝色门")]
    assert mine.last is not None
    assert mine.last.tokens < 3_000, "a picture counts as one, not as its bytes"


def test_messages_reach_the_model_as_they_are(memory):
    sent = []
    for capabilities in ([], [JiyiMemory(memory, 6_000)]):
        with ScriptedChat() as chat:
            agent(chat, *capabilities).run_sync("Go on", message_history=TALK)
            sent += chat.bodies
    assert json.loads(sent[0]) == json.loads(sent[1])


def test_a_model_can_remember_recall_and_forget(memory):
    mine = JiyiMemory(memory, 4_000, tools=True)
    with ScriptedChat(calls(call("remember", {"text": "Ana's locker is 73."})), says("kept")) as chat:
        agent(chat, mine).run_sync("Keep it", conversation_id="one")
    assert any("73" in fact.text for fact in memory.facts())
    with ScriptedChat(calls(call("recall", {"query": "locker"})), says("73")) as chat:
        agent(chat, mine).run_sync("Which?", conversation_id="two")
        found = chat.asked[1]["messages"][-1]["content"]
    assert "73" in found
    ids = re.findall(r"^\[(.+?)\]", found, re.MULTILINE)
    both = call("forget", {"ids": ids}), call("forget", {"ids": ["none"]}, "c2")
    with ScriptedChat(calls(*both), says("gone")) as chat:
        agent(chat, mine).run_sync("Forget it", conversation_id="three")
        told = [m["content"] for m in chat.asked[1]["messages"] if m["role"] == "tool"]
    assert told[0].startswith("Forgotten: ")
    assert not any("73" in fact.text for fact in memory.facts())


def test_a_memory_or_a_model_that_fails_changes_nothing(open_memory):
    memory = open_memory()
    mine = JiyiMemory(memory, 2_000, tools=True)
    with ScriptedChat(says("Hello"), refuses("too much")) as chat:
        agent(chat, mine).run_sync("Hi", conversation_id="now")
        before = mine.history("now")
        with pytest.raises(Exception, match="too much"):
            agent(chat, mine).run_sync("And now?", conversation_id="now", message_history=before)
    assert mine.history("now")[:2] == before
    assert [m.kind for m in mine.history("now")] == ["request", "response", "request"]
    memory.close()
    with ScriptedChat(calls(call("recall", {"query": "x"})), says("Hello")) as chat:
        result = agent(chat, mine).run_sync("Hi")
    assert [m["content"] for m in chat.asked[0]["messages"]] == ["Be brief.", "Hi"]
    assert chat.asked[1]["messages"][-1]["content"].startswith("Error")
    assert result.output == "Hello"


def test_whose_it_is_comes_from_the_deps_of_a_run(memory):
    mine = JiyiMemory(memory, 2_000)
    with ScriptedChat() as chat:
        asker = agent(chat, mine, deps_type=Deps)
        asker.run_sync("The door code is 7341", conversation_id="now", deps=Deps("acme"))
        for user in ("acme-corp", "acme"):
            asker.run_sync("What is the door code?", conversation_id="then", deps=Deps(user))
    assert mine.history("now") == []
    assert len(mine.history("now", user_id="acme")) == 2
    assert "7341" not in str(chat.asked[1])
    assert "7341" in str(chat.asked[2])


def test_the_example_says_on_tuesday_what_it_was_told_on_monday():
    assert "7341" in printed_by("pydantic_ai_demo.py").partition("tuesday")[2]
