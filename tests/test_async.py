"""The same verbs awaited: concurrently, with the same errors, and closed at the end."""

import asyncio
import contextvars
import copy
import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from other_processes import run_apart

import jiyi
from jiyi.errors import BadQuery, Closed
from jiyi.testing import HashEmbedder

ROOT = Path(__file__).parents[1]


def opened(path, **options):
    return jiyi.open_async(path, **({"user_id": "ana", "embedder": HashEmbedder()} | options))


@pytest.mark.slow
async def test_every_verb_runs_concurrently(path):
    async def session(memory, number):
        name = f"s{number}"
        for i in range(5):
            await memory.save_message(name, role="user", content=f"session {number} message {i}")
        recent, hits, window = await asyncio.gather(
            memory.recent_messages(name),
            memory.search(f"message {number}", limit=3),
            memory.build_context(name, "message?", 500),
        )
        assert [m.content for m in recent] == [f"session {number} message {i}" for i in range(5)]
        assert len(hits) == 3
        assert window.messages[-1]["content"] == "message?"

    async with opened(path) as memory:
        await asyncio.gather(*(session(memory, n) for n in range(8)))
        await memory.flush()
        assert (await memory.stats())["message"] == 40
        assert (await memory.stats())["vectors_pending"] == 0
    with pytest.raises(Closed):
        await memory.stats()


@pytest.mark.slow
async def test_forgetting_while_others_save_and_ask_loses_nothing(path):
    async with opened(path) as memory:
        await memory.save_messages("s", [{"role": "user", "content": f"old {i}"} for i in range(40)])

        async def one(number):
            await memory.save_message("s", role="user", content=f"new {number}, the port is {number}")
            await memory.forget(f"old {number}", kinds="message")
            await memory.search("new", limit=3)
            await memory.recent_messages("s")

        await asyncio.gather(*(one(number) for number in range(40)), memory.maintain())
        left = await memory.session_messages("s")
        assert {m.content.split()[0] for m in left} == {"new"}
        assert len(left) == 40


async def test_the_loop_is_not_held_up(path):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async with opened(path, background=False) as memory:
        ticking = asyncio.create_task(tick())
        await memory.save_message("s", role="user", content="long text 很长 " * 40_000)
        ticking.cancel()
    assert ticks > 5


async def test_errors_come_through_unknown_verbs_are_named_and_it_can_be_closed_by_hand(path):
    async with opened(path) as memory:
        with pytest.raises(BadQuery):
            await memory.search("")
        with pytest.raises(AttributeError, match="no attribute 'dance'"):
            await memory.dance()
        assert copy.copy(memory) is not memory
    memory = opened(path)
    await memory.close()
    await memory.close()


async def test_what_is_no_verb_is_there_unawaited(path):
    async with opened(path, timezone="Asia/Shanghai") as memory:
        await memory.build_context("s", "which port?")
        memory.monitor.reply("s", "443", usage={"completion_tokens": 1})
        assert (memory.monitor.gauges().windows, str(memory.zone)) == (1, "Asia/Shanghai")
        assert memory.counter.count_text("two words") == 2
    async with opened(path, monitor=False) as memory:
        assert memory.monitor is None


def test_every_verb_is_shown_as_a_coroutine_with_its_arguments():
    for name, verb in inspect.getmembers(jiyi.MemoryManager):
        if not name.startswith("_"):
            awaited = getattr(jiyi.AsyncMemoryManager, name)
            assert inspect.getdoc(awaited) == inspect.getdoc(verb)
            assert inspect.iscoroutinefunction(awaited) is not isinstance(verb, property)
            if callable(verb):
                assert inspect.signature(awaited) == inspect.signature(verb)
    assert {"search", "monitor"} <= set(dir(jiyi.AsyncMemoryManager))


_TYPED = """
from jiyi import AsyncMemoryManager, open_async
from jiyi.records import Hits, Message

async def use(memory: AsyncMemoryManager) -> None:
    message: Message = await memory.save_message("s", {"role": "user", "content": "hello"})
    hits: Hits = await memory.search("hello", limit=3, kinds="message")
    numbers: dict[str, int] = {**await memory.stats(), "tokens": memory.counter.count_text("hello")}
    async with open_async("agent.db") as opened:
        await opened.forget(ids=[message.id, *(hit.id for hit in hits)])
    await memory.search("hello", limit="3")  # wrong
    await memory.search("hello", kinds="massage")  # wrong
    await memory.save_message("s", text="hello")  # wrong
    await memory.build_context(query="hello")  # wrong
    text: str = await memory.search("hello")  # wrong
    memory.search("hello").nothing_relevant  # wrong
    await memory.dance()  # wrong
    print(numbers, text)
"""


@pytest.mark.slow
def test_a_type_checker_knows_arguments_and_results(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_TYPED)
    run = [sys.executable, "-m", "mypy", str(program)]  # strict, and what `make check` has read is known
    told = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    wrong = {number for number, line in enumerate(_TYPED.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line} == wrong, told


async def test_verbs_that_wait_hold_up_neither_the_loops_own_threads_nor_other_verbs(path):
    go_on = threading.Event()

    class Waiting(HashEmbedder):
        def embed(self, texts, kind):
            go_on.wait(10)
            return super().embed(texts, kind)

    async with opened(path, embedder=Waiting(), background=False) as memory:
        await memory.save_message("s", role="user", content="hello")
        waiting = [asyncio.create_task(memory.flush()) for _ in range(20)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(int), 5) == 0
        assert (await asyncio.wait_for(memory.stats(), 5))["message"] == 1
        waiting[0].cancel()
        go_on.set()
        assert isinstance((await asyncio.gather(*waiting, return_exceptions=True))[0], asyncio.CancelledError)
        assert (await memory.stats())["vectors_pending"] == 0


async def test_what_the_caller_has_in_its_context_is_there_in_the_thread(path):
    name = contextvars.ContextVar("name", default="")
    async with opened(path, background=False) as memory:
        name.set("ana")
        seen = []
        await memory.save_message("s", role="user", content="hello")
        await memory.flush(lambda _: seen.append(name.get()))
        assert seen == ["ana"]


_FORKED = """
import asyncio, os, sys, jiyi
from jiyi.testing import HashEmbedder

async def count(path):
    async with jiyi.open_async(path, user_id="ana", embedder=HashEmbedder()) as memory:
        return (await memory.stats())["message"]

asyncio.run(count(sys.argv[1]))
child = os.fork()
number = asyncio.run(count(sys.argv[2]))
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_has_threads_of_its_own(tmp_path):
    run_apart(_FORKED, tmp_path / "a.db", tmp_path / "b.db")
