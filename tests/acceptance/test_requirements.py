"""What memory of agents asks of the whole, beyond what the tests of each part say."""

from dataclasses import replace

import apsw
import psycopg
import pytest
from tables import read_tables

from jiyi import Budget, ImportanceSampling, TokenBudget
from jiyi.errors import BudgetTooSmall
from jiyi.records import Message
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


def test_a_session_is_handed_over_in_few_tokens(memory):
    """The next session begins with the goal, the state of the task and what was decided."""
    memory.save_message("s", role="user", content="Find out why orders-api runs out of memory")
    memory.save_message("s", role="assistant", content="We decided to limit the cache to 2 GB.")
    memory.save_messages("s", talk(8, words=10))
    task = memory.start_task("s", "stop the leak of orders-api")
    memory.add_step(task.id, "read the heap dump", status="completed")
    text = memory.handover("s", 300)
    assert COUNTER.count_text(text) <= 300
    for part in ("stop the leak of orders-api", "limit the cache to 2 GB", "read the heap dump"):
        assert part in text


def test_a_growing_session_is_to_be_restarted_before_the_limit(memory):
    """Short it goes on; stale, repetitive and off its goal it is to start over before it is full."""
    memory.save_message("s", role="user", content="Find out why orders-api runs out of memory")
    assert memory.session_advice("s", 4_000).action == "continue"
    for number in range(15):
        text = f"the colours of the garden chairs in row {number} are still the same as they were before"
        memory.save_messages("s", [said("user", text), said("assistant", text)])
    assert 0.4 < memory.session_health("s", 1_200).length < 1
    advice = memory.session_advice("s", 1_200)
    assert advice.action == "restart"
    assert advice.reasons


@pytest.mark.parametrize(("score", "text"), TABLES["scores of messages"])
def test_importance_sampling_scores_messages(score, text):
    """Key decisions 1.0, technical details .7, ordinary words .5, small talk .3, in both languages."""
    (gone,) = ImportanceSampling(max_messages=1)([said("user", text), said("user", "now")]).dropped
    assert float(gone.reason.split()[1].rstrip(",")) == pytest.approx(float(score), abs=0.1)


@pytest.mark.parametrize("size", [300, 900])
def test_the_output_is_reserved_and_the_input_never_over_its_limit(memory, size):
    """Whatever there is to show, what is sent leaves room for the reply in the model's window."""
    memory.save_messages("s", talk(10, words=10))
    memory.save_messages("old", talk(6, words=5))
    budget = Budget.of_window(size, max_output_tokens=100)
    window = memory.build_context("s", "what did the user say?", budget)
    assert budget.max_input_tokens + budget.max_output_tokens == size
    assert window.report.tokens <= size - 100
    sent = [Message.from_openai(message) for message in window.messages]
    assert COUNTER.count_all(sent) == window.report.tokens
