"""What a memory in three layers has to do: experience and knowledge, found, forgotten and taught."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import apsw
import numpy as np
import psycopg
import pytest
from scripted_endpoint import ScriptedEndpoint
from scripted_rerank import ScriptedRerank
from typer.testing import CliRunner

import jiyi
from jiyi import Episode, ForgetRule, Knowledge, Step
from jiyi.cli.app import app
from jiyi.errors import EmbeddingError
from jiyi.llm import Reply
from jiyi.records import Outcome, Scope, TriggerType
from jiyi.testing import HashEmbedder, ManualClock

Open = Callable[..., jiyi.MemoryManager]
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
ANA = Scope(user_id="ana")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(params=["file", "server"])
def either(
    request: pytest.FixtureRequest, open_memory: Open, path: Any, clock: ManualClock
) -> jiyi.MemoryManager:
    """A memory on a file, and one on a server."""
    url = path if request.param == "file" else request.getfixturevalue("postgres_url")
    return open_memory(url, clock=clock)


def work(
    memory: jiyi.MemoryManager, request: str, *steps: str, fails: bool = False, **options: Any
) -> Episode:
    task = memory.start_task(options.pop("session", "s"), request, **options)
    for step in steps:
        memory.add_step(task.id, step, tool_name="shell", status="completed", result="exit 0")
    if fails:
        return memory.fail_task(task.id, reason=f"no luck with {request}")
    return memory.complete_task(task.id, summary=f"did {request}")


class Noting:
    """A reranker that likes short texts, and notes what it was shown."""

    name = "noting"

    def __init__(self) -> None:
        self.shown: list[list[str]] = []

    def score(self, query: str, texts: Any) -> list[float]:
        self.shown.append(list(texts))
        return [-float(len(text)) for text in texts]


class Placed:
    """An embedder that gives each text a direction in the plane, by its angle in degrees."""

    name, dims = "placed", 2

    def __init__(self, **angles: float) -> None:
        self.angles = angles

    def embed(self, texts: Any, kind: Any) -> Any:
        turned = np.radians([self.angles[text] for text in texts])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)


def names(record: type) -> set[str]:
    return {field.name for field in fields(record)}


# --- what is kept


def test_an_episode_and_a_knowledge_have_the_parts_they_need() -> None:
    """The fields by which experience and lessons are kept, judged and found."""
    assert names(Episode) >= {
        *("trigger_type", "trigger_summary", "steps", "outcome", "outcome_summary", "importance"),
        *("access_count", "last_accessed_at", "pinned", "target", "tags", "created_at", "scope"),
    }
    assert names(Knowledge) >= {
        *("topic", "content", "key_points", "source_episodes", "confidence", "access_count"),
        *("last_accessed_at", "created_at", "updated_at"),
    }
    assert set(get_args(TriggerType)) == {"user_request", "alert", "scheduled"}
    assert set(get_args(Outcome)) == {"success", "partial", "failed"}


@pytest.mark.parametrize("dims", [8, 1024, 1536])
def test_vectors_may_have_any_size(open_memory: Open, request: pytest.FixtureRequest, dims: int) -> None:
    """No size of vectors is built in, on a file or on a server."""
    for url in (None, request.getfixturevalue("postgres_url")):
        memory = open_memory(*([url] if url else []), embedder=HashEmbedder(dims))
        episode = work(memory, "restart nginx")
        memory.flush()
        assert memory.stats()["vectors_pending"] == 0
        assert memory.search_episodes("nginx")[0].id == episode.id
        memory.close()


# --- search


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_three_times_the_limit_is_looked_at_before_the_limit_is_cut(open_memory: Open, limit: int) -> None:
    """A search takes at least 3 x limit candidates, reranks them, and returns the best of these."""
    reranker = Noting()
    memory = open_memory(reranker=reranker)
    for number in range(40):
        work(memory, f"restart nginx on host {'very ' * (40 - number)}far away")
    memory.flush()
    found = memory.search_episodes("restart nginx", limit=limit)
    (shown,) = reranker.shown
    assert len(set(shown)) == len(shown) >= 3 * limit
    assert [hit.text for hit in found] == sorted(shown, key=len)[:limit]


def test_searches_count_what_they_return_without_waiting_for_the_write(
    open_memory: Open, path: Any, clock: ManualClock
) -> None:
    """The count and time of use are written after the answer, even while another process writes."""
    memory = open_memory(clock=clock, lock_timeout=20)
    episode = work(memory, "restart nginx")
    memory.flush()
    used, began = clock.forward(days=1), time.monotonic()
    other = apsw.Connection(str(path))
    other.set_busy_timeout(20_000)
    other.execute("BEGIN IMMEDIATE")
    assert memory.search_episodes("nginx")[0].id == episode.id
    assert time.monotonic() - began < 15
    other.execute("ROLLBACK")
    other.close()
    memory.close()
    (stored,) = open_memory(clock=clock).episodes()
    assert (stored.access_count, stored.last_accessed_at) == (1, used)


def test_the_nearest_by_cosine_are_found(open_memory: Open, path: Any, postgres_url: str) -> None:
    """Without a word in common the smallest angle decides, on a file and on a server."""
    angles = {"gamma": 80.0, "delta": 170.0, "alpha": 5.0, "beta": 40.0, "question": -5.0}
    for url in (path, postgres_url):
        memory = open_memory(url, embedder=Placed(**angles))
        for word in list(angles)[:4]:
            memory.save_message(word, role="user", content=word)
        memory.flush()
        found = [hit.text for hit in memory.search("question", kinds="message")]
        assert found == ["alpha", "beta", "gamma", "delta"]
        memory.close()


def test_no_index_needs_training_data(postgres_url: str, open_memory: Open) -> None:
    """No ivfflat index is made, which finds nothing good until it was built over data."""
    open_memory(postgres_url).close()
    with psycopg.connect(postgres_url) as server:
        extension = server.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchall()
        made = [row[0] for row in server.execute("SELECT indexdef FROM pg_indexes")]
    assert extension == [(1,)]
    assert made
    assert not [definition for definition in made if "ivfflat" in definition]


def test_vectors_and_second_looks_come_from_a_hosted_api(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Embeddings and reranking of the BGE family are asked of an endpoint."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedEndpoint() as vectors, ScriptedRerank() as second:
        memory = open_memory(
            embedder="openai",
            embedding_model="BAAI/bge-m3",
            embedding_base_url=vectors.url,
            embedding_api_key="none",
            reranker="endpoint",
            reranker_model="BAAI/bge-reranker-v2-m3",
            reranker_base_url=second.url,
        )
        work(memory, "restart nginx")
        longer = work(memory, "restart nginx on the oldest of all the hosts")
        memory.flush()
        assert memory.search_episodes("restart nginx", limit=1)[0].id == longer.id
        memory.close()
        assert {asked["model"] for asked in vectors.asked} == {"BAAI/bge-m3"}
        assert {asked["model"] for asked in second.asked} == {"BAAI/bge-reranker-v2-m3"}


def test_a_search_that_fails_in_part_says_so(open_memory: Open) -> None:
    """An embedder that fails leaves a note in the hits and in the window's report."""

    class Broken(HashEmbedder):
        def embed(self, texts: Any, kind: Any) -> Any:
            raise EmbeddingError("the embedder is away")

    memory = open_memory(embedder=Broken())
    work(memory, "restart nginx")
    assert any("the embedder is away" in note for note in memory.search("nginx").notes)
    report = memory.build_context("new", "nginx?").report
    assert any("the embedder is away" in note for note in report.notes)


# --- the forget gate


def drawn(chance: random.Random, number: int) -> Episode:
    """An episode of any age, use, outcome, trigger and length."""
    step = Step(scope=ANA, task_id="t", description="look")
    return Episode(
        id=f"e{number}",
        scope=ANA,
        trigger_summary="x",
        outcome=chance.choice(get_args(Outcome)),
        created_at=START - timedelta(hours=chance.uniform(0, 4_000)),
        trigger_type=chance.choice(get_args(TriggerType)),
        access_count=chance.randrange(8),
        steps=(step,) * chance.randrange(7),
        pinned=chance.random() < 0.2,
    )


def importance(episode: Episode) -> float:
    """The published formula."""
    hours = (START - episode.created_at).total_seconds() / 3_600
    worth = 0.5 - min(0.3, hours / 720 * 0.1) + min(0.2, episode.access_count * 0.05)
    worth += {"success": 0.1, "partial": 0.0, "failed": -0.05}[episode.outcome]
    worth += 0.15 if episode.trigger_type == "alert" else 0.0
    worth += 0.1 if len(episode.steps) > 3 else 0.0
    return max(0.0, min(1.0, worth))


def test_the_importance_of_an_episode_follows_the_published_formula() -> None:
    """Age, use, outcome, trigger and length make the importance, as written down above."""
    chance, rule = random.Random(7), ForgetRule()
    for number in range(1_000):
        episode = drawn(chance, number)
        assert rule.importance(episode, START) == pytest.approx(importance(episode))
    assert (rule.threshold, rule.max_episodes, rule.min_age) == (0.25, 10_000, timedelta(days=7))


def test_the_forget_gate_lets_go_below_the_threshold_and_above_the_limit(open_memory: Open) -> None:
    """What is worth too little and old enough goes, then the least of too many; pinned ones stay."""
    clock = ManualClock(START - timedelta(days=90))
    memory = open_memory(clock=clock, forget_rule=ForgetRule(max_episodes=3))
    old = [work(memory, f"old failure {n}", fails=True) for n in range(2)]
    memory.pin(old[0].id)
    clock.forward(days=88)
    young = [work(memory, f"young failure {n}", fails=True) for n in range(2)]
    good = [work(memory, f"success {n}") for n in range(2)]
    clock.forward(days=2)
    told = memory.run_forget_gate(dry_run=True)
    assert len(memory.episodes()) == 6
    receipt = memory.run_forget_gate()
    assert receipt.discarded == told.discarded
    assert receipt.discarded["episode"] == {"importance below 0.25": 1, "more than 3 episodes": 2}
    kept = {episode.id: episode.importance for episode in memory.episodes()}
    assert set(kept) == {old[0].id, *(episode.id for episode in good)}
    assert kept[good[0].id] == pytest.approx(0.6 - 0.1 * 48 / 720)
    assert {item.id for item in receipt.items if item.kind == "episode"} == {
        old[1].id,
        *(episode.id for episode in young),
    }
    memory.restore(old[1].id)
    assert old[1].id in {episode.id for episode in memory.episodes()}


# --- consolidation and maintenance


class Teacher:
    """A language model that writes this lesson, and notes what it was shown."""

    def __init__(self, **lesson: Any) -> None:
        self.lesson, self.asked = lesson, list[str]()

    def complete(self, messages: Any, **options: Any) -> Reply:
        self.asked.append(messages[0]["content"])
        return Reply(text=json.dumps(self.lesson))


LESSON = {"topic": "nginx", "content": "A restart helps.", "key_points": ["Restart."], "confidence": 0.2}


def test_episodes_about_one_target_become_a_knowledge(open_memory: Open) -> None:
    """Three of one target are shown to the model, its JSON is saved, and the sources are marked."""
    model = Teacher(**LESSON)
    memory = open_memory(llm=model, reader="off")
    two = [work(memory, f"502 number {n}", "docker restart nginx", target="nginx") for n in range(2)]
    work(memory, "elsewhere", target="db-1")
    assert memory.run_consolidation().groups == ()
    assert (memory.knowledge(), model.asked) == ([], [])
    three = [*two, work(memory, "502 number 2", "docker restart nginx", target="nginx", fails=True)]
    memory.run_consolidation()
    (known,) = memory.knowledge()
    assert (known.topic, known.content, known.key_points) == ("nginx", "A restart helps.", ("Restart.",))
    assert set(known.source_episodes) == {episode.id for episode in three}
    assert 0.5 <= known.confidence <= 1, "though the model was less sure"
    (prompt,) = model.asked
    for part in ("502 number 0", "success", "failed", "docker restart nginx", "no luck with 502 number 2"):
        assert part in prompt
    assert {e.id: e.consolidated for e in memory.episodes()} == {
        e.id: e.target == "nginx" for e in memory.episodes()
    }
    memory.run_consolidation()
    assert len(model.asked) == 1, "what is marked is not read again"


def test_maintenance_runs_both_the_consolidation_and_the_forget_gate(open_memory: Open) -> None:
    """One call, made on a schedule, lets experience teach and lets go of what is worth too little."""
    clock = ManualClock(START)
    memory = open_memory(clock=clock)
    for number in range(3):
        work(memory, f"failure {number}", "restart", target="nginx", fails=True)
    clock.forward(days=70)
    done = memory.maintain()
    assert done.consolidation is not None
    assert len(done.consolidation.groups) == len(memory.knowledge()) == 1
    assert done.gate.discarded["episode"] == {"importance below 0.25": 3}
    assert memory.episodes() == []


def test_a_scheduler_can_run_the_maintenance(
    open_memory: Open, path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line does the same without a question, for cron or a timer."""
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: HashEmbedder())
    memory = open_memory(clock=ManualClock(datetime.now(UTC) - timedelta(days=70)))
    for number in range(3):
        work(memory, f"failure {number}", "restart", target="nginx", fails=True)
    memory.flush()
    memory.close()
    result = CliRunner().invoke(app, ["maintain", "--db", str(path), "--json"])
    assert result.exit_code == 0, result.output
    memory = open_memory()
    assert (len(memory.knowledge()), memory.episodes()) == (1, [])


# --- one manager


def test_one_manager_does_it_all(either: jiyi.MemoryManager) -> None:
    """Save and read messages, work on tasks, search, build a window, forget and learn."""
    either.save_message("s", role="user", content="nginx answers 502")
    assert [m.content for m in either.recent_messages("s")] == ["nginx answers 502"]
    task = either.start_task("s", "fix nginx", target="nginx")
    assert either.current_task("s") == task
    either.complete_task(task.id, summary="restarted")
    for number in range(2):
        work(either, f"fix nginx again {number}", "restart", target="nginx")
    assert len(either.run_consolidation().groups) == 1
    either.flush()
    assert {hit.kind for hit in either.search_episodes("nginx")} == {"episode"}
    assert {hit.kind for hit in either.search_knowledge("nginx")} == {"knowledge"}
    assert "nginx answers 502" in either.build_context("s", "nginx?").markdown
    assert either.run_forget_gate().total == 0


def test_a_window_shows_the_four_sections(open_memory: Open) -> None:
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
