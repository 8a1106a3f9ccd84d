"""What sits on LangGraph's stores works on ours, its own store reads our export, and the examples run."""

import json
import warnings
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base")

from deepagents import create_deep_agent
from deepagents.backends import StoreBackend
from examples_run import printed_by
from langchain.agents import create_agent
from langchain.tools import ToolRuntime, tool
from langchain_openai import ChatOpenAI
from langgraph.store.sqlite import SqliteStore
from scripted_responses import calls, model, says

from jiyi.exporters import export_for
from jiyi.integrations.langgraph import JiyiStore


def chat(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o", base_url=url, api_key="none", use_responses_api=True, max_retries=0)


@pytest.fixture
def store(memory):
    return JiyiStore(memory)


@tool
def look_up(key: str, runtime: ToolRuntime) -> str:
    """Look a value up."""
    item = runtime.store.get(("settings",), key)
    return json.dumps(item.value, ensure_ascii=False)


def test_an_agents_tool_reads_the_store(store):
    store.put(("settings",), "door", {"code": "7341"})
    with model([calls("look_up", "c1", key="door")], [says("It is 7341.")]) as (url, asked):
        agent = create_agent(chat(url), [look_up], store=store)
        answer = agent.invoke({"messages": [{"role": "user", "content": "The code?"}]})
    assert answer["messages"][-1].text == "It is 7341."
    assert "7341" in json.dumps(asked[1]["input"])


def test_deepagents_keep_their_files_in_it(memory, store):
    files = StoreBackend(store=store, namespace=lambda _: ("files", "ana"))
    others = StoreBackend(store=store, namespace=lambda _: ("files", "ana-b"))
    assert files.write("/notes/door.md", "蓝色门的密码是 7341\nsecond line\n").error is None
    assert others.write("/notes/door.md", "another").error is None
    assert files.write("/todo.md", "buy tea").error is None
    assert files.edit("/notes/door.md", "7341", "8341").occurrences == 1
    assert "8341" in files.read("/notes/door.md").file_data["content"]
    assert [one["path"] for one in files.ls("/").entries] == ["/notes/", "/todo.md"]
    assert [one["path"] for one in files.glob("**/*.md").matches] == ["/notes/door.md", "/todo.md"]
    assert [(one["path"], one["line"]) for one in files.grep("second").matches] == [("/notes/door.md", 2)]
    assert "8341" in memory.search("蓝色门的密码")[0].record.value["content"]
    assert files.delete("/notes").error is None
    assert files.read("/notes/door.md").error is not None
    assert others.read("/notes/door.md").file_data["content"] == "another"


def test_a_deep_agent_writes_a_file_and_reads_it_in_another_run(store):
    backend = StoreBackend(store=store, namespace=lambda _: ("files",))
    written = calls("write_file", "c1", file_path="/memories/tea.md", content="绿茶")
    read = calls("read_file", "c2", file_path="/memories/tea.md")
    with model([written], [says("noted")], [read], [says("green tea")]) as (url, asked):
        agent = create_deep_agent(chat(url), backend=backend)
        for question in ("I drink green tea", "What do I drink?"):
            agent.invoke({"messages": [{"role": "user", "content": question}]})
    assert "绿茶" in json.dumps(asked[3]["input"][-1], ensure_ascii=False)


def test_langmem_manages_and_searches_memories_in_it(memory, store):
    with warnings.catch_warnings(action="ignore"):  # it imports what LangGraph has moved
        import langmem
    namespace = ("memories", "{langgraph_user_id}")
    manage = langmem.create_manage_memory_tool(namespace, store=store)
    search = langmem.create_search_memory_tool(namespace, store=store)

    def asked(tool: Any, user: str, **arguments: Any) -> str:
        return tool.invoke(arguments, config={"configurable": {"langgraph_user_id": user}})

    made = asked(manage, "ana", content="蓝色门的密码是 7341")
    asked(manage, "ana-b", content="蓝色门的密码是 9999")
    found = json.loads(asked(search, "ana", query="蓝色门的密码"))
    assert [one["value"]["content"] for one in found] == ["蓝色门的密码是 7341"]
    asked(manage, "ana", content="蓝色门的密码是 8341", action="update", id=made.split()[-1])
    memory.flush()
    found = json.loads(asked(search, "ana", query="蓝色门的密码"))
    assert [one["value"]["content"] for one in found] == ["蓝色门的密码是 8341"]
    asked(manage, "ana", action="delete", id=made.split()[-1])
    assert json.loads(asked(search, "ana", query="蓝色门的密码")) == []


def test_their_store_reads_writes_and_sweeps_the_file(memory, tmp_path):
    memory.remember("我搬到了杭州。")
    memory.put_item(("users", "ana"), "settings", {"theme": "dark"})
    memory.put_item(("users", "ana"), "brief", {"n": 1}, ttl=3_600)
    export_for("langgraph", memory, tmp_path / "store.db")
    with SqliteStore.from_conn_string(str(tmp_path / "store.db")) as store:
        store.setup()
        settings = store.get(("users", "ana"), "settings")
        assert settings is not None
        assert settings.value == {"theme": "dark"}
        assert any("杭州" in item.value["content"] for item in store.search(("memories",)))
        assert store.get(("users", "ana"), "brief") is not None
        assert store.sweep_ttl() == 0
        store.put(("users", "ana"), "settings", {"theme": "light"})
        again = store.get(("users", "ana"), "settings")
        assert again is not None
        assert again.value == {"theme": "light"}


def test_the_saver_s_goes_on_where_it_stopped_and_goes_when_it_is_told_to():
    assert printed_by("langgraph_saver_demo.py").splitlines() == [
        "asked: app-01 hangs. Restart it? 可以重启吗？",
        "yes: restarted",
        "before that: ['app-01 hangs.']",
        "checkpoints: 3",
        "after pruning: 1",
        "after deleting: 0",
    ]


def test_the_store_s_answers_from_the_notes_of_who_asks():
    told = printed_by("langgraph_store_demo.py").splitlines()
    assert "ana: What is the code of the blue door? -> The blue door's code is 7341." in told
    assert "ana: 打印机在几楼？ -> 打印机在三楼，常卡纸。" in told
    assert "ana-b: What is the code of the blue door? -> The blue door's code is 9999." in told
    assert "bo: 打印机在几楼？ -> nothing noted" in told
    assert told[-2:] == ["forgotten: 2", 'left: ["The blue door\'s code is 9999."]']
