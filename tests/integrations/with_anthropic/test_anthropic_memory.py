"""Anthropic's memory tool on a memory, beside the SDK's own on a disk."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from refusing import refused

anthropic = pytest.importorskip("anthropic")

from anthropic.lib.tools import ToolError  # noqa: E402
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from scripted_messages import model, says, uses  # noqa: E402

import jiyi  # noqa: E402
from jiyi.errors import WrongState  # noqa: E402
from jiyi.integrations.anthropic import JiyiAsyncMemoryTool, JiyiMemoryTool  # noqa: E402
from jiyi.testing import HashEmbedder  # noqa: E402

NOTE = "蓝色门的密码是 7341\r\n"


def run(tool: Any, command: str, **arguments: Any) -> str:
    return tool.call({"command": command, **arguments})


def test_a_memory_on_a_server_is_refused():
    refused(WrongState, "open the memory", JiyiMemoryTool, jiyi.connect("http://127.0.0.1:9", user_id="ana"))


def test_a_model_keeps_a_file_that_another_conversation_finds(memory):
    tool = JiyiMemoryTool(memory, cache_control={"type": "ephemeral"})
    written = uses("memory", "t1", command="create", path="/memories/doors.md", file_text=NOTE)
    with model([written], [says("Noted.")]) as (client, asked):
        asking = {"model": "claude-sonnet-5-5", "max_tokens": 100, "tools": [tool]}
        said = [{"role": "user", "content": "The door code is 7341."}]
        talk = client.beta.messages.tool_runner(messages=said, **asking)
        assert talk.until_done().content[0].text == "Noted."
    assert asked[0]["tools"][0]["type"] == "memory_20250818"
    result = asked[1]["messages"][-1]["content"][0]
    assert result["content"] == "File created successfully at: /memories/doors.md"
    (hit,) = memory.search("蓝色门的密码", kinds="item")
    assert hit.text == NOTE
    assert "7341" in str(memory.build_context("elsewhere", "蓝色门的密码是什么?").messages)


async def test_the_asynchronous_tool_does_the_same(memory):
    tool = JiyiAsyncMemoryTool(memory)
    await tool.call({"command": "create", "path": "/memories/a.md", "file_text": NOTE})
    shown = await tool.call({"command": "view", "path": "/memories/a.md"})
    assert shown == f"Here's the content of /memories/a.md with line numbers:\n     1\t{NOTE[:-1]}\n     2\t"
    with pytest.raises(ToolError, match="does not exist"):
        await tool.call({"command": "delete", "path": "/memories/b.md"})
    assert await tool.clear_all_memory() == "All memory cleared"
    assert memory.items("memories") == []


def test_versions_stay_and_what_is_deleted_can_be_brought_back(memory):
    tool = JiyiMemoryTool(memory)
    run(tool, "create", path="/memories/a/doors.md", file_text=NOTE)
    run(tool, "str_replace", path="/memories/a/doors.md", old_str="7341", new_str="1111")
    (former,) = memory.item_history(("memories", "a"), "doors.md")
    assert former.value == {"content": NOTE}
    run(tool, "delete", path="/memories/a")
    assert not memory.search("蓝色门的密码")
    memory.restore(forgotten_at=tool.last_receipt.at)
    assert "1111" in run(tool, "view", path="/memories/a/doors.md")


def test_files_of_another_agent_are_not_touched(open_memory):
    agents, plain = JiyiMemoryTool(open_memory(agent_id="bot")), JiyiMemoryTool(open_memory())
    for tool, name in ((agents, "bot.md"), (plain, "mine.md")):
        run(tool, "create", path=f"/memories/a/{name}", file_text=NOTE)
    assert "bot.md" not in run(plain, "view", path="/memories")
    run(plain, "rename", old_path="/memories/a", new_path="/memories/b")
    run(plain, "delete", path="/memories/b")
    run(plain, "create", path="/memories/c", file_text=NOTE)
    assert plain.call({"command": "view", "path": "/memories"}).endswith("/memories/c")
    plain.clear_all_memory()
    assert "7341" in run(agents, "view", path="/memories/a/bot.md")


def test_users_have_files_of_their_own(memory):
    tools = [JiyiMemoryTool(memory, user_id=user) for user in ("acme", "acme-corp")]
    run(tools[0], "create", path="/memories/a.md", file_text=NOTE)
    assert "a.md" not in run(tools[1], "view", path="/memories")
    tools[1].clear_all_memory()
    assert "7341" in run(tools[0], "view", path="/memories/a.md")


@pytest.mark.parametrize(
    "named",
    [
        "/memoriesX/a", "memories/a", "/etc/passwd", "", "/memories/../a", "/memories/a/../../b",
        "/memories/%2e%2e/a", "/memories/%2E./a", "/memories/a%2fb", "/memories/..\\a", "/memories/a\0b",
        "/memories/a\nb", None, 7,
    ],
)  # fmt: skip
def test_no_path_leads_out(memory, named):
    tool = JiyiMemoryTool(memory)
    for command, arguments in (
        ("view", {"path": named}),
        ("create", {"path": named, "file_text": "x"}),
        ("delete", {"path": named}),
        ("rename", {"old_path": named, "new_path": "/memories/b"}),
        ("rename", {"old_path": "/memories/b", "new_path": named}),
    ):
        with pytest.raises(ToolError, match=r"must start with /memories|would escape /memories"):
            run(tool, command, **arguments)
    assert memory.items() == []


def test_a_model_is_told_what_cannot_be_kept(memory):
    tool = JiyiMemoryTool(memory)
    for path in ("/memories/" + "a" * 3_000, "/memories/" + "a/" * 40 + "b"):
        refused(ToolError, "at most", run, tool, "create", path=path, file_text="x")
    refused(ToolError, "zero character", run, tool, "create", path="/memories/a", file_text="a\0b")
    memory.close()
    with pytest.raises(ToolError):
        run(tool, "view", path="/memories")


@pytest.mark.slow
async def test_writers_at_once_leave_no_file_that_is_a_folder(open_memory):
    tools = [JiyiAsyncMemoryTool(open_memory()) for _ in range(4)]
    paths = ["/memories/a", "/memories/a/b", "/memories/a", "/memories/a/b"]
    pairs = zip(tools, paths, strict=True)
    made = [tool.call({"command": "create", "path": path, "file_text": "x"}) for tool, path in pairs]
    told = await asyncio.gather(*made, return_exceptions=True)
    assert [type(one) for one in told].count(str) == 1
    assert all(isinstance(one, str | ToolError) for one in told)


PATHS = st.sampled_from(["", "/", "/a", "/b.md", "/a/c.md", "/a/d/e", "/a/d", "/.h", "/a/../b.md"])
WORDS = st.sampled_from(["", "x", "aa", "x\n", "a\r\nb\r\n", "x\naaa\nx", "绿茶\n"])
NAMED = PATHS.map("/memories{}".format)
LINES = st.integers(-1, 4)
GIVEN = [
    ("view", {"path": NAMED}),
    ("view", {"path": NAMED, "view_range": st.lists(LINES, min_size=2, max_size=2)}),
    ("create", {"path": NAMED, "file_text": WORDS}),
    ("str_replace", {"path": NAMED, "old_str": WORDS, "new_str": WORDS}),
    ("insert", {"path": NAMED, "insert_line": LINES, "insert_text": WORDS}),
    ("delete", {"path": NAMED}),
    ("rename", {"old_path": NAMED, "new_path": NAMED}),
]
COMMANDS = st.one_of(st.fixed_dictionaries({"command": st.just(name), **parts}) for name, parts in GIVEN)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(COMMANDS, max_size=20))
def test_it_says_what_the_sdk_s_own_tool_says(commands):
    with TemporaryDirectory() as folder:
        theirs = BetaLocalFilesystemMemoryTool(folder)
        file = Path(folder) / "m.db"
        with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
            ours = JiyiMemoryTool(memory)
            for command in commands:
                expected = answered(theirs.call, command)
                for empty, _, _ in sorted(os.walk(theirs.memory_root), reverse=True):
                    if empty != str(theirs.memory_root) and not os.listdir(empty):
                        os.rmdir(empty)  # without files there are no folders here
                found = answered(ours.call, command)
                if expected is None:  # an error of the disk itself
                    assert found.startswith("Refused: ")
                else:
                    assert found == expected


def answered(call: Callable[[Any], str], command: dict[str, Any]) -> str | None:
    try:
        return re.sub(r"^[\d.]+[BK]\t(?=.*/$|/memories[^\t]*$)", "", call(command), flags=re.MULTILINE)
    except ToolError as error:
        return f"Refused: {error}"
    except OSError:
        return None
