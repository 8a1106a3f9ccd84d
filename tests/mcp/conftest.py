"""A memory of one user, and a client that calls the tools over it."""

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from mcp import Client

import jiyi
from jiyi.mcp.caller import Caller
from jiyi.mcp.server import make_server


@dataclass
class Host:
    memory: jiyi.MemoryManager
    who: Caller = field(default_factory=lambda: Caller(user_id="ana"))

    def caller(self, request: Any) -> Caller:
        return self.who

    def forget_context(self):
        return nullcontext()

    def restore_hint(self, at):
        return at.isoformat()


@pytest.fixture
def host(open_memory):
    return Host(open_memory(user_id="nobody"))


@pytest.fixture
def client(host):
    """Run something with a client: ``client(lambda c: c.list_tools())``."""

    def client(what, language="en", compat=""):
        async def run():
            async with Client(make_server(host, language, compat=compat)) as connected:
                return await what(connected)

        return asyncio.run(run())

    return client


@pytest.fixture
def call(client):
    """Call a tool: its structured answer, or the words of its error."""

    def call(tool, *, language="en", compat="", **arguments):
        result = client(lambda c: c.call_tool(tool, arguments), language, compat)
        return result.content[0].text if result.is_error else result.structured_content

    return call
