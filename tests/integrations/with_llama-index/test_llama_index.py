"""LlamaIndex on a memory: its own agent, chat engine and memory, a model behind a real socket."""

import asyncio
import json
import time
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from examples_run import printed_by
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms import types
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from llama_index.llms.openai_like import OpenAILike
from pydantic import ValidationError
from scripted_chat import ScriptedChat, call, calls, turn
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

from jiyi.errors import BadMessage, JiyiError
from jiyi.integrations.llama_index import JiyiMemory, JiyiMemoryBlock
from jiyi.manager import MemoryManager

# LlamaIndex's own code looks at what pydantic calls old.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CALL = types.ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"what": "北京"})
SHOWN = [
    types.TextBlock(text="蓝色门的密码是 7341 \0"),
    types.ImageBlock(image=b"not a picture", detail="low"),
    types.DocumentBlock(data=b"words " * 4_000, title="notes"),
    types.AudioBlock(audio=b"sound", format="mp3"),
]
MESSAGES = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", blocks=SHOWN),
    ChatMessage(role="assistant", blocks=[types.ThinkingBlock(content="Let me see."), CALL]),
    ChatMessage(role="tool", content="42 \ud800", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="assistant", content="It is 42."),
]


def llm(url: str) -> OpenAILike:
    can = {"is_chat_model": True, "is_function_calling_model": True}
    return OpenAILike(model="m", api_base=url, api_key="none", max_retries=0, **can)


def look(what: str) -> str:
    """Look something up."""
    return f"{what}: 42"


def run(agent: FunctionAgent, *texts: str, memory: Any) -> None:
    async def turns() -> None:
        for text in texts:
            await agent.run(user_msg=text, memory=memory)

    asyncio.run(turns())


def test_messages_come_back_equal(memory):
    mine = JiyiMemory(memory=memory, session_id="s")
    mine.put_messages(MESSAGES)
    assert mine.get_all() == MESSAGES
    assert mine.get() == MESSAGES
    asyncio.run(mine.aset(MESSAGES[:2]))
    assert asyncio.run(mine.aget_all()) == MESSAGES[:2]
    assert memory.search("蓝色门的密码")[0].text.startswith("蓝色门")
    mine.reset()
    assert mine.get_all() == mine.get() == []


def test_setting_a_conversation_keeps_what_it_begins_with(memory):
    mine = JiyiMemory.from_defaults(memory=memory, session_id="s", chat_history=MESSAGES[:3])
    ids = [message.id for message in memory.session_messages("s")]
    mine.set(MESSAGES)
    assert [message.id for message in memory.session_messages("s")][:3] == ids
    assert mine.get_all() == MESSAGES


def test_bad_messages_are_refused_whole(memory):
    mine = JiyiMemory(memory=memory, session_id="s")
    odd = ChatMessage(role="user", content="x", additional_kwargs={"what": object()})
    with pytest.raises(BadMessage):
        mine.put_messages([MESSAGES[0], odd])
    assert mine.get_all() == []
    for wrong in ({"session_id": ""}, {"budget": 0}, {"reserve": -1}, {"sesion_id": "s"}):
        with pytest.raises(ValidationError):
            JiyiMemory(**{"memory": memory, "session_id": "s"} | wrong)


def test_a_message_whose_picture_is_gone_is_given_by_its_words(memory, tmp_path):
    picture = tmp_path / "a.png"
    picture.write_bytes(b"picture")
    mine = JiyiMemory(memory=memory, session_id="s")
    mine.put(ChatMessage(role="user", blocks=[types.TextBlock(text="Look"), types.ImageBlock(path=picture)]))
    picture.unlink()
    assert [message.content for message in mine.get_all()] == ["Look"]


def test_messages_saved_by_other_means_are_messages(memory):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"what": 1}'}}
    memory.save_message("s", {"role": "assistant", "content": "I look", "tool_calls": [call]})
    memory.save_message("s", {"role": "tool", "tool_call_id": "c1", "content": "there"})
    first, second = JiyiMemory(memory=memory, session_id="s").get_all()
    assert (first.content, first.blocks[1].tool_call_id) == ("I look", "c1")
    assert (second.content, second.additional_kwargs) == ("there", {"tool_call_id": "c1"})


LARGE = [
    types.ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs={"what": "word " * 300}),
    types.ThinkingBlock(content="word " * 300),
    types.DocumentBlock(data=b"word " * 8_000),
    types.ImageBlock(image=b"picture"),
]


@pytest.mark.parametrize("large", LARGE, ids=lambda block: block.block_type)
def test_blocks_without_text_count(memory, large):
    mine = JiyiMemory(memory=memory, session_id="s", budget=300, recall_tokens=50)
    said = [ChatMessage(role="user", content="old"), ChatMessage(role="assistant", blocks=[large])]
    if large.block_type == "tool_call":
        said.append(ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c"}))
    mine.put_messages([*said, ChatMessage(role="user", content="new")])
    assert [message.content for message in mine.get()] == ["new"]


def test_calls_written_the_older_way_keep_their_results(memory):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    mine = JiyiMemory(memory=memory, session_id="s")
    mine.put(ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]}))
    assert mine.get() == [], "its result is not there yet"
    mine.put(ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c1"}))
    assert len(mine.get()) == 2


def test_an_agent_is_shown_what_another_session_said(memory):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    mine = JiyiMemory(memory=memory, session_id="now", budget=2_000, system="Be brief.", tools=[])
    question = "蓝色门的密码是什么?"
    with ScriptedChat(calls(call("look", {"what": "Rome"})), turn("It is 7341"), turn("Yes")) as server:
        agent = FunctionAgent(tools=[look], llm=llm(server.url), system_prompt="Be brief.")
        run(agent, question, memory=mine)
        shown = mine.last
        run(agent, "Sure?", memory=mine)
    recalled, said = server.asked[0]["messages"][1:]
    assert "7341" in recalled["content"]
    assert said["content"] == question
    assert server.asked[1]["messages"][:3] == server.asked[0]["messages"], "the same while a run goes on"
    assert 0 <= shown.recalled.nothing_relevant <= 1
    assert shown.recalled.why
    kinds = [message.role.value for message in mine.get_all()]
    assert kinds == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert "取自记忆" not in json.dumps([m.model_dump() for m in mine.get_all()], ensure_ascii=False)


def test_what_is_recalled_stays_until_the_conversation_goes_on(memory):
    memory.save_message("before", role="user", content="The blue door's code is 7341.")
    mine = JiyiMemory(memory=memory, session_id="now")
    mine.put(ChatMessage(role="user", content="What is the code of the blue door?"))
    first = mine.get()
    memory.save_message("before", role="user", content="The blue door's code is 9999 from today on.")
    assert mine.get() == first == mine.get(input="What is the code of the blue door?")
    mine.put_messages([ChatMessage(role="assistant", content="7341"), ChatMessage(content="And now?")])
    assert "9999" in str(mine.get(input="What is the code of the blue door today?")[-1].content)


def test_a_window_given_back_does_not_save_what_was_recalled(memory):
    memory.save_message("before", role="user", content="The blue door's code is 7341.")
    mine = JiyiMemory(memory=memory, session_id="now")
    mine.put(ChatMessage(role="user", content="What is the code of the blue door?"))
    window = mine.get()
    assert len(window) == 2
    mine.set(window)
    assert mine.get_all() == window[1:]


def test_system_tools_and_what_is_reserved_count(memory):
    def shown(**fields: Any) -> int:
        mine = JiyiMemory(memory=memory, session_id="s", budget=1_000, recall_tokens=100, **fields)
        mine.get()
        assert mine.last.tokens <= 1_000 - fields.get("reserve", 0)
        return len(mine.last.kept)

    talk = JiyiMemory(memory=memory, session_id="s")
    talk.put_messages([ChatMessage(role=role, content="word " * 30) for role in ("user", "assistant") * 20])
    agent = FunctionAgent(tools=[look] * 5, llm=llm("http://127.0.0.1:9"))
    whole = shown()
    assert shown(system="word " * 300) < whole
    assert shown(tools=agent.tools) < whole
    assert shown(reserve=400) < whole


def test_a_chat_engine_uses_it(memory):
    mine = JiyiMemory(memory=memory, session_id="s")
    with ScriptedChat(turn("Hello"), turn("Green")) as server:
        engine = SimpleChatEngine.from_defaults(llm=llm(server.url), memory=mine)
        engine.chat("Hi")
        assert engine.chat("What tea?").response == "Green"
    assert [m["content"] for m in server.asked[1]["messages"]] == ["Hi", "Hello", "What tea?"]
    engine.reset()
    assert engine.chat_history == []


def test_a_recall_that_fails_is_left_out(memory, monkeypatch):
    monkeypatch.setattr(MemoryManager, "build_context", lambda *_, **__: time.sleep(0.5))
    mine = JiyiMemory(memory=memory, session_id="s", seconds=0.01)
    mine.put(ChatMessage(role="user", content="Which door?"))
    assert [message.content for message in mine.get()] == ["Which door?"]
    assert "without memory" in mine.last.recalled.notes[0]


def test_a_conversation_that_cannot_be_kept_is_an_error(open_memory):
    memory = open_memory()
    mine = JiyiMemory(memory=memory, session_id="s")
    block = JiyiMemoryBlock(memory=memory)
    memory.close()
    with pytest.raises(JiyiError):
        mine.put(MESSAGES[0])
    assert asyncio.run(block.aget([ChatMessage(content="Hi")])) == ""


def test_a_block_recalls_and_keeps_what_leaves_the_queue(memory):
    memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    block = JiyiMemoryBlock(memory=memory)
    engine = create_async_engine("sqlite+aiosqlite:///:memory:", poolclass=StaticPool)
    theirs = Memory.from_defaults(
        session_id="now", token_limit=400, token_flush_size=100, memory_blocks=[block], async_engine=engine
    )
    with ScriptedChat(calls(call("look", {"what": "Rome"})), *[turn("word " * 60)] * 6) as server:
        agent = FunctionAgent(tools=[look], llm=llm(server.url))
        run(agent, "蓝色门的密码是什么?", memory=theirs)
        assert "7341" in json.dumps(server.asked[0]["messages"][0], ensure_ascii=False)
        first, second = (asked["messages"][0] for asked in server.asked[:2])
        assert second == first, "the same while a run goes on"
        assert block.last.why
        run(agent, *["word " * 60] * 5, memory=theirs)
        asyncio.run(engine.dispose())
    kept = memory.session_messages("now")
    assert kept[0].content == "蓝色门的密码是什么?"
    assert len({message.id for message in kept}) == len(kept) > 2


def test_a_block_is_cut_to_what_there_is_room_for(memory):
    block = JiyiMemoryBlock(memory=memory)
    text = "one two three four " * 50
    cut = asyncio.run(block.atruncate(text, 100))
    assert text.startswith(cut)
    assert memory.counter.count_text(cut) == memory.counter.count_text(text) - 100
    assert asyncio.run(block.atruncate(text, 10_000)) is None


def test_the_example_runs():
    told = printed_by("llama_index_demo.py")
    fitted, cut, forgotten = told.split("\n== ")[1:]
    assert "read_log" in fitted
    assert "read_log" not in cut
    assert "9443" in cut
    assert "改走" not in forgotten
    assert "7 messages are kept" in forgotten
