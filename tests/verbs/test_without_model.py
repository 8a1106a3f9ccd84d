"""Without the bundled model's data file: every verb goes by words, the log says so once, a fetch mends it."""

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from at_once import wait_until

import jiyi
from jiyi.embeddings.e5.locate import model_file
from jiyi.errors import ModelMissing

SKILLS = Path(__file__).parents[2] / "examples" / "skills"
Memory = jiyi.MemoryManager


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("JIYI_MODEL_FILE", str(tmp_path / "e5-small-q4.bin"))
    return tmp_path / "e5-small-q4.bin"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A file that was filled without the model."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JIYI_MODEL_FILE", str(folder / "e5-small-q4.bin"))
        with jiyi.open(folder / "filled.db", user_id="ana", background=False, skills=[SKILLS]) as opened:
            fill(opened)
    return folder / "filled.db"


@pytest.fixture
def memory(path, nowhere, template):
    shutil.copy(template, path)
    with jiyi.open(path, user_id="ana", background=False, skills=[SKILLS]) as opened:
        yield opened


def fill(memory: Memory) -> None:
    memory.save_message("s", role="user", content="The port of pay-gw is 8443.", id="m1")
    memory.save_message("s", role="user", content="pay-gw's port changed from 8443 to 9443.", id="m2")
    memory.save_message("s", role="user", content="磁盘又满了", id="m3")
    for number in range(3):
        task = memory.start_task("s", request="clean the disk of edge-1", target="edge-1")
        memory.add_step(task.id, "delete old logs", tool_name="shell")
        memory.complete_task(task.id, outcome="success", summary=f"cleaned, try {number}")


def open_task(memory: Memory) -> Any:
    return memory.start_task("t", request="restart nginx")


def a_step(memory: Memory) -> Any:
    return memory.add_step(open_task(memory).id, "look")


VERBS: dict[str, Callable[[Memory, Path], Any]] = {
    "add_step": lambda m, _: a_step(m),
    "build_context": lambda m, _: m.build_context("s", "Which port has pay-gw?", budget=2_000),
    "close_skill": lambda m, _: m.close_skill("s", "disk-cleanup"),
    "complete_task": lambda m, _: m.complete_task(open_task(m).id, outcome="success", summary="done"),
    "current_task": lambda m, _: m.current_task("s"),
    "episodes": lambda m, _: m.episodes(),
    "export": lambda m, folder: m.export(folder / "out.jsonl"),
    "facts": lambda m, _: m.facts("pay-gw"),
    "fail_task": lambda m, _: m.fail_task(open_task(m).id, reason="no"),
    "flush": lambda m, _: m.flush(),
    "forget": lambda m, _: m.forget("8443"),
    "get": lambda m, _: m.get("m1"),
    "get_item": lambda m, _: m.get_item("n", "k"),
    "get_items": lambda m, _: m.get_items("n", ["k"]),
    "handover": lambda m, _: m.handover("s"),
    "history": lambda m, _: m.history("pay-gw"),
    "import_": lambda m, folder: (m.export(folder / "out.jsonl"), m.import_(folder / "out.jsonl")),
    "item_history": lambda m, _: m.item_history("n", "k"),
    "items": lambda m, _: m.items(),
    "knowledge": lambda m, _: m.knowledge(),
    "learn_facts": lambda m, _: m.learn_facts(session_id="s"),
    "maintain": lambda m, _: m.maintain(),
    "namespaces": lambda m, _: m.namespaces(),
    "neighbours": lambda m, _: m.neighbours("pay-gw"),
    "open_output": lambda m, _: m.open_output("m1"),
    "open_skill": lambda m, _: m.open_skill("s", m.skills()[0].name),
    "opened_skills": lambda m, _: m.opened_skills("s"),
    "pin": lambda m, _: m.pin("m1"),
    "pop_message": lambda m, _: m.pop_message("s"),
    "pop_messages": lambda m, _: m.pop_messages("s", 2),
    "profile": lambda m, _: m.profile(),
    "put_item": lambda m, _: m.put_item("n", "k", {"t": "tea"}),
    "put_items": lambda m, _: m.put_items([{"namespace": "n", "key": "k", "value": {}}]),
    "reading": lambda m, _: m.reading(),
    "recent_messages": lambda m, _: m.recent_messages("s"),
    "remember": lambda m, _: m.remember("Ana prefers tea."),
    "replace_messages": lambda m, _: m.replace_messages("s", [{"role": "user", "content": "x"}]),
    "restore": lambda m, _: (m.forget(ids=["m1"]), m.restore("m1")),
    "run_consolidation": lambda m, _: m.run_consolidation(),
    "run_forget_gate": lambda m, _: m.run_forget_gate(),
    "save_message": lambda m, _: m.save_message("s", role="user", content="x"),
    "save_messages": lambda m, _: m.save_messages("s", [{"role": "user", "content": "x"}]),
    "search": lambda m, _: m.search("pay-gw"),
    "search_episodes": lambda m, _: m.search_episodes("disk"),
    "search_knowledge": lambda m, _: m.search_knowledge("disk"),
    "session_advice": lambda m, _: m.session_advice("s"),
    "session_health": lambda m, _: m.session_health("s"),
    "session_messages": lambda m, _: m.session_messages("s"),
    "sessions": lambda m, _: m.sessions(),
    "skills": lambda m, _: m.skills(),
    "start_task": lambda m, _: open_task(m),
    "stats": lambda m, _: m.stats(),
    "summarize_session": lambda m, _: m.summarize_session("s"),
    "summary": lambda m, _: m.summary("s"),
    "tasks": lambda m, _: m.tasks(),
    "unpin": lambda m, _: (m.pin("m1"), m.unpin("m1")),
    "update": lambda m, _: m.update("m1", text="The port of pay-gw is 8444."),
    "update_step": lambda m, _: m.update_step(a_step(m).id, status="completed"),
    "update_task": lambda m, _: m.update_task(open_task(m).id, goal="restart both"),
}
ELSEWHERE = {"close", "counter", "monitor", "parts", "reembed", "zone"}  # no verbs, or looked at below


def test_all_verbs_are_tried():
    assert {name for name in dir(Memory) if not name.startswith("_")} == {*VERBS, *ELSEWHERE}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_works(memory, tmp_path, verb):
    VERBS[verb](memory, tmp_path)


def test_words_find_and_windows_show(memory):
    hits = memory.search("磁盘")
    assert hits[0].text == "磁盘又满了"
    assert "text search only" in hits.notes[0]
    assert "jiyi model fetch" in hits.notes[0]
    window = memory.build_context("new", "Which port has pay-gw now?", budget=2_000)
    assert "9443" in str(window.messages)
    assert any("text search only" in note for note in window.report.notes)
    assert [fact.object for fact in memory.facts("pay-gw")] == ["9443"]
    assert memory.run_consolidation().created
    assert memory.knowledge()


def test_flush_embeds_nothing_says_so_once_and_goes_on_with_the_file(memory, nowhere, caplog, monkeypatch):
    pending = memory.stats()["vectors_pending"]
    assert pending > 5
    for _ in range(3):
        assert memory.flush() == 0
        memory.search("disk")
        memory.build_context("s", "disk", budget=1_000)
    assert memory.stats()["vectors_pending"] == pending
    assert [record.levelname for record in caplog.records if str(nowhere) in record.message] == ["WARNING"]
    monkeypatch.delenv("JIYI_MODEL_FILE")
    nowhere.symlink_to(model_file())
    assert memory.flush() == pending
    assert memory.search("disk").notes == ()


def test_reembed_cannot_do_without(memory):
    with pytest.raises(ModelMissing):
        memory.reembed()


def test_a_file_with_vectors_is_searched_by_words(path, nowhere):
    with jiyi.open(path, user_id="ana", background=False, model_file=model_file_of_the_package()) as memory:
        memory.save_message("s", role="user", content="the disk is full")
        assert memory.flush() == 1
        assert memory.search("disk").notes == ()
    with jiyi.open(path, user_id="ana", background=False, model_file=nowhere) as memory:
        memory.save_message("s", role="user", content="the disk is fine")
        assert len(memory.search("disk")) == 2
        with pytest.raises(ModelMissing):
            memory.reembed()
        assert memory.stats()["vectors_pending"] == 1, "what has a vector keeps it"


def model_file_of_the_package() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JIYI_MODEL_FILE", raising=False)
        return model_file()


@pytest.mark.slow
@pytest.mark.usefixtures("nowhere")
def test_the_worker_says_it_once(path, nowhere, caplog, monkeypatch):
    with jiyi.open(path, user_id="ana", skills=[SKILLS]) as memory, caplog.at_level(logging.WARNING):
        memory.save_message("s", role="user", content="the disk is full")
        wait_until(lambda: "next try" in caplog.text)
        memory.flush()
        memory.flush()
        time.sleep(1.5)  # the worker has tried again
        assert caplog.text.count(str(nowhere)) == 1
        nowhere.symlink_to(model_file_of_the_package())
        wait_until(lambda: not memory.stats()["vectors_pending"])
        assert memory.search("disk").notes == ()
