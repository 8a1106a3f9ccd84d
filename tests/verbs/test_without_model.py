"""Without the bundled model's data file: every verb goes by words, the log says so once, a fetch mends it."""

import json
import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from at_once import wait_until
from refusing import refused
from tables import read_tables

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


def do(memory: Memory, verb: str, arguments: str, named: str) -> None:
    getattr(memory, verb)(*json.loads(arguments), **json.loads(named))


SIMPLE = read_tables(__file__)["verb, arguments, and those by name"]
VERBS: dict[str, Callable[[Memory, Path], Any]] = {
    **{row[0]: lambda m, _, row=row: do(m, *row) for row in SIMPLE},
    "add_step": lambda m, _: a_step(m),
    "complete_task": lambda m, _: m.complete_task(open_task(m).id, outcome="success", summary="done"),
    "export": lambda m, folder: m.export(folder / "out.jsonl"),
    "fail_task": lambda m, _: m.fail_task(open_task(m).id, reason="no"),
    "import_": lambda m, folder: (m.export(folder / "out.jsonl"), m.import_(folder / "out.jsonl")),
    "open_skill": lambda m, _: m.open_skill("s", m.skills()[0].name),
    "restore": lambda m, _: (m.forget(ids=["m1"]), m.restore("m1")),
    "start_task": lambda m, _: open_task(m),
    "unpin": lambda m, _: (m.pin("m1"), m.unpin("m1")),
    "update_step": lambda m, _: m.update_step(a_step(m).id, status="completed"),
    "update_task": lambda m, _: m.update_task(open_task(m).id, goal="restart both"),
}
ELSEWHERE = {"close", "counter", "monitor", "parts", "reembed", "zone"}  # no verbs, or looked at below


def test_all_verbs_are_tried():
    assert {name for name in dir(Memory) if not name.startswith("_")} == {*VERBS, *ELSEWHERE}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_works(memory, tmp_path, verb):
    VERBS[verb](memory, tmp_path)


def test_words_find_and_windows_show_but_reembed_cannot_do_without(memory):
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
    refused(ModelMissing, "e5-small-q4", memory.reembed)


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


def test_a_file_with_vectors_is_searched_by_words(path, nowhere):
    with jiyi.open(path, user_id="ana", background=False, model_file=model_file_of_the_package()) as memory:
        memory.save_message("s", role="user", content="the disk is full")
        assert memory.flush() == 1
        assert memory.search("disk").notes == ()
    with jiyi.open(path, user_id="ana", background=False, model_file=nowhere) as memory:
        memory.save_message("s", role="user", content="the disk is fine")
        assert len(memory.search("disk")) == 2
        refused(ModelMissing, "e5-small-q4", memory.reembed)
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
