"""LangChain: `create_agent`, and a model behind a real socket."""

from typing import Any
from weakref import WeakKeyDictionary

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from promises import Recall, Request, asked_in_chat, recalled
from scripted_chat import ScriptedChat, call, calls, says

from jiyi import MemoryManager
from jiyi.integrations.langchain import JiyiMemoryMiddleware


class Promised:
    name = "langchain"
    keeps = frozenset({"history", "recall", "delete", "window"})

    def __init__(self) -> None:
        self._states: WeakKeyDictionary[MemoryManager, InMemorySaver] = WeakKeyDictionary()

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        with ScriptedChat() as chat:
            await self._run(chat, JiyiMemoryMiddleware(memory, 4_000, user_id=user), session, texts)

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        messages = JiyiMemoryMiddleware(memory).history(session, user_id=user)
        return [message.text for message in messages if isinstance(message, HumanMessage)]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        middleware = JiyiMemoryMiddleware(memory, 4_000, user_id=user)
        with ScriptedChat() as chat:
            await self._run(chat, middleware, session, [question])
            sent = [m["content"] for m in chat.asked[0]["messages"] if m["role"] == "user"]
        assert middleware.last is not None
        return recalled(middleware.last.recalled, sent[:-1])

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        JiyiMemoryMiddleware(memory).forget_thread(session, user_id=user)

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        made = [
            StructuredTool.from_function(
                lambda **what: f"looked up {what} " * 20,
                name=tool["function"]["name"],
                description=tool["function"]["description"],
                args_schema=dict(tool["function"]["parameters"]),
            )
            for tool in tools
        ]
        first = [calls(call("look", {"what": "tea"}, f"c{text[:12]}"))] if "use the tool" in text else []
        saver = self._states.setdefault(memory, InMemorySaver())
        middleware = JiyiMemoryMiddleware(memory, budget, user_id=user)
        with ScriptedChat(*first, says(f"done {text[:6]}")) as chat:
            options = {"tools": made, "system_prompt": system, "checkpointer": saver}
            await self._run(chat, middleware, session, [text], **options)
            return [asked_in_chat(asked) for asked in chat.asked]

    async def _run(
        self, chat: ScriptedChat, middleware: Any, session: str, texts: list[str], **options: Any
    ) -> None:
        model = ChatOpenAI(model="gpt-4o", base_url=chat.url, api_key="none", max_retries=0)
        agent = create_agent(model, middleware=[middleware], **options)
        thread = {"configurable": {"thread_id": session}}
        await agent.ainvoke({"messages": [HumanMessage(text) for text in texts]}, thread)
