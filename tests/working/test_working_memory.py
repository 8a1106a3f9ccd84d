"""Tasks: started, worked on, ended once, remembered as an episode."""

import json
import threading
from datetime import datetime, timedelta

import pytest
from at_once import at_once
from refusing import refused
from samples import by_words
from tables import read_tables

from jiyi.errors import InputError, NaiveDatetime, NotFound, WrongState
from jiyi.records import Episode, Query, Scope
from jiyi.storage import SqliteDatabase, Store
from jiyi.text import counter_for
from jiyi.working import WorkingMemory, task_block

ANA = Scope(user_id="ana", session_id="s")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001
TABLES = read_tables(__file__)


@pytest.fixture
def memory(store, clock):
    return WorkingMemory(store, clock=clock)


def test_a_task_from_start_to_episode(memory, store, clock):
    job = memory.start(ANA, "重启 nginx", target="web-7", tags=["ops"], context={"ticket": 502})
    began = clock.forward(seconds=1)
    step = memory.add_step(ANA, job.id, "docker restart nginx", tool_name="shell", args={"cmd": ["docker"]})
    assert (step.status, step.started_at, step.seq) == ("in_progress", began, 0)
    ended = clock.forward(seconds=2)
    done = memory.update_step(ANA, step.id, status="completed", result="ok")
    assert (done.result, done.started_at, done.completed_at) == ("ok", began, ended)
    current = memory.current(ANA)
    assert (current.steps, current.updated_at, current.status) == ((done,), ended, "in_progress")
    over = clock.forward(seconds=3)
    episode = memory.complete(ANA, job.id, summary="重启后恢复")
    assert (episode.outcome, episode.created_at, episode.steps) == ("success", over, (done,))
    assert store.find(Query(scope=ANA, kinds=("episode",))) == [episode]
    assert episode == Episode.of_task(memory.get(ANA, job.id))
    assert memory.get(ANA, job.id).status == "completed"
    assert memory.current(ANA) is None
    assert by_words(store, Query(scope=ANA, text="docker")) == [episode.id]


@pytest.mark.parametrize(
    ("end", "given", "status", "outcome"), TABLES["ways to end a task: verb, with what, status, outcome"]
)
def test_a_task_ends_once(memory, store, end, given, status, outcome):
    job = memory.start(ANA, "x")
    step = memory.add_step(ANA, job.id, "y")
    assert getattr(memory, end)(ANA, job.id, **json.loads(given)).outcome == outcome
    before = memory.get(ANA, job.id)
    assert before.status == status
    for late in (
        lambda: memory.complete(ANA, job.id),
        lambda: memory.fail(ANA, job.id),
        lambda: memory.add_step(ANA, job.id, "z"),
        lambda: memory.update_step(ANA, step.id, status="failed"),
        lambda: memory.update(ANA, job.id, goal="another"),
    ):
        refused(WrongState, rf"already {status}.*start_task", late)
    assert memory.get(ANA, job.id) == before
    assert store.count(Query(scope=ANA, kinds=("episode",)))["episode"] == 1


def test_two_processes_cannot_both_end_a_task(path, store, memory):
    job = memory.start(ANA, "x")
    other = Store(SqliteDatabase(path))
    together, ended = threading.Barrier(2), []

    def end(working):
        together.wait(10)
        try:
            ended.append(working.complete(ANA, job.id))
        except WrongState as error:
            return error
        return None

    errors = [error for error in at_once(end, [memory, WorkingMemory(other)]) if error]
    other.close()
    assert (len(ended), len(errors)) == (1, 1)
    assert store.count(Query(scope=ANA, kinds=("episode",)))["episode"] == 1


def test_other_users_and_agents_find_nothing(memory):
    mine = Scope(user_id="ana", agent_id="a", session_id="s")
    job = memory.start(mine, "x")
    step = memory.add_step(mine, job.id, "y")
    for scope in (Scope(user_id="ben"), Scope(user_id="ana", agent_id="b")):
        for reach in (
            lambda scope=scope: memory.get(scope, job.id),
            lambda scope=scope: memory.add_step(scope, job.id, "z"),
            lambda scope=scope: memory.update_step(scope, step.id, status="failed"),
            lambda scope=scope: memory.complete(scope, job.id),
            lambda scope=scope: memory.update(scope, job.id, goal="z"),
        ):
            refused(NotFound, scope.user_id, reach)
    assert [s.description for s in memory.get(mine, job.id).steps] == ["y"]
    assert memory.get(Scope(user_id="ana", session_id="elsewhere"), job.id).id == job.id


BAD = TABLES["what is wrong, the verb, and what it is given"]


@pytest.mark.parametrize(("verb", "given"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_unusable_input_is_refused_and_changes_nothing(memory, store, verb, given):
    job = memory.start(ANA, "x")
    step = memory.add_step(ANA, job.id, "y")
    before = memory.get(ANA, job.id)
    about = {"start": (), "update_step": (step.id,)}.get(verb, (job.id,))
    with pytest.raises(InputError) as caught:
        getattr(memory, verb)(ANA, *about, **eval(given))
    assert isinstance(caught.value, NaiveDatetime) == ("zone" in str(caught.value))
    assert store.find(Query(scope=ANA, kinds=("task", "episode"))) == [before]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_block_shows_goal_steps_and_the_step_in_work(memory, clock, language):
    job = memory.start(ANA, "fix 502", target="web-7")
    memory.add_step(ANA, job.id, "look", result="a\nlong " + "log " * 200, status="completed")
    memory.add_step(ANA, job.id, "restart")
    memory.add_step(ANA, job.id, "check", status="pending")
    counter = counter_for()
    block = task_block(memory.get(ANA, job.id), counter, language)
    lines = block.text.split("\n")
    assert len(lines) == 7
    assert "fix 502" in lines[0]
    assert lines[1] == {"zh": "状态：进行中", "en": "Status: in progress"}[language]
    assert "web-7" in lines[2]
    assert lines[3].startswith("1.")
    assert lines[3].endswith("…")
    assert len(lines[3]) < 220
    assert "restart" in lines[4]
    assert lines[6] == {"zh": "当前步骤：restart", "en": "Now: restart"}[language]
    assert (block.tokens, block.section, block.source_id) == (counter.count_text(block.text), "task", job.id)
    assert ("请求" in block.text) == (language == "zh")
    assert clock() - block.created_at == timedelta(0)


def test_a_summary_given_at_the_end_takes_the_place_of_the_one_before(memory):
    job = memory.start(ANA, "x")
    memory.update(ANA, job.id, summary="half of it")
    assert memory.fail(ANA, job.id, reason="no rights").outcome_summary == "no rights"


def test_two_writers_notes_are_both_kept(path, memory):
    job = memory.start(ANA, "x")
    other = Store(SqliteDatabase(path))
    writers = [(memory, "a"), (WorkingMemory(other), "b")]
    at_once(lambda work: work[0].update(ANA, job.id, context={work[1]: 1}), writers)
    other.close()
    assert memory.get(ANA, job.id).context == {"a": 1, "b": 1}


SHOWN = {
    "zh": ["请求：fix 502", "状态：进行中", '背景：ticket：502；where：{"主机": "a b"}', "进展：查到一半"],
    "en": [
        "Request: fix 502",
        "Status: in progress",
        'Context: ticket: 502; where: {"主机": "a b"}',
        "So far: 查到一半",
    ],
}


@pytest.mark.parametrize("language", SHOWN)
def test_the_block_shows_context_and_summary_but_not_the_programs_own_notes(memory, language):
    job = memory.start(ANA, "fix 502", context={"_made_by": "me", "ticket": 502, "where": {"主机": "a b"}})
    task = memory.update(ANA, job.id, summary="查到\n一半")
    assert (
        task_block(task, counter_for(), language).text.replace("到 一", "到一").split("\n") == SHOWN[language]
    )


def test_long_context_is_clipped(memory):
    job = memory.start(ANA, "x", context={f"n{n}": "long " * 200 for n in range(100)})
    lines = task_block(job, counter_for(), "en").text.split("\n")
    assert len(lines) == 3
    assert len(lines[2]) < 850


def test_the_newest_failure_shows_its_errors_and_how_to_open_the_whole(memory):
    log = ["--- FAIL", *(f"tx {n}: got {n}" for n in range(200)), "panic: index out of range", "exit 1"]
    job = memory.start(ANA, "fix it")
    _, last = (memory.add_step(ANA, job.id, "test", status="failed", result="\n".join(log)) for _ in "12")
    text = task_block(memory.get(ANA, job.id), counter_for(), "en").text.split("\n")
    assert text[-2].endswith("…"), "of an older failure, the beginning"
    assert "panic" not in text[-2]
    assert all(part in text[-1] for part in ("panic: index out of range", "199 more lines", last.id))
    assert counter_for().count_text(text[-1]) < 140
