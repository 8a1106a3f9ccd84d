"""The same verbs awaited: concurrently, with the same errors, and closed at the end."""

import asyncio
import copy

import pytest

import jiyi
from jiyi.errors import BadQuery, Closed
from jiyi.testing import HashEmbedder


def opened(path, **options):
    return jiyi.open_async(path, **({"user_id": "ana", "embedder": HashEmbedder()} | options))


@pytest.mark.slow
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


def test_the_verbs_of_life_run_too(path, tmp_path):
    async def main():
        async with opened(path) as memory:
            await memory.save_message("s", role="user", content="edge-02 的端口是 8443", id="m")
            await memory.remember(subject="edge-02", predicate="runs on", object="web-7")
            tasks = [await memory.start_task("s", "restart", target="nginx") for _ in range(3)]
            episodes = await asyncio.gather(*(memory.complete_task(task.id) for task in tasks))
            assert [one.name for one in await memory.neighbours("web-7")] == ["edge-02"]
            assert len(await memory.history("edge-02")) == len(await memory.facts("edge-02")) == 2
            assert (await memory.pin([one.id for one in episodes])) == 3
            done = await memory.maintain()
            assert done.consolidation.episodes == 3
            receipt = await memory.forget("8443")
            assert (await memory.restore(forgotten_at=receipt.at)).total == receipt.total == 2
            exported = await memory.export(tmp_path / "ana.jsonl")
            assert (await memory.import_(tmp_path / "ana.jsonl")).known == exported.total
            with pytest.raises(BadQuery):
                await memory.forget()

    asyncio.run(main())


@pytest.mark.slow
def test_forgetting_while_others_save_and_ask_loses_nothing(path):
    async def main():
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


def test_what_is_no_verb_is_there_unawaited(path):
    async def main():
        async with opened(path, timezone="Asia/Shanghai") as memory:
            await memory.build_context("s", "which port?")
            memory.monitor.reply("s", "443", usage={"completion_tokens": 1})
            assert (memory.monitor.gauges().windows, str(memory.zone)) == (1, "Asia/Shanghai")
            assert memory.counter.count_text("two words") == 2
        async with opened(path, monitor=False) as memory:
            assert memory.monitor is None

    asyncio.run(main())


def test_it_can_be_closed_by_hand(path):
    async def main():
        memory = opened(path)
        await memory.close()
        await memory.close()

    asyncio.run(main())
