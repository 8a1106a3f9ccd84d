"""The OpenAI Agents SDK: its runner, and a model behind a real socket."""

from collections.abc import Mapping
from typing import Any

import agents
from openai import AsyncOpenAI
from promises import Recall, Request, functions, recalled
from scripted_responses import calls, model, says

from jiyi import MemoryManager
from jiyi.integrations.openai_agents import JiyiSession


class Promised:
    name = "openai_agents"
    keeps = frozenset({"history", "recall", "delete", "window"})

    async def save(self, memory: MemoryManager, user: str, session: str, texts: list[str]) -> None:
        items = [{"role": "user", "content": text} for text in texts]
        await JiyiSession(session, memory, user_id=user).add_items(items)

    async def history(self, memory: MemoryManager, user: str, session: str) -> list[str]:
        items = await JiyiSession(session, memory, user_id=user).get_items()
        return [item["content"] for item in items if item.get("role") == "user"]

    async def recall(self, memory: MemoryManager, user: str, session: str, question: str) -> Recall:
        shown = JiyiSession(session, memory, user_id=user).input_filter(4_000)
        data = agents.run.ModelInputData(input=[{"role": "user", "content": question}], instructions=None)
        await shown(agents.run.CallModelData(model_data=data, agent=agents.Agent(name="a"), context=None))
        return recalled(shown.last.recalled)

    async def delete(self, memory: MemoryManager, user: str, session: str) -> None:
        await JiyiSession(session, memory, user_id=user).clear_session()

    async def request(self, memory, user, session, text, *, budget, system, tools) -> list[Request]:
        async def look(_: Any, arguments: str) -> str:
            return f"looked up {arguments} " * 20

        own = JiyiSession(session, memory, user_id=user)
        made = [
            agents.FunctionTool(
                name=tool["function"]["name"],
                description=tool["function"]["description"],
                params_json_schema=dict(tool["function"]["parameters"]),
                on_invoke_tool=look,
                strict_json_schema=False,
            )
            for tool in tools
        ]
        call = [calls("look", f"c{text[:12]}", what="tea")] if "use the tool" in text else None
        agents.set_tracing_disabled(True)
        with model(*([call] if call else []), [says(f"done {text[:6]}")]) as (url, asked):
            client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
            agent = agents.Agent(
                name="a", instructions=system, tools=made, model=agents.OpenAIResponsesModel("gpt-4o", client)
            )
            try:
                await agents.Runner.run(agent, text, session=own, run_config=own.run_config(budget))
            except Exception:
                if asked:
                    raise
                # The session itself is away: what can still be done is a run without it.
                await agents.Runner.run(agent, text, run_config=own.run_config(budget))
        return [_plain(one) for one in asked]


def _plain(asked: Mapping[str, Any]) -> Request:
    messages: list[dict[str, Any]] = []
    for item in asked["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            body = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": body}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
        else:
            content = item["content"]
            words = content if isinstance(content, str) else "".join(part["text"] for part in content)
            messages.append({"role": item["role"], "content": words})
    system = asked.get("instructions") or ""
    return {"system": system, "tools": functions(asked["tools"]), "messages": messages}
