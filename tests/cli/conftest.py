"""A small memory on disk, and two ways to run the command line on it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import jiyi
from jiyi.cli.app import app
from jiyi.embeddings import E5Embedder
from jiyi.testing import HashEmbedder

_root: Any = typer.main.get_command(app)
for _name in _root.list_commands(None):  # loaded now: what they import is not yet replaced
    _root.get_command(None, _name)


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch, tmp_path):
    """An embedder that is there at once, and a folder to write in."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: HashEmbedder())


def fill(memory: jiyi.MemoryManager) -> None:
    """Make the memory of ana: two sessions, a finished task."""
    with memory:
        memory.save_message("s1", role="system", content="你是运维助手")
        memory.save_message("s1", role="user", content="nginx 又 502 了", id="m-502")
        call = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}
        memory.save_message("s1", {"role": "assistant", "content": None, "tool_calls": [call]})
        memory.save_message("s1", {"role": "tool", "tool_call_id": "c1", "content": "\x1b[31mred\x1b[0m"})
        memory.save_message("s1", role="assistant", content="重启后恢复")
        memory.save_message("s2", role="user", content="the certificate expires in May")
        task = memory.start_task("s1", request="重启 nginx 容器")
        memory.add_step(task.id, "docker restart nginx", tool_name="shell")
        memory.complete_task(task.id, outcome="success", summary="重启后恢复")
        memory.flush()


@pytest.fixture
def db(open_memory, path):
    """A memory for commands run in this process."""
    fill(open_memory())
    return path


@pytest.fixture
def real_db(open_memory, tmp_path):
    """The same for commands run as processes, which use the bundled model."""
    fill(open_memory(tmp_path / "real.db", embedder=E5Embedder()))
    return tmp_path / "real.db"


@pytest.fixture
def two_users(open_memory, db):
    """The same with a second user."""
    with open_memory(user_id="bob") as memory:
        memory.save_message("s1", role="user", content="hello")
    return db


@pytest.fixture
def steering(open_memory):
    """Make a memory in which a text that would steer the terminal stands everywhere."""

    def steering(path: Path, text: str) -> Path:
        with open_memory(path, user_id=f"u{text}") as memory:
            said = {"role": "user", "name": f"n {text}", "content": f"nginx {text}"}
            memory.save_message(f"s{text}", said, id=f"m{text}")
            task = memory.start_task(f"s{text}", f"restart {text}", target=f"t {text}", tags=[text])
            for place in range(6):
                step = memory.add_step(task.id, f"bake a cake {text} {place}", tool_name=f"shell{text}")
                memory.update_step(step.id, status="failed", result=text)
            done = memory.start_task("s2", f"look {text}", target="db")
            memory.complete_task(done.id, summary=f"fine {text}")
            memory.remember(f"the port of api is {text}", speaker=text)
            memory.flush()
        return path

    return steering


@pytest.fixture
def run():
    """Run a command in this process."""

    def run(*words: object, code: int = 0, typed: str | None = None):
        result = CliRunner().invoke(app, [str(word) for word in words], input=typed)
        assert result.exit_code == code, (result.output, result.exception)
        assert "Traceback" not in result.output
        return result

    return run


@pytest.fixture
def run_json(run):
    """Run a command with ``--json`` and return what it printed, which is JSON and nothing else."""

    def run_json(*words: object, code: int = 0):
        return json.loads(run(*words, "--json", code=code).stdout)

    return run_json


@pytest.fixture
def start():
    """Start a command as a process of its own; its output is bytes."""
    processes = []

    def start(*words: object, **environ: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "jiyi", *map(str, words)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(command, **streams, env=os.environ | environ))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def out(start):
    """Run a command as a process and return its standard output, which must be all it says."""

    def out(*words: object, **environ: str) -> bytes:
        process = start(*words, **environ)
        said, complaint = process.communicate(timeout=280)
        assert (process.returncode, complaint) == (0, b"")
        return said

    return out
