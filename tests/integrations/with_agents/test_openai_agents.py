"""The Agents SDK on a memory: its own runner, a model behind a real socket."""

import asyncio
import json
from typing import Any

import pytest

agents = pytest.importorskip("agents")

from examples_run import printed_by  # noqa: E402
from openai import AsyncOpenAI  # noqa: E402
from scripted_responses import calls, model, says  # noqa: E402

from jiyi.errors import BadMessage  # noqa: E402
from jiyi.integrations.openai_agents import JiyiSession  # noqa: E402

ASKED = [
    {"type": "input_text", "text": "蓝色门的密码是 7341"},
    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
]
ITEMS = [
    {"role": "user", "content": ASKED},
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "b2s="},
    calls("look_up", "c1", city="北京"),
    {"type": "function_call_output", "call_id": "c1", "output": "42 \0 \ud800"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    says("ok"),
]


def test_the_example_shows_what_was_said_on_monday_until_it_is_forgotten():
    before, _, after = printed_by("openai_agents_demo.py").partition("Monday is forgotten")
    assert "comes back as it was: True" in before
    assert before.count("9443") >= 2
    assert "9443" not in after


def agent(url: str, **options: Any) -> Any:
    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    return agents.Agent(name="a", model=agents.OpenAIResponsesModel("gpt-4o", client), **options)


@agents.function_tool
def look_up(city: str) -> str:
    """Look up a city's number."""
    return f"{city}: 42"


async def test_items_come_back_as_they_were(memory):
    session = JiyiSession("s", memory)
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS
    assert await session.get_items(2) == ITEMS[-2:]
    assert await session.pop_item() == ITEMS[-1]
    await session.replace_items(ITEMS[:1])
    assert await session.get_items() == ITEMS[:1]
    with pytest.raises(BadMessage):
        await session.add_items([{"role": "user", "content": "fine"}, {"role": "user", "content": object()}])
    assert await session.get_items() == ITEMS[:1]
    assert memory.search("蓝色门的密码")[0].text.startswith("蓝色门")
    assert "raw" not in json.dumps(memory.build_context("s").messages)


async def test_messages_saved_by_other_means_are_items(memory):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    memory.save_message("s", {"role": "assistant", "content": "I look", "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "there"})
    session = JiyiSession("s", memory)
    kinds = [item.get("type", item.get("role")) for item in await session.get_items()]
    assert kinds == ["assistant", "function_call", "function_call_output"]
    assert (await session.pop_item())["output"] == "there"
    assert (await session.pop_item())["type"] == "function_call"
    assert await session.get_items() == [{"role": "assistant", "content": "I look"}]


async def test_what_another_session_said_is_shown_before_the_question(memory):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    session = JiyiSession("now", memory)
    config = session.run_config(2_000)
    with model([calls("look_up", "c1", city="Rome")], [says("It is 7341")], [says("Yes")]) as (url, asked):
        mine = agent(url, tools=[look_up], instructions="Be brief.")
        for question in ("蓝色门的密码是什么?", "Sure?"):
            await agents.Runner.run(mine, question, session=session, run_config=config)
    recalled, question = asked[0]["input"]
    assert "7341" in recalled["content"]
    assert question["content"] == "蓝色门的密码是什么?"
    assert asked[1]["input"][:2] == asked[0]["input"], "the same while a run goes on"
    shown = config.call_model_input_filter.last
    assert 0 <= shown.recalled.nothing_relevant <= 1
    stored = await session.get_items()
    kinds = [item.get("type", item.get("role")) for item in stored]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user", "message"]
    assert "取自记忆" not in json.dumps(stored, ensure_ascii=False)


async def test_a_change_is_whole_when_its_caller_is_cancelled(memory):
    session = JiyiSession("s", memory)
    adding = asyncio.create_task(session.add_items([{"role": "user", "content": f"{i}"} for i in range(50)]))
    await asyncio.sleep(0)
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert len(await session.get_items()) in (0, 50)


async def test_whose_it_is_comes_from_the_context_of_a_run(memory):
    session = JiyiSession("s", memory, user_of=lambda context: context["user"])
    bo, eve = (agents.RunContextWrapper(context={"user": user}) for user in ("acme", "acme-corp"))
    await session.add_items([{"role": "user", "content": "mine"}], wrapper=bo)
    assert await session.get_items(wrapper=eve) == []
    assert len(await session.get_items(wrapper=bo)) == 1
