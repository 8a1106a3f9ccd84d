"""`jiyi mcp` as clients start it: a process of its own at the other end of a pipe."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

import jiyi
from jiyi.mcp.stdio import language_of

pytestmark = pytest.mark.slow

SENT = Path(__file__).with_name("stdio.jsonl")  # its first line is broken


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith(("JIYI_", "LC_", "LANG", "MEMORY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@asynccontextmanager
async def served(*options, **environ):
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "jiyi", "mcp", *options], env={**os.environ, **environ}
    )
    async with Client(stdio_client(command, errlog=subprocess.DEVNULL)) as client:
        yield client


async def called(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    return result.content[0].text if result.is_error else result.structured_content


async def test_a_memory_outlives_the_process_and_is_found_where_nobody_named_it(tmp_path):
    async with served(LANG="zh_CN.UTF-8") as client:
        assert "用户的长期记忆" in client.instructions
        await called(client, "remember", text="我对花生过敏")
    async with served() as client:
        assert "long-term memory" in client.instructions
        assert "花生" in (await called(client, "recall", query="花生"))["hits"][0]["text"]
        plan = await called(client, "forget", query="花生")
        done = await called(client, "forget", query="花生", confirm=plan["confirm"])
    assert done["restore"].endswith(f"--db {tmp_path}/.jiyi/memory.db --user me")
    restore = done["restore"].split()[1:]
    subprocess.run([sys.executable, "-m", "jiyi", *restore], check=True, capture_output=True, timeout=60)
    with jiyi.open(tmp_path / ".jiyi" / "memory.db", user_id="me", background=False) as memory:
        assert memory.facts()


async def test_two_processes_share_a_file_and_lose_nothing(tmp_path):
    (tmp_path / "memory.jsonl").write_text('{"type":"entity","name":"old","entityType":"t"}\n{bad', "utf-8")
    options = ("--compat", "server-memory", "--db", str(tmp_path / "g.db"), "--user", "ana")

    async def write(who, **environ):
        async with served(*options, **environ) as client:
            for n in range(5):
                entity = {"name": f"{who}-{n}", "entityType": "t", "observations": ["o"]}
                await called(client, "create_entities", entities=[entity])

    async def names(**environ):
        async with served(*options, **environ) as client:
            return {entity["name"] for entity in (await called(client, "read_graph"))["entities"]}

    await asyncio.gather(write("a", MEMORY_FILE_PATH="memory.jsonl"), write("b"))
    assert await names() == {"old", *(f"{who}-{n}" for who in "ab" for n in range(5))}
    async with served(*options) as client:
        await called(client, "delete_entities", entityNames=["old"])
    assert "old" not in await names(MEMORY_FILE_PATH="memory.jsonl")
    with jiyi.open(tmp_path / "g.db", user_id="ana", background=False) as memory:
        assert not memory.sessions()  # the mark of the import is no message
        assert not memory.search("memory.jsonl new facts bad lines", kinds=("message", "item"))


async def test_a_file_that_an_older_version_marked_with_a_message_is_not_imported_again(tmp_path):
    file = tmp_path / "memory.jsonl"
    file.write_text('{"type":"entity","name":"old","entityType":"t","observations":[]}', "utf-8")
    mark = f"server-memory-{sha256(file.read_bytes()).hexdigest()[:32]}"
    with jiyi.open(tmp_path / "g.db", user_id="ana", background=False) as memory:
        memory.save_message("server-memory", role="system", content="1 new facts", id=mark)
    options = ("--compat", "server-memory", "--db", str(tmp_path / "g.db"), "--import", str(file))
    async with served(*options, "--user", "ana") as client:
        assert not (await called(client, "read_graph"))["entities"]


async def test_what_is_wrong_with_the_memory_is_an_answer_and_not_a_crash(tmp_path):
    (tmp_path / "foreign.db").write_bytes(b"no database" * 100)
    for user in ("ana", "bob"):
        with jiyi.open(tmp_path / "two.db", user_id=user, background=False) as memory:
            memory.remember("x")

    async def talk(db, *options):
        async with served("--db", str(tmp_path / db), *options) as client:
            assert await client.list_tools()
            return await called(client, "facts")

    assert "foreign.db" in await talk("foreign.db")
    assert "--user" in await talk("two.db")
    assert (await talk("two.db", "--user", "ana"))["facts"]


def test_only_the_protocol_is_on_standard_output_and_bad_lines_do_no_harm(tmp_path):
    command = [sys.executable, "-m", "jiyi", "mcp", "--db", "m.db"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(SENT.read_bytes())
    process.stdin.flush()
    answers = {}
    while 4 not in answers:  # each line of standard output is a message, or this fails
        answer = json.loads(process.stdout.readline())
        answers[answer.get("id")] = answer
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert answers[4]["result"]["structuredContent"]["id"]
    assert "nosuch" in json.dumps(answers[3])
    assert b"Traceback" not in errors
    assert b"tea" not in errors


def test_unusable_settings_are_told_on_standard_error():
    command = [sys.executable, "-m", "jiyi", "mcp"]
    done = subprocess.run(
        command, env={**os.environ, "JIYI_LANGUAGE": "eo"}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert b"language" in done.stderr
    assert done.stdout == b""


def test_the_language_is_the_settings_else_the_locales(monkeypatch):
    assert language_of("auto") == "en"
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert language_of("auto") == "zh"
    assert language_of("en") == "en"
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert language_of("auto") == "en"
