"""What a memory in three layers has to do: sessions in short-term memory, tasks in working memory."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import apsw
import psycopg
import pytest

import jiyi
from jiyi import Episode, Task
from jiyi.errors import WrongState
from jiyi.records import Scope, StepStatus, TaskStatus
from jiyi.short_term import ShortTermMemory
from jiyi.storage import SqliteDatabase, Store
from jiyi.testing import ManualClock

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


# --- the three layers


def test_working_and_long_term_memory_are_permanent_and_sessions_apart(open_memory: Open) -> None:
    """Sessions keep to themselves; tasks, episodes and messages are there in the next process."""
    memory = open_memory()
    memory.save_message("a", role="user", content="one")
    memory.save_message("b", role="user", content="two")
    task = memory.start_task("a", "restart nginx")
    episode = work(memory, "renew the certificate")
    memory.close()
    memory = open_memory()
    assert [m.content for m in memory.recent_messages("a")] == ["one"]
    assert memory.current_task("a") == task
    assert memory.episodes() == [episode]


def test_a_message_has_role_content_time_and_metadata_and_its_session_when_it_was_active(
    open_memory: Open, clock: ManualClock
) -> None:
    """A session belongs to a user and knows when it was last active."""
    memory = open_memory(clock=clock)
    memory.save_message("s", role="user", content="hello", metadata={"channel": "slack"})
    later = clock.forward(minutes=5)
    memory.save_message("s", role="assistant", content="hi")
    first, last = memory.recent_messages("s")
    assert (first.role, first.content, first.created_at, first.metadata) == (
        "user",
        "hello",
        START,
        {"channel": "slack"},
    )
    (session,) = memory.sessions()
    assert (session.id, session.scope.user_id, session.last_active_at) == ("s", "ana", later)
    assert last.created_at == later


@pytest.mark.parametrize("turns", [1, 4, 20])
def test_max_turns_keeps_at_most_twice_as_many_messages(open_memory: Open, turns: int) -> None:
    """A session's window holds at most max_turns x 2 messages, the newest."""
    memory = open_memory(max_turns=turns)
    talk = [{"role": role, "content": f"{role} {n}"} for n in range(30) for role in ("user", "assistant")]
    memory.save_messages("s", talk)
    assert [m.content for m in memory.recent_messages("s")] == [m["content"] for m in talk[-2 * turns :]]
    chatty = [{"role": role, "content": "so"} for _ in range(30) for role in ("user", *["assistant"] * 4)]
    memory.save_messages("chatty", chatty)
    assert 0 < len(memory.recent_messages("chatty")) <= 2 * turns


def test_a_background_sweep_removes_inactive_sessions(path: Any, clock: ManualClock) -> None:
    """A thread lets go of sessions inactive for longer than the ttl; their messages stay stored."""
    swept: list[int] = []

    class Watched(ShortTermMemory):
        def sweep(self) -> int:
            swept.append(super().sweep())
            return swept[-1]

    store = Store(SqliteDatabase(path))
    memory = Watched(store, ttl=timedelta(minutes=30), clock=clock, sweep_every=timedelta(milliseconds=20))
    session = ANA.in_session("s")
    store.put([jiyi.Message(role="user", content="kept", scope=session, created_at=START)])
    assert len(memory.messages(session)) == 1
    clock.forward(minutes=31)
    until = time.monotonic() + 20
    while not sum(swept) and time.monotonic() < until:
        time.sleep(0.01)
    assert sum(swept) == 1
    assert [m.content for m in memory.messages(session)] == ["kept"]
    memory.close()
    store.close()


def test_the_sweep_comes_every_minute_by_default() -> None:
    """Without a setting the sweep is every minute."""
    assert ShortTermMemory.__init__.__kwdefaults__["sweep_every"] == timedelta(minutes=1)


def test_a_sweep_between_reading_and_saving_loses_no_message(path: Any, clock: ManualClock) -> None:
    """What is saved while sessions are swept is there for the next reader."""
    store = Store(SqliteDatabase(path))
    memory = ShortTermMemory(store, ttl=timedelta(minutes=1), clock=clock, max_turns=200)
    session, stop = ANA.in_session("s"), threading.Event()

    def sweep() -> None:
        while not stop.wait(0.001):
            clock.forward(minutes=2)
            memory.sweep()

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    for number in range(60):
        store.put([jiyi.Message(role="user", content=str(number), scope=session, created_at=START)])
        assert memory.messages(session)[-1].content == str(number)
    stop.set()
    sweeper.join()
    assert [m.content for m in memory.messages(session)] == [str(number) for number in range(60)]
    memory.close()
    store.close()


# --- tasks


def test_a_task_has_the_parts_it_needs(either: jiyi.MemoryManager) -> None:
    """Request, session, user, summary, steps, current step, free context, status and times."""
    task = either.start_task("s", "fix 502", context={"ticket": 7, "hosts": ["a", "b"]})
    either.update_task(task.id, summary="found the cause")
    either.add_step(task.id, "look", status="completed")
    now = either.add_step(task.id, "restart")
    stored = either.get(task.id)
    assert isinstance(stored, Task)
    assert (stored.request, stored.scope.session_id, stored.scope.user_id) == ("fix 502", "s", "ana")
    assert (stored.summary, stored.context) == ("found the cause", {"ticket": 7, "hosts": ["a", "b"]})
    assert ([step.description for step in stored.steps], stored.current_step) == (["look", "restart"], now)
    assert (stored.status, stored.started_at, stored.updated_at) == ("in_progress", START, START)


def test_the_states_of_a_task(either: jiyi.MemoryManager) -> None:
    """A task is in progress until it is completed or failed, once and for all."""
    assert set(get_args(TaskStatus)) == {"in_progress", "completed", "failed"}
    for end, status in ((either.complete_task, "completed"), (either.fail_task, "failed")):
        task = either.start_task("s", "fix 502")
        step = either.add_step(task.id, "look")
        assert either.get(task.id).status == "in_progress"
        end(task.id)
        assert either.get(task.id).status == status
        changes: list[Callable[[], Any]] = [
            lambda task=task: either.complete_task(task.id),
            lambda task=task: either.fail_task(task.id),
            lambda task=task: either.update_task(task.id, goal="again"),
            lambda task=task: either.add_step(task.id, "more"),
            lambda step=step: either.update_step(step.id, status="completed"),
        ]
        for change in changes:
            with pytest.raises(WrongState):
                change()
        assert either.get(task.id).status == status


def test_the_states_of_a_step(either: jiyi.MemoryManager, clock: ManualClock) -> None:
    """A step is pending, in progress, completed or failed, and its times are taken as it moves."""
    assert set(get_args(StepStatus)) == {"pending", "in_progress", "completed", "failed"}
    task = either.start_task("s", "fix 502")
    step = either.add_step(task.id, "restart", tool_name="shell", args={"cmd": "x"}, status="pending")
    assert (step.tool_name, step.args, step.started_at, step.completed_at) == (
        "shell",
        {"cmd": "x"},
        None,
        None,
    )
    began = clock.forward(minutes=1)
    step = either.update_step(step.id, status="in_progress")
    assert (step.started_at, step.completed_at) == (began, None)
    ended = clock.forward(minutes=1)
    step = either.update_step(step.id, status="failed", result="exit 1")
    assert (step.result, step.started_at, step.completed_at) == ("exit 1", began, ended)
    again = either.update_step(step.id, status="in_progress")
    assert (again.started_at, again.completed_at) == (began, None)
    assert again.description == "restart"


def test_a_task_that_ends_becomes_an_episode(either: jiyi.MemoryManager) -> None:
    """Start, steps, end: what remains is one episode with all of it, found by a search."""
    task = either.start_task("s", "fix 502", target="web-7", tags=["nginx"], trigger_type="alert")
    step = either.add_step(task.id, "restart", tool_name="shell")
    step = either.update_step(step.id, status="completed", result="ok")
    episode = either.complete_task(task.id, outcome="partial", summary="runs again")
    assert (episode.trigger_summary, episode.trigger_type, episode.steps) == ("fix 502", "alert", (step,))
    assert (episode.outcome, episode.outcome_summary) == ("partial", "runs again")
    assert (episode.target, episode.tags, episode.created_at) == ("web-7", ("nginx",), START)
    assert either.episodes() == [episode]
    assert either.search_episodes("web-7 restart")[0].record.id == episode.id
    assert either.current_task("s") is None


def test_tasks_are_indexed_by_session_and_status(open_memory: Open, path: Any, postgres_url: str) -> None:
    """Both databases have an index on a task's session and status."""
    for url in (path, postgres_url):
        open_memory(url).close()
    file = apsw.Connection(str(path))
    rows = file.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks'")
    found = [row[0] for row in rows if row[0]]
    file.close()
    with psycopg.connect(postgres_url) as server:
        rows = server.execute("SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'tasks%'")
        found_there = [row[0] for row in rows]
    for definitions in (found, found_there):
        assert any("session_id, status" in definition for definition in definitions)
