"""What memory of agents asks of the whole, beyond what the tests of each part say."""

import apsw
import psycopg
import pytest

from jiyi.errors import BudgetTooSmall
from jiyi.records import Message
from jiyi.testing import HashEmbedder


def work(memory, request, *steps, **options):
    task = memory.start_task("s", request, **options)
    for step in steps:
        memory.add_step(task.id, step, tool_name="shell", status="completed", result="exit 0")
    return memory.complete_task(task.id, summary=f"did {request}")


def test_a_window_shows_the_four_sections(open_memory):
    """Recent talk, the task in hand, five episodes and three lessons, as Markdown under their headings."""
    memory = open_memory(recall_floor="off")
    for number in range(8):
        for word in ("磁盘", "网络", "证书"):
            work(memory, f"修复{word}故障 {number}", "重启", target=f"主机-{number}")
    for number in range(8):
        for _ in range(3):
            work(memory, "检查主机故障", "重启", target=f"主机-{number}")
    memory.run_consolidation()
    memory.save_message("s", role="user", content="主机又出故障了")
    memory.save_message("s", role="assistant", content="我来看看")
    task = memory.start_task("s", "恢复主机")
    memory.add_step(task.id, "查看日志")
    memory.flush()
    text = memory.build_context("s", "主机故障怎么修复？", 8_000).markdown
    found = {part.split("\n", 1)[0]: part for part in text.split("## ")[1:]}
    assert "主机又出故障了" in found["最近对话"]
    assert "我来看看" in found["最近对话"]
    for line in ("请求：恢复主机", "状态：进行中", "当前步骤：查看日志"):
        assert line in found["当前任务"]
    assert found["相关经验"].count("[成功] ") == 5
    assert found["相关经验"].count(" -> did ") == 5
    topics = {known.topic for known in memory.knowledge()}
    assert sum(f"**{topic}**" in found["相关知识"] for topic in topics) == 3


def test_the_core_is_never_dropped(memory):
    """System, pinned and current messages stay in any window, or it is refused and says what it needs."""
    memory.save_message("s", role="system", content="You run servers.")
    memory.save_message("s", role="user", content="Never restart by day.", pinned=True)
    for number in range(30):
        memory.save_message("s", role="user", content=f"and then {number} " * 9)
    core = [("system", "You run servers."), ("user", "Never restart by day."), ("user", "now?")]
    least = memory.counter.count_all([Message(role=role, content=text) for role, text in core])
    for size in (least, least + 40, 400):
        window = memory.build_context("s", "now?", size)
        found = [message["content"] for message in window.messages]
        assert found[0].startswith("You run servers.")
        assert "Never restart by day." in found
        assert found[-1] == "now?"
        assert window.report.tokens <= size
    with pytest.raises(BudgetTooSmall) as refused:
        memory.build_context("s", "now?", least - 1)
    assert (refused.value.needed, refused.value.available) == (least, least - 1)


def test_on_a_file_and_on_a_server_vectors_have_any_size_and_indexes_suit(open_memory, path, postgres_url):
    """No size of vectors is built in, tasks are found by session and status, no index needs training data."""
    for url in (path, postgres_url):
        with open_memory(url, embedder=HashEmbedder(1_536)) as memory:
            episode = work(memory, "restart nginx")
            memory.flush()
            assert memory.stats()["vectors_pending"] == 0
            assert memory.search_episodes("nginx")[0].id == episode.id
    file = apsw.Connection(str(path))
    here = [row[0] for row in file.execute("SELECT sql FROM sqlite_master WHERE type = 'index'") if row[0]]
    file.close()
    with psycopg.connect(postgres_url) as server:
        there = [row[0] for row in server.execute("SELECT indexdef FROM pg_indexes")]
    for definitions in (here, there):
        assert any("tasks" in one and "session_id, status" in one for one in definitions)
    assert not [definition for definition in there if "ivfflat" in definition]
