"""What memory of agents asks of the whole, beyond what the tests of each part say."""

from dataclasses import replace

import apsw
import psycopg
import pytest
from tables import read_tables

from jiyi import ImportanceSampling, TokenBudget
from jiyi.testing import HashEmbedder
from jiyi.text import TokenCounter, counter_for

COUNTER = counter_for("gpt-4o")
TABLES = read_tables(__file__)


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
    memory.add_step(memory.start_task("s", "恢复主机").id, "查看日志")
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


def said(role, text):
    return {"role": role, "content": text}


def talk(turns, words=1):
    some = "and so on " * words
    return [said(role, f"{role} {n} {some}") for n in range(turns) for role in ("user", "assistant")]


def test_a_window_summarises_when_four_fifths_are_full(open_memory):
    """A memory folds by itself at the same mark."""
    memory = open_memory()
    memory.save_messages("s", talk(6, words=14))
    full = sum(message.tokens for message in memory.session_messages("s")) + 3
    assert memory.build_context("s", "?", full * 10 // 7).report.steps == ()
    assert memory.summary("s") is None
    steps = memory.build_context("s", "?", full * 10 // 9).report.steps
    assert [step.what for step in steps] == ["summarised"]


def test_token_truncation_does_not_count_again_what_was_counted(memory):
    """A stored message carries its count, so that a longer conversation costs no second counting."""

    class Silent(TokenCounter):
        def count_text(self, text: str) -> int:
            raise AssertionError("counted again")

    memory.save_messages("s", talk(9))
    stored = memory.session_messages("s")
    assert [m.tokens for m in stored] == [memory.counter.count(replace(m, tokens=None)) for m in stored]
    assert 1 < len(TokenBudget(100, counter=Silent())(stored).kept) < len(stored)


@pytest.mark.parametrize(("score", "text"), TABLES["scores of messages"])
def test_importance_sampling_scores_messages(score, text):
    """Key decisions 1.0, technical details .7, ordinary words .5, small talk .3, in both languages."""
    (gone,) = ImportanceSampling(max_messages=1)([said("user", text), said("user", "now")]).dropped
    assert float(gone.reason.split()[1].rstrip(",")) == pytest.approx(float(score), abs=0.1)
