"""Other processes at the file of a test: one that holds it, and several that begin at the same moment."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(20_000)  # the worker of a memory may be writing
connection.execute(sys.argv[2]).fetchall()
print("held", flush=True)
sys.stdin.readline()
connection.close()
"""


def _started(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
def hold(path):
    """Run a statement in another process, which stays there until what this returns is called."""
    holders = []

    def start(sql: str = "BEGIN IMMEDIATE") -> Callable[[], object]:
        holders.append(holder := _started(HOLDER, path, sql))
        assert holder.stdout.readline() == "held\n"
        return lambda: holder.poll() is None and holder.communicate("go\n", timeout=20)

    yield start
    for holder in holders:
        if holder.poll() is None:
            holder.kill()
            holder.communicate(timeout=20)


def begun(code: str, *arguments: object) -> "subprocess.Popen[str]":
    """Run a program that prints "ready" and then reads a line; return it as it begins."""
    child = _started(code, *arguments)
    _let_begin(child)
    return child


def begin_together(count: int, code: str, *arguments: object) -> list[str]:
    """Run a program in several processes that begin as soon as all are ready; return what they printed."""
    children = [_started(code, *arguments) for _ in range(count)]
    _let_begin(*children)
    said, errors = zip(*(child.communicate(timeout=120) for child in children), strict=True)
    assert ([child.returncode for child in children], errors) == ([0] * count, ("",) * count), errors
    return list(said)


def run_apart(code: str, *arguments: object, **environ: str) -> str:
    """Run a program in a fresh interpreter; return what it said on standard error."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    env = {key: value for key, value in os.environ.items() if not key.startswith("OMP_")} | environ
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def _let_begin(*children: "subprocess.Popen[str]") -> None:
    assert {child.stdout.readline() for child in children} == {"ready\n"}
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
