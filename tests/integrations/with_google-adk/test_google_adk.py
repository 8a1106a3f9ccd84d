"""Google ADK on a memory: its own runner and tools, a model behind a real socket."""

import json
from typing import Any

import pytest

pytest.importorskip("google.adk")

from examples_run import printed_by
from google.adk.agents import LlmAgent
from google.adk.cli.service_registry import get_service_registry
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory_tool, preload_memory_tool
from google.genai import types
from scripted_endpoint import Reply, ScriptedEndpoint

import jiyi
from jiyi.errors import DuplicateId, InputError, NaiveDatetime
from jiyi.integrations.google_adk import JiyiMemoryService, register

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of ADK's own
APP = {"app_name": "app", "user_id": "ana"}


def said(text: str, role: str = "user", **fields: Any) -> Event:
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author="user" if role == "user" else "agent", content=content, **fields)


def session(*events: Event, id: str = "s", app: str = "app", user: str = "ana") -> Session:
    return Session(id=id, app_name=app, user_id=user, events=list(events))


def answers(part: dict[str, Any]) -> Reply:
    content = {"role": "model", "parts": [part]}
    return Reply(body={"candidates": [{"content": content, "finishReason": "STOP"}]})


def texts(memory: jiyi.MemoryManager, session: str, user: str = "ana") -> list[str]:
    return [message.text for message in memory.session_messages(session, user_id=user)]


async def found(service: JiyiMemoryService, query: str, **whose: str) -> list[str]:
    response = await service.search_memory(**{**APP, **whose}, query=query)
    return [entry.content.parts[0].text for entry in response.memories]


async def test_a_runner_recalls_what_another_session_said(memory, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    service, sessions = JiyiMemoryService(memory), InMemorySessionService()

    async def keep(callback_context: Any) -> None:
        await callback_context.add_session_to_memory()

    async def talk(url: str) -> None:
        model = Gemini(model="gemini-2.5-flash", base_url=url.removesuffix("/v1"))
        tools = [preload_memory_tool.PreloadMemoryTool(), load_memory_tool.LoadMemoryTool()]
        told = {"instruction": "Be brief.", "after_agent_callback": keep}
        agent = LlmAgent(name="agent", model=model, tools=tools, **told)
        runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=service)
        for id, text in (("before", "蓝色门的密码是 7341"), ("now", "蓝色门的密码是什么?"), ("now", "Sure?")):
            if await sessions.get_session(**APP, session_id=id) is None:
                await sessions.create_session(**APP, session_id=id)
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for _ in runner.run_async(user_id="ana", session_id=id, new_message=message):
                pass
        await runner.close()

    look = {"functionCall": {"name": "load_memory", "args": {"query": "门的密码"}}}
    says = [{"text": "Noted"}, look, {"text": "7341"}, {"text": "Yes"}]
    with ScriptedEndpoint(*map(answers, says)) as server:
        await talk(server.url)
    contents = server.asked[1]["contents"]
    assert "蓝色门的密码是 7341" in contents[-2]["parts"][0]["text"]
    assert contents[-1]["parts"][0]["text"] == "蓝色门的密码是什么?"
    assert "nothing_relevant" in json.dumps(server.asked[2]["contents"])
    assert texts(memory, "before") == ["蓝色门的密码是 7341", "Noted"]
    assert texts(memory, "now") == ["蓝色门的密码是什么?", "7341", "Sure?", "Yes"]


async def test_a_session_added_again_is_saved_once(memory):
    service = JiyiMemoryService(memory)
    events = [said("Hi"), said("Hello", "model"), said("ok"), said("ok")]
    for upto in (2, 2, 4, 4):
        await service.add_session_to_memory(session(*events[:upto]))
    await service.add_events_to_memory(**APP, session_id="s", events=events[1:])
    await service.add_session_to_memory(session(*events, id="copy"))
    assert texts(memory, "s") == texts(memory, "copy") == ["Hi", "Hello", "ok", "ok"]
    assert [m.role for m in memory.session_messages("s")][:2] == ["user", "assistant"]


async def test_events_added_singly_do_not_hide_those_before_them(memory):
    service, events = JiyiMemoryService(memory), [said("one"), said("two"), said("three")]
    await service.add_events_to_memory(**APP, session_id="s", events=events[2:])
    await service.add_session_to_memory(session(*events))
    await service.add_events_to_memory(**APP, session_id="s", events=events, custom_metadata={"n": 1})
    assert sorted(texts(memory, "s")) == ["one", "three", "two"]


async def test_what_has_no_words_is_left_out(memory):
    thought = types.Part(text="hm", thought=True)
    call = types.Part(function_call=types.FunctionCall(name="look", args={}))
    events = [
        Event(author="agent", content=types.Content(role="model", parts=[thought])),
        Event(author="agent", content=types.Content(role="model", parts=[call])),
        Event(author="agent"),
        said("Hel", "model", partial=True),
    ]
    await JiyiMemoryService(memory).add_session_to_memory(session(*events))
    assert texts(memory, "s") == []


async def test_content_comes_back_equal_and_says_why(memory):
    picture = types.Part(inline_data=types.Blob(data=b"picture", mime_type="image/png"))
    content = types.Content(role="user", parts=[types.Part(text="蓝色门的密码是 7341 \0"), picture])
    service = JiyiMemoryService(memory)
    event = Event(author="user", content=content, timestamp=1_700_000_000.5)
    await service.add_session_to_memory(session(event))
    response = await service.search_memory(**APP, query="蓝色门的密码")
    best = next(one for one in response.memories if one.custom_metadata["kind"] == "message")
    assert best.content == content
    assert (best.author, best.timestamp) == ("user", "2023-11-14T22:13:20.500000+00:00")
    assert best.custom_metadata["why"]
    assert 0 <= best.custom_metadata["nothing_relevant"] <= 1
    assert (await service.search_memory(**APP, query=" ")).memories == []


async def test_users_and_apps_do_not_meet(memory):
    service = JiyiMemoryService(memory)
    for app, user in (("app", "acme"), ("app", "acme-corp"), ("app2", "acme")):
        await service.add_session_to_memory(session(said(f"{app} {user} door"), app=app, user=user))
    assert await found(service, "door", user_id="acme") == ["app acme door"]
    assert await found(service, "door", user_id="acme", app_name="app2") == ["app2 acme door"]
    await service.delete_session_memory(app_name="app", user_id="acme", session_id="s")
    assert await found(service, "door", user_id="acme") == []
    assert await found(service, "door", user_id="acme", app_name="app2") == ["app2 acme door"]


async def test_memories_are_added_and_deleted(memory):
    service = JiyiMemoryService(memory)
    entry = MemoryEntry(
        id="m1", author="Bo", timestamp="2026-01-02T03:04:05+00:00",
        content=types.Content(role="user", parts=[types.Part(text="The gate opens at nine")]),
        custom_metadata={"source": "form"},
    )  # fmt: skip
    await service.add_memory(**APP, memories=[entry, entry], custom_metadata={"by": "hand"})
    best = (await service.search_memory(**APP, query="When does the gate open?")).memories[0]
    assert (best.id, best.author, best.timestamp) == ("m1", "Bo", entry.timestamp)
    assert memory.get("m1").metadata == {"by": "hand", "source": "form"}
    other = entry.model_copy(update={"content": types.Content(parts=[types.Part(text="Other")])})
    with pytest.raises(DuplicateId):
        await service.add_memory(**APP, memories=[other])
    undated = entry.model_copy(update={"id": None, "timestamp": "2026-01-02T03:04:05"})
    with pytest.raises(NaiveDatetime):
        await service.add_memory(**APP, memories=[undated])
    await service.delete_memory(**APP, memory_id="m1")
    await service.delete_memory(**APP, memory_id="m1")
    await service.delete_memory(**APP)
    assert await found(service, "gate") == []


async def test_what_was_deleted_does_not_come_back_with_its_session(memory):
    service, events = JiyiMemoryService(memory), [said("My name is Quill"), said("ok"), said("code 7341")]
    await service.add_session_to_memory(session(*events))
    for message in memory.session_messages("s")[::2]:
        await service.delete_memory(**APP, memory_id=message.id)
    await service.add_session_to_memory(session(*events))
    assert texts(memory, "s") == ["ok"]
    await JiyiMemoryService(memory).add_session_to_memory(session(*events[:2], said("new")))
    assert texts(memory, "s") == ["ok", "new"]
    assert not [fact for fact in memory.facts() if "Quill" in fact.text]


async def test_a_service_is_opened_by_its_uri(tmp_path):
    register()
    uri = f"jiyi://{tmp_path}/my%20agent.db"
    service = get_service_registry().create_memory_service(uri, agents_dir="agents")
    await service.add_session_to_memory(session(said("Hi")))
    await service.close()
    with jiyi.open(tmp_path / "my agent.db") as memory:
        assert texts(memory, "s") == ["Hi"]
    for wrong in ({"uri": "jiyi://"}, {"uri": "sqlite:///a.db"}, {}):
        with pytest.raises(InputError):
            JiyiMemoryService(**wrong)


def test_the_example_runs():
    told = printed_by("google_adk_demo.py")
    assert "3 messages from 3 events" in told
    assert told.count("花生") == 1
    assert "facts left: 0" in told
