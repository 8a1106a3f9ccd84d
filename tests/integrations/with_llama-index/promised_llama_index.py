"""LlamaIndex: its function agent, and a model behind a real socket."""

import warnings

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from promises import Recall, Request, asked_in_chat, recalled
from scripted_chat import ScriptedChat, call, calls, turn

from jiyi import MemoryManager
from jiyi.integrations.llama_index import JiyiMemory

STEP = 100  # tokens of a call and its result


def look(what: str) -> str:
    """Look something up."""
    return f"looked up {what} " * 20


class Promised:
    name = "llama_index"
    keeps = frozenset({"history", "recall", "delete", "window"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        mine = JiyiMemory(memory=memory, user_id=user, session_id=session)
        await mine.aput_messages([ChatMessage(role="user", content=text) for text in texts])

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        mine = JiyiMemory(memory=memory, user_id=user, session_id=session)
        return [one.content or "" for one in await mine.aget_all() if one.role.value == "user"]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        mine = JiyiMemory(memory=memory, user_id=user, session_id=session)
        shown = [one.content or "" for one in await mine.aget(input=question)]
        return recalled(mine.last.recalled, shown)

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        await JiyiMemory(memory=memory, user_id=user, session_id=session).areset()

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        made = [FunctionTool.from_defaults(look, name=one["function"]["name"]) for one in tools]
        whose = {"memory": memory, "user_id": user, "session_id": session}
        room = {"budget": budget, "reserve": STEP, "recall_tokens": budget // 4 - STEP}
        mine = JiyiMemory(**whose, **room, system=system, tools=made)
        called = [calls(call("look", {"what": "tea"}, id=f"c{text[:12]}"))] if "use the tool" in text else []
        with ScriptedChat(*called, turn(f"done {text[:6]}")) as server, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # LlamaIndex's own code is told of
            model = OpenAILike(
                model="m", api_base=server.url, api_key="none", is_chat_model=True,
                is_function_calling_model=True, max_retries=0,
            )  # fmt: skip
            agent = FunctionAgent(tools=made, llm=model, system_prompt=system)
            try:
                await agent.run(user_msg=text, memory=mine)
            except Exception:
                if server.asked:
                    raise
                # The conversation itself is away: what can still be done is a run without it.
                await agent.run(user_msg=text)
        return [asked_in_chat(asked) for asked in server.asked]
