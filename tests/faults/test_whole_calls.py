"""Whole calls on long texts and long tasks: the time grows no faster than what they are given.

`test_linear_time.py` times the patterns alone; loops around them can be slower than linear as well.
"""

import json
import time
from datetime import UTC, datetime
from itertools import count

import pytest

from jiyi.compression import PruneTokens, ToolOutput
from jiyi.extraction.reading import extract_message
from jiyi.records import Message

RUNS = ("a", "0", ".", "\n", "汉", "一", "。", "1,", "a-", "- ", "一百", "汉，", "my a is ")
FEW, TIMES = 4_000, 4  # characters, and how many times as many
STEPS = 2_000
AT_MOST = 2.6**2  # how much longer it takes at four times the length
NOTHING = 0.4  # seconds of CPU that hold nobody up
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def took(call):
    began = time.thread_time()
    call()
    return time.thread_time() - began


def check(prepared, few=FEW):
    """Call what ``prepared(n)`` returns at both sizes; a neighbour on the machine may slow down one look."""
    for _ in range(3):
        long = took(prepared(TIMES * few))
        if long <= NOTHING:
            return
        short = took(prepared(few))
        if long <= AT_MOST * short:
            return
    pytest.fail(f"{short:.2f} s at {few}, {long:.2f} s at {TIMES * few}")


@pytest.fixture
def fresh(open_memory, tmp_path):
    """Open memories of which each has a file of its own."""
    numbers = count()
    return lambda: open_memory(tmp_path / f"{next(numbers)}.db")


def cut(run, length):
    return (run * length)[:length]


@pytest.mark.parametrize("run", RUNS)
def test_compressing_and_reading_statements(run):
    check(lambda n: lambda: PruneTokens()(cut(run, n)))
    check(lambda n: lambda: ToolOutput(max_tokens=80)(cut(run, n)))
    check(lambda n: lambda: extract_message(Message(role="user", content=cut(run, n), created_at=NOW), UTC))


@pytest.mark.parametrize("run", RUNS)
def test_saving_searching_windows_and_handover(fresh, run):
    def prepared(n):
        text, memory = cut(run, n), fresh()

        def call():
            memory.save_message("s", role="user", content=text)
            memory.save_message("s", role="assistant", content="well, " + text)
            memory.flush()
            memory.search("what is " + text)
            memory.search("what is my port?")
            memory.build_context("s", "what is " + text, 40_000)
            memory.handover("s")
            memory.summarize_session("s")
            memory.facts()

        return call

    check(prepared)


@pytest.fixture
def exported(tmp_path, fresh):
    """Write an export that has a task of so many steps."""

    def make(steps):
        file, memory = tmp_path / f"{steps}.jsonl", fresh()
        memory.add_step(memory.start_task("s", "look").id, "look at the disk")
        memory.export(file)
        head, line = file.read_text("utf-8").splitlines()
        task = json.loads(line)
        (step,) = task["steps"]
        task["steps"] = [step | {"id": f"{n:032x}", "seq": n} for n in range(steps)]
        file.write_text(f"{head}\n{json.dumps(task)}\n", "utf-8")
        return file

    return make


def test_importing_and_restoring_a_long_task(fresh, exported):
    def import_(n):
        file, memory = exported(n), fresh()
        return lambda: memory.import_(file)

    def restore(n):
        file, memory = exported(n), fresh()
        assert memory.import_(file).added > 0
        (task,) = memory.tasks()
        assert len(task.steps) == n
        gone = memory.forget(ids=[task.id])
        return lambda: memory.restore(forgotten_at=gone.at)

    check(import_, STEPS)
    check(restore, STEPS)
