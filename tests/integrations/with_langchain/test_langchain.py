"""LangChain's agents with a memory: the real agent, a model behind a real socket."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langchain.agents")

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from scripted_chat import ScriptedChat, assert_recalled_before, call, calls, refuses, says

from jiyi.integrations.langchain import JiyiMemoryMiddleware

THREAD = {"configurable": {"thread_id": "now"}}


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


@dataclass
class Context:
    user_id: str


def agent(chat: ScriptedChat, *middleware: Any, **options: Any) -> Any:
    model = ChatOpenAI(model="gpt-4o", base_url=chat.url, api_key="none", max_retries=0)
    options = {"tools": [look], "system_prompt": "Be brief.", "checkpointer": InMemorySaver()} | options
    return create_agent(model, middleware=middleware, **options)


def asks(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


@pytest.mark.parametrize("how", ["sync", "async"])
def test_what_another_thread_said_is_shown_before_the_question(memory, how):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    middleware = JiyiMemoryMiddleware(memory, 2_000)
    with ScriptedChat(calls(call("look", {"what": "Rome"})), says("It is 7341"), says("Yes")) as chat:
        mine = agent(chat, middleware)
        for text in ("蓝色门的密码是什么?", "Sure?"):
            if how == "sync":
                state = mine.invoke(asks(text), THREAD)
            else:
                state = asyncio.run(mine.ainvoke(asks(text), THREAD))
            if text != "Sure?":
                assert middleware.last is not None
                assert 0 <= middleware.last.recalled.nothing_relevant <= 1
                assert middleware.last.recalled.why
    assert_recalled_before(chat.asked, "蓝色门的密码是什么?", "7341")
    assert "取自记忆" not in str(state["messages"])
    assert middleware.history("now") == state["messages"]


SHOWN: list[Any] = [
    {"type": "text", "text": "蓝色门", "cache_control": {"type": "ephemeral"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
]
THOUGHT: list[Any] = [
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "text", "text": "So", "citations": [{"type": "char_location", "cited_text": "x"}]},
    {"type": "tool_use", "id": "c1", "name": "look", "input": {"what": "蓝"}},
]
USED: dict[str, Any] = {
    "tool_calls": [{"name": "look", "args": {"what": "蓝"}, "id": "c1"}],
    "usage_metadata": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
}
MESSAGES: list[Any] = [
    SystemMessage("Be kind.", id="1"),
    HumanMessage(SHOWN, id="2", name="Ana"),
    AIMessage(THOUGHT, id="3", response_metadata={"model": "m"}, **USED),
    ToolMessage("42 \0", tool_call_id="c1", id="4", status="error", artifact={"rows": [1]}),
    AIMessage("", id="5", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c2", "error": "e"}]),
]


def test_messages_come_back_as_they_were(memory):
    middleware = JiyiMemoryMiddleware(memory, 4_000)
    with ScriptedChat() as chat:
        mine = agent(chat, middleware)
        mine.update_state(THREAD, {"messages": MESSAGES})
        for _ in range(2):  # after the first, LangChain puts a result between for the malformed call
            state = mine.invoke(asks("Go on"), THREAD)
    assert state["messages"][: len(MESSAGES)] == MESSAGES
    assert [m.type for m in state["messages"][len(MESSAGES) :]] == ["tool", "human", "ai", "human", "ai"]
    assert middleware.history("now") == state["messages"]
    assert memory.search("蓝色门")[0].text == "蓝色门"
    assert "raw" not in json.dumps(memory.build_context("now").messages)


def test_a_message_that_was_changed_takes_the_place_of_the_one_before(memory):
    middleware = JiyiMemoryMiddleware(memory, 2_000)
    with ScriptedChat() as chat:
        mine = agent(chat, middleware)
        mine.invoke({"messages": [HumanMessage("My aunt lives in Lisbon", id="h")]}, THREAD)
        mine.invoke(asks("Thanks"), THREAD)
        mine.update_state(THREAD, {"messages": [HumanMessage("My aunt lives in Porto", id="h")]})
        for again in (middleware, JiyiMemoryMiddleware(memory, 2_000)):
            state = agent(chat, again, checkpointer=mine.checkpointer).invoke(asks("Go on"), THREAD)
            assert again.history("now") == state["messages"]
    assert not [hit for hit in memory.search("Lisbon") if "Lisbon" in hit.text]


def test_tools_and_the_system_prompt_and_the_output_count(memory):
    """SummarizationMiddleware counts messages only, and lets requests grow over the model's window."""

    @tool(description="Find what is far away. " * 100)
    def find(what: str) -> str:
        return what

    answer = {"title": "Answer", "type": "object", "description": "What it is. " * 100, "properties": {}}
    sizes = []
    long = "Be brief. " * 250
    for options in ({}, {"tools": [find]}, {"system_prompt": long}, {"response_format": answer}):
        middleware = JiyiMemoryMiddleware(memory, 2_000)
        with ScriptedChat(*[says("{}")] * 9) as chat:
            mine = agent(chat, middleware, **options)
            mine.update_state(THREAD, {"messages": [HumanMessage("word " * 100) for _ in range(12)]})
            mine.invoke(asks("And now?"), THREAD)
        assert middleware.last is not None
        assert middleware.last.tokens <= 2_000
        sizes.append(len(chat.asked[0]["messages"]))
    assert max(sizes[1:]) < sizes[0]


def test_a_provider_that_fails_leaves_the_history(memory):
    """SummarizationMiddleware puts the error's text in place of the history."""
    middleware = JiyiMemoryMiddleware(memory, 1_000)
    with ScriptedChat(*[says("ok")] * 6, refuses("too much"), says("back")) as chat:
        mine = agent(chat, middleware)
        for i in range(6):
            mine.invoke(asks(f"{i} " + "word " * 200), THREAD)
        with pytest.raises(Exception, match="too much"):
            mine.invoke(asks("Are you there?"), THREAD)
        before = mine.get_state(THREAD).values["messages"]
        state = mine.invoke(asks("And now?"), THREAD)
    assert len(before) == 13
    assert state["messages"][:13] == before
    assert middleware.history("now") == state["messages"]


def test_what_the_state_lost_is_still_there(memory):
    middleware = JiyiMemoryMiddleware(memory, 1_000)
    with ScriptedChat() as chat:
        mine = agent(chat, middleware)
        state = mine.invoke(asks("The door code is 7341"), THREAD)
        mine.update_state(THREAD, {"messages": [RemoveMessage(id=m.id) for m in state["messages"]]})
        mine.invoke(asks("What is the door code?"), THREAD)
    assert "7341" in chat.asked[-1]["messages"][1]["content"]
    assert middleware.history("now")[:2] == state["messages"]


def test_whose_it_is_comes_from_the_context_of_a_run(memory):
    middleware = JiyiMemoryMiddleware(memory, 2_000)
    with ScriptedChat() as chat:
        mine = agent(chat, middleware, context_schema=Context)
        mine.invoke(asks("The door code is 7341"), THREAD, context=Context("acme"))
        other = {"configurable": {"thread_id": "then"}}
        for user in ("acme-corp", "acme"):
            mine.invoke(asks("What is the door code?"), other, context=Context(user))
    assert middleware.history("now") == []
    assert len(middleware.history("now", user_id="acme")) == 2
    assert "7341" not in str(chat.asked[1])
    assert "7341" in str(chat.asked[2])


def test_a_model_can_remember_recall_and_forget(memory):
    middleware = JiyiMemoryMiddleware(memory, 4_000, tools=True)
    told = []

    def turn(thread: str, *made: Any) -> str:
        with ScriptedChat(calls(*made), says("done")) as chat:
            mine = agent(chat, middleware, context_schema=Context)
            mine.invoke(asks(thread), {"configurable": {"thread_id": thread}}, context=Context("bo"))
            told.extend(m["content"] for m in chat.asked[-1]["messages"] if m["role"] == "tool")
        return str(told[-1])

    turn("one", call("remember", {"text": "Ana's locker is 73."}))
    found = turn("two", call("recall", {"query": "locker"}))
    assert "73" in found
    assert memory.facts() == []
    ids = re.findall(r"^\[(.+?)\]", found, re.MULTILINE)
    assert turn("three", call("forget", {"ids": ids})).startswith("Forgotten: ")
    assert turn("four", call("forget", {"ids": ids})).startswith(("Error", "Forgotten: 0"))
    assert not any("73" in fact.text for fact in memory.facts(user_id="bo"))


def test_without_a_thread_nothing_is_saved(memory):
    memory.save_message("before", role="user", content="The door code is 7341")
    with ScriptedChat() as chat:
        mine = agent(chat, JiyiMemoryMiddleware(memory, 2_000), checkpointer=None)
        mine.invoke(asks("What is the door code?"))
    assert "7341" in chat.asked[0]["messages"][1]["content"]
    assert [one.id for one in memory.sessions()] == ["before"]


def test_an_answer_without_an_id_is_saved_with_the_next_request(memory):
    from langchain.agents.middleware import wrap_model_call

    @wrap_model_call
    def canned(request: Any, handler: Any) -> AIMessage:
        return AIMessage("No.")

    middleware = JiyiMemoryMiddleware(memory, 2_000)
    with ScriptedChat() as chat:
        mine = agent(chat, middleware, canned)
        for _ in range(2):
            state = mine.invoke(asks("May I?"), THREAD)
    assert middleware.history("now") == state["messages"][:3]


def test_deleting_a_thread_takes_its_subagents_along(memory):
    middleware = JiyiMemoryMiddleware(memory, 2_000)
    delegating = calls(call("delegate", {"task": "Find the PIN 7341"}))
    with ScriptedChat(delegating, says("found"), says("done")) as chat:
        inner = agent(chat, middleware, tools=[], checkpointer=None)

        @tool
        def delegate(task: str) -> str:
            """Let another agent do it."""
            return str(inner.invoke(asks(task))["messages"][-1].content)

        mine = agent(chat, middleware, tools=[delegate])
        mine.invoke(asks("My PIN is 7341"), THREAD)
    memory.save_message("now and then", role="user", content="Tea")
    assert {one.id for one in memory.sessions()} == {"now", "now|graph:tools", "now and then"}
    assert middleware.forget_thread("now") >= 6
    assert [one.id for one in memory.sessions()] == ["now and then"]
    assert not [hit for hit in memory.search("PIN") if "7341" in hit.text]
