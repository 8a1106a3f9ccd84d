"""Agents on a real file, with a model that says what it is told to over a real socket."""

from typing import Any

import pytest
from scripted_chat import ScriptedChat
from scripted_endpoint import Reply

from jiyi.agent import Agent


@pytest.fixture
def scripted():
    """Start servers that give these replies in turn; all are stopped in the end."""
    started: list[ScriptedChat] = []

    def start(*replies: Reply) -> ScriptedChat:
        started.append(ScriptedChat(*replies).__enter__())
        return started[-1]

    yield start
    for server in started:
        server.__exit__()


@pytest.fixture
def make_agent(memory, llm_at):
    """Make agents that ask a server."""

    def make(server: ScriptedChat, *actions: Any, **options: Any) -> Agent:
        llm = llm_at(server.url, time_limit=20)
        chosen: dict[str, Any] = {"goals": "Keep the shop running", "memory": memory} | options
        return Agent(chosen.pop("goals"), actions, chosen.pop("memory"), llm=llm, **chosen)

    return make
