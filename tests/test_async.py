"""The same verbs awaited: concurrently, with the same errors, and closed at the end."""

import asyncio
import copy

import pytest

import jiyi
from jiyi.errors import BadQuery, Closed
from jiyi.testing import HashEmbedder


def opened(path, **options):
    return jiyi.open_async(path, **({"user_id": "ana", "embedder": HashEmbedder()} | options))


def test_every_verb_runs_concurrently(path):
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

    async def main():
        async with opened(path) as memory:
            await asyncio.gather(*(session(memory, n) for n in range(8)))
            await memory.flush()
            assert (await memory.stats())["message"] == 40
            assert (await memory.stats())["vectors_pending"] == 0
        with pytest.raises(Closed):
            await memory.stats()

    asyncio.run(main())


def test_one_session_from_many_tasks_has_no_gap(path):
    async def main():
        async with opened(path) as memory:
            saved = await asyncio.gather(
                *(memory.save_message("s", role="user", content=f"{i}") for i in range(50))
            )
            assert sorted(m.seq for m in saved) == list(range(50))

    asyncio.run(main())


def test_the_loop_is_not_held_up(path):
    async def main():
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

    asyncio.run(main())


def test_errors_come_through_and_unknown_verbs_are_named(path):
    async def main():
        async with opened(path) as memory:
            with pytest.raises(BadQuery):
                await memory.search("")
            for name in ("dance", "_store", "__wrapped__"):
                with pytest.raises(AttributeError, match="no verb"):
                    getattr(memory, name)
            assert copy.copy(memory) is not memory

    asyncio.run(main())


def test_it_can_be_closed_by_hand(path):
    async def main():
        memory = opened(path)
        await memory.close()
        await memory.close()

    asyncio.run(main())
