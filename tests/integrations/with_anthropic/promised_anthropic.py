"""Anthropic's client: the Messages API, and a model behind a real socket."""

from collections.abc import Mapping
from typing import Any

from promises import Recall, Request, functions, recalled
from scripted_messages import model, says, uses

from jiyi import MemoryManager
from jiyi.errors import Closed
from jiyi.importers.entries import split_turn
from jiyi.integrations.anthropic import JiyiMessages


class Promised:
    name = "anthropic"
    keeps = frozenset({"history", "recall", "delete", "window"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        chat = JiyiMessages(session, memory, user_id=user)
        for text in texts:
            chat.save([*chat.history(), {"role": "user", "content": text}])

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        chat = JiyiMessages(session, memory, user_id=user)
        return [message["content"] for message in chat.history() if message["role"] == "user"]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        chat = JiyiMessages(session, memory, user_id=user, budget=4_000)
        chat.window(messages=[{"role": "user", "content": question}])
        return recalled(chat.last.recalled)

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        memory.forget(session_id=session, user_id=user)

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        chat = JiyiMessages(session, memory, user_id=user, budget=budget)
        messages = _history(chat)
        messages.append({"role": "user", "content": text})
        call = [uses("look", f"c{text[:12]}", what="tea")] if "use the tool" in text else None
        given = [_tool(tool["function"]) for tool in tools]
        asked_for = {"model": "claude-sonnet-5-5", "max_tokens": 100, "system": system, "tools": given}
        with model(*([call] if call else []), [says(f"done {text[:6]}")]) as (client, asked):
            answer = chat.create(client, messages=messages, **asked_for)
            if answer.stop_reason == "tool_use":
                told = "looked up tea " * 20
                result = {"type": "tool_result", "tool_use_id": answer.content[0].id, "content": told}
                messages.append({"role": "assistant", "content": answer.content})
                messages.append({"role": "user", "content": [result]})
                chat.create(client, messages=messages, **asked_for)
        return [_plain(one) for one in asked]


def _history(chat: JiyiMessages) -> list[Any]:
    try:
        return chat.history()
    except Closed:  # what can still be done is a conversation without its beginning
        return []


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {"input_schema": function["parameters"], **{k: function[k] for k in ("name", "description")}}


def _plain(asked: Mapping[str, Any]) -> Request:
    messages: list[dict[str, Any]] = []
    for message in asked["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        bodies, left = split_turn(message["role"], blocks)
        assert left == []
        messages += bodies
    tools = [{**tool, "parameters": tool["input_schema"]} for tool in asked["tools"]]
    return {"system": asked["system"], "tools": functions(tools), "messages": messages}
