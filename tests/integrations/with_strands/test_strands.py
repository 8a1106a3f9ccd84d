"""Strands Agents on a memory: its own agent and memory manager, a model behind a real socket."""

import json
from typing import Any

import pytest

pytest.importorskip("strands")

from examples_run import printed_by
from scripted_chat import ScriptedChat, call, calls, turn
from strands import Agent, tool
from strands.memory import AddMessagesContext, MemoryManager
from strands.models.openai import OpenAIModel

import jiyi
from jiyi.errors import Closed, InputError, NotFound
from jiyi.integrations.strands import JiyiMemoryStore

SAID = [
    {"role": "user", "content": [{"text": "蓝色门的密码是 7341"}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "look", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "no"}]}}]},
    {"role": "assistant", "content": [{"citationsContent": {"content": [{"text": "ok"}], "citations": []}}]},
    {"role": "user", "content": [{"text": "ok"}]},
]


def agent(url: str, *stores: JiyiMemoryStore, **options: Any) -> Agent:
    client = {"base_url": url, "api_key": "none", "max_retries": 0}
    model = OpenAIModel(client_args=client, model_id="m")
    manager = MemoryManager(stores=list(stores), **options.pop("manager", {}))
    return Agent(model=model, memory_manager=manager, callback_handler=None, **options)


def numbered(*numbers: int) -> AddMessagesContext:
    return AddMessagesContext(sequence_numbers=list(numbers))


def texts(memory: jiyi.MemoryManager, session: str) -> list[str]:
    return [message.text for message in memory.session_messages(session)]


def test_an_agent_is_shown_what_another_conversation_said(memory):
    before, now = JiyiMemoryStore(memory), JiyiMemoryStore(memory, session_id="now")
    with ScriptedChat(turn("Noted"), turn("7341"), turn("Yes")) as server:
        agent(server.url, before)("蓝色门的密码是 7341")
        asking = agent(server.url, now, system_prompt="Be brief.")
        asking("蓝色门的密码是什么?")
        asking("Sure?")
    shown = json.dumps(server.asked[1]["messages"], ensure_ascii=False)
    assert "<memory>" in shown
    assert "蓝色门的密码是 7341" in shown
    assert 0 <= now.last.nothing_relevant <= 1
    assert "<memory>" not in str(asking.messages)
    assert texts(memory, "now") == ["蓝色门的密码是什么?", "7341", "Sure?", "Yes"]
    assert texts(memory, before.session_id) == ["蓝色门的密码是 7341", "Noted"]


async def test_saving_a_batch_again_changes_nothing(memory):
    store = JiyiMemoryStore(memory, session_id="s")
    await store.add_messages(SAID, numbered(*range(5)))
    await store.add_messages(SAID, numbered(*range(5)))
    await store.add_messages(SAID[-1:], numbered(5))
    await store.add_messages(SAID[-1:])
    assert texts(memory, "s") == ["蓝色门的密码是 7341", "ok", "ok", "ok", "ok"]


def test_two_agents_with_one_store_lose_nothing(memory):
    store = JiyiMemoryStore(memory, session_id="s")
    with ScriptedChat(turn("A"), turn("B")) as server:
        agent(server.url, store)("I am one")
        agent(server.url, store)("I am two")
    assert texts(memory, "s") == ["I am one", "A", "I am two", "B"]


async def test_what_is_found_says_why(memory):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    for user in ("acme", "acme-corp"):
        memory.save_message("before", role="user", content=f"{user} door", user_id=user)
    found = await JiyiMemoryStore(memory).search("蓝色门的密码", {"max_search_results": 1})
    assert len(found) == 1
    told = found[0].metadata
    assert told["why"]
    assert 0 <= told["nothing_relevant"] <= 1
    assert json.loads(json.dumps(told)) == told
    theirs = await JiyiMemoryStore(memory, user_id="acme").search("door")
    assert {entry.content for entry in theirs} == {"acme door"}


async def test_an_agents_own_conversation_is_not_searched(memory):
    store = JiyiMemoryStore(memory)
    await store.add_messages(SAID)
    assert "蓝色门的密码是 7341" not in [e.content for e in await store.search("蓝色门的密码")]
    assert (await JiyiMemoryStore(memory).search("蓝色门的密码"))[0].content


async def test_a_text_is_kept_once_with_its_metadata(memory):
    store = JiyiMemoryStore(memory)
    first = await store.add("I prefer green tea", {"source": "form"})
    assert await store.add("I prefer green tea", {"source": "form"}) == first
    assert memory.get(first).metadata == {"source": "form"}
    with pytest.raises(InputError):
        await store.add("I prefer black tea", {"source": object()})


def test_tools_of_the_manager_and_of_the_store(memory):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341", id="m1")
    store = JiyiMemoryStore(memory, session_id="now", forget_tool=True)
    with ScriptedChat(
        calls(call("add_memory", {"entries": ["I prefer green tea"]})),
        calls(call("search_memory", {"query": "蓝色门的密码"})),
        calls(call("forget_memory", {"ids": ["m1"]})),
        turn("Done"),
    ) as server:
        agent(server.url, store, manager={"add_tool_config": True, "injection": False})("Forget the code")
    names = {one["function"]["name"] for one in server.asked[0]["tools"]}
    assert names == {"add_memory", "search_memory", "forget_memory"}
    assert "m1" in json.dumps(server.asked[2]["messages"])
    assert [fact.object for fact in memory.facts() if fact.predicate == "prefers"] == ["green tea"]
    with pytest.raises(NotFound):
        memory.get("m1")
    assert agent("http://127.0.0.1:9", JiyiMemoryStore(memory)).tool_names == ["search_memory"]


def test_a_memory_that_fails_changes_nothing_and_on_a_closed_one_no_agent_is_made(open_memory):
    memory = open_memory()

    @tool
    def look(what: str) -> str:
        """Look something up."""
        return what

    with ScriptedChat(turn("Hello")) as server:
        one = agent(server.url, JiyiMemoryStore(memory), tools=[look])
        memory.close()
        assert str(one("Hi")).strip() == "Hello"
    assert server.asked[0]["messages"][-1]["content"] in ("Hi", [{"type": "text", "text": "Hi"}])
    with pytest.raises(Closed):
        agent("http://127.0.0.1:9", JiyiMemoryStore(memory))


def test_the_example_runs():
    told = printed_by("strands_demo.py")
    assert "3 messages saved" in told
    assert "7341" in told.split("forgotten:")[0]
    assert "7341" not in told.split("forgotten:")[1]
