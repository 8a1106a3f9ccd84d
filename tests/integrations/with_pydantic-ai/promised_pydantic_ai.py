"""pydantic-ai: its agent, and a model behind a real socket."""

from typing import Any

from promises import Recall, Request, asked_in_chat, recalled
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scripted_chat import ScriptedChat, call, calls, says

from jiyi import MemoryManager
from jiyi.errors import JiyiError
from jiyi.integrations.pydantic_ai import JiyiMemory


class Promised:
    name = "pydantic_ai"
    keeps = frozenset({"history", "recall", "delete", "window"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        own = JiyiMemory(memory, 4_000, user_id=user)
        with ScriptedChat() as chat:
            for text in texts:
                await self._run(chat, own, session, text)

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        messages = JiyiMemory(memory).history(session, user_id=user)
        requests = [message for message in messages if isinstance(message, ModelRequest)]
        return [str(p.content) for one in requests for p in one.parts if isinstance(p, UserPromptPart)]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        own = JiyiMemory(memory, 4_000, user_id=user)
        with ScriptedChat() as chat:
            await self._run(chat, own, session, question)
            sent = [m["content"] for m in chat.asked[0]["messages"] if m["role"] == "user"]
        assert own.last is not None
        return recalled(own.last.recalled, sent[:-1])

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        memory.forget(session_id=session, user_id=user)

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        made = [
            Tool.from_schema(
                lambda **what: f"looked up {what} " * 20,
                tool["function"]["name"],
                tool["function"]["description"],
                dict(tool["function"]["parameters"]),
            )
            for tool in tools
        ]
        first = [calls(call("look", {"what": "tea"}, f"c{text[:12]}"))] if "use the tool" in text else []
        own = JiyiMemory(memory, budget, user_id=user)
        try:
            history = own.history(session, user_id=user)
        except JiyiError:  # the memory is away: the run goes on without what was said before
            history = []
        with ScriptedChat(*first, says(f"done {text[:6]}")) as chat:
            await self._run(chat, own, session, text, history, tools=made, instructions=system)
            return [asked_in_chat(asked) for asked in chat.asked]

    async def _run(
        self, chat: ScriptedChat, own: Any, session: str, text: str, history: Any = (), **options: Any
    ) -> None:
        model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=chat.url, api_key="none"))
        agent = Agent(model, capabilities=[own], **options)
        await agent.run(text, conversation_id=session, message_history=list(history) or None)
