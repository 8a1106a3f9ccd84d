"""What is promised of every adapter, asked of all whose framework is installed."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from promises import Request, adapters, recalled_in, tokens_of, without_partner

import jiyi
from jiyi.testing import HashEmbedder
from jiyi.text import TokenCounter

FOUND = adapters()
HISTORIES = [one for one in FOUND.values() if "history" in one.keeps]
pytestmark = pytest.mark.skipif(not FOUND, reason="no framework is installed here: make test-integrations")

SYSTEM = "You answer in one line. 用一句话回答。"
WHAT = {"what": {"type": "string", "description": "what to look up"}}
PARAMETERS = {"type": "object", "properties": WHAT, "required": ["what"]}
LOOK = {"name": "look", "description": "Look something up.", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": LOOK}
WORKERS, EACH = 8, 5

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=200).filter(str.strip)


def every(promise: str) -> pytest.MarkDecorator:
    names = [name for name, adapter in FOUND.items() if promise in adapter.keeps]
    return pytest.mark.parametrize("adapter", [FOUND[name] for name in names], ids=names)


@contextmanager
def new_memory(**options: Any) -> Iterator[jiyi.MemoryManager]:
    options |= {"user_id": "ana", "embedder": HashEmbedder(), "background": False}
    with TemporaryDirectory() as folder, jiyi.open(Path(folder) / "m.db", **options) as memory:
        yield memory


@every("history")
@settings(max_examples=15)
@given(said=st.lists(texts, min_size=1, max_size=6, unique=True))
def test_history_comes_back_as_it_went_in(adapter, said):
    async def through() -> None:
        await adapter.save(memory, "ana", "s", said[:1])
        await adapter.save(memory, "ana", "s", said[1:])
        assert await adapter.history(memory, "ana", "s") == said

    with new_memory() as memory:
        asyncio.run(through())


@every("window")
@settings(max_examples=6)
@given(
    rounds=st.lists(st.tuples(st.integers(3, 60), st.booleans()), min_size=3, max_size=7),
    budget=st.integers(900, 2_500),
)
def test_windows_are_sound(adapter, rounds, budget):
    """Calls stand beside their results, everything counts, the beginning stays, what is recalled is last."""
    said = [f"{i}. {'tea 绿茶 ' * words}{'use the tool' * tool}" for i, (words, tool) in enumerate(rounds)]

    async def talk() -> list[tuple[str, Request]]:
        await adapter.save(memory, "ana", "before", ["I drink green tea. 我喝绿茶。"])
        asked = {"budget": budget, "system": SYSTEM, "tools": [TOOL]}
        return [(text, x) for text in said for x in await adapter.request(memory, "ana", "s", text, **asked)]

    with new_memory() as memory:
        sent = asyncio.run(talk())
        assert len(sent) == len(said) + sum(tool for _, tool in rounds)
        for text, request in sent:
            assert without_partner(request["messages"]) == []
            assert tokens_of(request, memory.counter) <= budget
            assert request["system"] == SYSTEM
            question = max(i for i, m in enumerate(request["messages"]) if m["content"] == text)
            assert recalled_in(request, said) in ([], [question - 1])
        for (_, former), (_, later) in pairwise(sent):
            assert begins_as(former, later, said, memory.counter, budget)


def begins_as(former: Request, later: Request, said: list[str], counter: TokenCounter, budget: int) -> bool:
    """Say whether a request begins with the one before it, but for what is recalled and what had to go."""
    before, after = (
        [m for i, m in enumerate(one["messages"]) if i not in recalled_in(one, said)]
        for one in (former, later)
    )
    if after[: len(before)] == before:
        return True
    at = next((i for i, m in enumerate(before) if m == after[0]), len(before))  # there all had to go
    uncut = tokens_of(former, counter) + tokens_of(later, counter)
    return after[: len(before) - at] == before[at:] and uncut > budget - budget // 4


@every("window")
def test_a_memory_that_fails_changes_nothing(adapter):
    with new_memory() as memory:
        memory.close()
        sent = asyncio.run(
            adapter.request(memory, "ana", "s", "Hello 你好", budget=2_000, system=SYSTEM, tools=[TOOL])
        )
    assert [m["content"] for m in sent[0]["messages"]] == ["Hello 你好"]


@every("recall")
def test_chinese_is_found_and_what_is_found_says_why(adapter):
    async def through() -> None:
        await adapter.save(memory, "ana", "before", ["蓝色门的密码是 7341。", "我们周五去杭州。"])
        found = await adapter.recall(memory, "ana", "now", "蓝色门的密码是什么？")
        assert "7341" in found.texts[0]
        assert len(found.why) == len(found.texts)
        assert all(found.why)
        assert found.nothing_relevant is None or 0 <= found.nothing_relevant <= 1
        assert (await adapter.recall(memory, "eve", "now", "蓝色门的密码是什么？")).texts == []

    with new_memory() as memory:
        asyncio.run(through())


@every("recall")
def test_a_question_is_no_answer_to_itself(adapter):
    with new_memory() as memory:
        found = asyncio.run(adapter.recall(memory, "ana", "now", "What is the door code?"))
    assert found.texts == []
    assert found.nothing_relevant is None or found.nothing_relevant > 0.5


@every("delete")
def test_deleting_leaves_nothing_that_was_derived(adapter):
    async def through() -> None:
        await adapter.save(memory, "ana", "s", ["My name is Ana Quillfeather and I live in Porto."])
        await adapter.save(memory, "ana", "other", ["I have a dog."])
        await adapter.delete(memory, "ana", "s")
        if "history" in adapter.keeps:
            assert await adapter.history(memory, "ana", "s") == []
            assert await adapter.history(memory, "ana", "other") == ["I have a dog."]

    with new_memory() as memory:
        asyncio.run(through())
        assert not [fact for fact in memory.facts() if "Quillfeather" in fact.text or "Porto" in fact.text]
        assert not [hit for hit in memory.search("Quillfeather Porto") if "Porto" in hit.text]


USERS = ("acme", "acme-corp", "Acme", "acme/corp", "acme%", "ac_e")


@every("recall")
@settings(max_examples=8)
@given(order=st.lists(st.sampled_from(USERS), min_size=2, max_size=8))
def test_users_never_meet(adapter, order):
    async def through() -> None:
        for i, user in enumerate(order):
            await adapter.save(memory, user, "s", [f"The door code is {owned(user)} ({i})."])
        for user in order:
            others = [owned(one) for one in USERS if one != user]
            found = await adapter.recall(memory, user, "now", "What is the door code?")
            seen = found.texts + found.why
            if "history" in adapter.keeps:
                seen += await adapter.history(memory, user, "s")
            assert any(owned(user) in text for text in seen)
            assert not [text for text in seen for other in others if other in text]

    def owned(user: str) -> str:
        return f"X{USERS.index(user)}X7341"

    with new_memory() as memory:
        asyncio.run(through())


@pytest.mark.skipif(not HISTORIES, reason="no framework here gives back what was said")
def test_eight_processes_on_one_file_lose_nothing(tmp_path):
    """Each writes by every adapter; then all is there, in each writer's order."""
    file = tmp_path / "m.db"
    folders = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # what adapters import of our tests
    subprocess.run([sys.executable, __file__, str(file)], env=folders, check=True, timeout=240)
    with jiyi.open(file, user_id="ana", embedder=HashEmbedder(), background=False) as memory:
        for adapter in HISTORIES:
            kept = asyncio.run(adapter.history(memory, "ana", adapter.name))
            for i in range(WORKERS):
                mine = [text for text in kept if text.startswith(f"writer {i}:")]
                assert mine == [f"writer {i}: {n}" for n in range(EACH)], adapter.name


def write(file: str, number: int) -> None:
    patient = {"lock_timeout": 120, "embedder": HashEmbedder(), "background": False}
    with jiyi.open(file, user_id="ana", **patient) as memory:
        for adapter in HISTORIES:
            for n in range(EACH):
                asyncio.run(adapter.save(memory, "ana", adapter.name, [f"writer {number}: {n}"]))


if __name__ == "__main__":
    # Loading frameworks, words and patterns takes longer than all the writing: it is done before they part.
    write(f"{sys.argv[1]}-first", 0)
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        pool.starmap(write, [(sys.argv[1], i) for i in range(WORKERS)], chunksize=1)
