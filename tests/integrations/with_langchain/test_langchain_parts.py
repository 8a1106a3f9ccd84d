"""What else stands around LangChain's agents: other providers' parts, deepagents, retrievers."""

from typing import Any

import pytest

pytest.importorskip("langchain.agents")
pytest.importorskip("deepagents")

from deepagents import create_deep_agent
from examples_run import printed_by
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import RetrieversIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver
from scripted_chat import ScriptedChat, call, calls, says
from scripted_endpoint import ScriptedEndpoint

from jiyi.errors import BadQuery
from jiyi.integrations.langchain import JiyiMemoryMiddleware, JiyiRetriever

THREAD = {"configurable": {"thread_id": "now"}}


class ScriptedClaude(ScriptedEndpoint):
    """A /messages endpoint that says "ok"."""

    honest = staticmethod(
        lambda asked: {
            "id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"],
            "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )  # fmt: skip


@tool
def look(what: str) -> str:
    """Look something up."""
    return "42"


CACHED = {"cache_control": {"type": "ephemeral"}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
LOOKED: list[Any] = [
    {"type": "thinking", "thinking": "I look. " * 20, "signature": "c2ln"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "id": "c1", "name": "look", "input": {"what": "it"}, **CACHED},
]
PICTURE = {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}
TALK: list[Any] = [
    HumanMessage([{"type": "text", "text": "What is in it?", **CACHED}], id="1"),
    AIMessage(LOOKED, tool_calls=[{"name": "look", "args": {"what": "it"}, "id": "c1"}], id="2"),
    ToolMessage([{"type": "text", "text": "42"}], tool_call_id="c1", id="3"),
    HumanMessage([{"type": "image", "source": PICTURE}, {"type": "text", "text": "And this?"}], id="4"),
]


def test_thoughts_pictures_and_cache_marks_reach_the_model_as_they_are(memory):
    sent = []
    for middleware in ([], [JiyiMemoryMiddleware(memory, 6_000)]):
        with ScriptedClaude() as claude:
            model = ChatAnthropic(model="claude-test", base_url=claude.url[:-3], api_key="none")
            system = SystemMessage([{"type": "text", "text": "Be brief.", **CACHED}])
            agent = create_agent(model, [look, SEARCH], system_prompt=system, middleware=middleware)
            agent.invoke({"messages": TALK}, THREAD)
            sent += claude.asked
    plain, with_memory = sent
    assert with_memory == plain
    shown = middleware[0].last
    assert shown is not None
    assert 1_500 < shown.tokens < 2_500, "a picture counts as one, not as its characters"


def test_deepagents_take_it_in_place_of_their_own_summaries(memory):
    memory.save_message("before", role="user", content="The door code is 7341")
    middleware = JiyiMemoryMiddleware(memory, 20_000, name="SummarizationMiddleware")
    task = call("task", {"description": "Say PIN 11", "subagent_type": "helper"})
    with ScriptedChat(calls(task), says("PIN 11"), says("done")) as chat:
        model = ChatOpenAI(model="gpt-4o", base_url=chat.url, api_key="none", max_retries=0)
        helper = {"name": "helper", "description": "helps", "system_prompt": "Help.", "tools": []}
        helper, own = {**helper, "middleware": [middleware]}, {"middleware": [middleware]}
        agent = create_deep_agent(model, **own, subagents=[helper], checkpointer=InMemorySaver())
        assert [node for node in agent.nodes if "Summarization" in node] == []
        state = agent.invoke({"messages": [HumanMessage("What is the door code?")]}, THREAD)
    assert "7341" in str(chat.asked[0]["messages"])
    assert middleware.history("now") == state["messages"]
    assert [m.text for m in middleware.history("now|graph:tools")] == ["Say PIN 11", "PIN 11"]


@pytest.mark.anyio
class TestRetriever(RetrieversIntegrationTests):
    """LangChain's own suite."""

    @pytest.fixture(autouse=True)
    def _memory(self, memory):
        for i in range(6):
            memory.save_message("s", role="user", content=f"The door code of house {i} is 734{i}")
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[JiyiRetriever]:
        return JiyiRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "the door code"

    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"


def test_a_document_says_where_it_comes_from_and_why(memory):
    stored = memory.save_message("before", role="user", content="蓝色门的密码是 7341")
    memory.save_message("before", role="user", content="theirs", user_id="eve")
    found = JiyiRetriever(memory=memory, kinds=["message"]).invoke("蓝色门的密码是什么?")
    assert [document.page_content for document in found] == ["蓝色门的密码是 7341"]
    told = found[0].metadata
    assert found[0].id == stored.id
    assert told["session_id"] == "before"
    assert told["created_at"] == stored.created_at.isoformat()
    assert told["why"]
    assert 0 <= told["nothing_relevant"] < 0.5
    assert JiyiRetriever(memory=memory, user_id="bo").invoke("蓝色门的密码是什么?") == []
    with pytest.raises(BadQuery):
        JiyiRetriever(memory=memory).invoke(" ")


def test_the_example_says_on_tuesday_what_it_was_told_on_monday():
    assert "7341" in printed_by("langchain_demo.py").partition("tuesday")[2]
