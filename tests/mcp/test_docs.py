"""The settings of clients in the pages: valid JSON, and commands that exist."""

import json
import re
from pathlib import Path

import pytest
import typer

from jiyi.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"


def commands(page):
    for block in re.findall(r"^```json\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
        settings = json.loads(block)
        servers = settings.get("mcpServers") or settings["servers"]
        yield from servers.values()


@pytest.mark.parametrize("page", [DOCS / "mcp.md", DOCS / "zh" / "mcp.md"], ids=["en", "zh"])
def test_settings_of_clients_start_a_command_that_exists(page):
    found = list(commands(page))
    assert sum(server.get("url", "").endswith("/mcp") for server in found) == 2
    started = [server for server in found if "command" in server]
    assert len(started) == 5
    for server in started:
        assert server["command"] == "jiyi"
        name, *rest = server["args"]
        typer.main.get_command(app).get_command(None, name).make_context(name, rest)


def test_both_pages_have_the_same_settings():
    assert list(commands(DOCS / "mcp.md")) == list(commands(DOCS / "zh" / "mcp.md"))
