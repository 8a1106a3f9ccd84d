"""Single bytes of records go bad: they are left out and named, and everything else is there."""

import logging

import apsw
import pytest
from refusing import refused

from jiyi.cli.app import app
from jiyi.databases import check_database
from jiyi.errors import DatabaseDamaged, InputError
from jiyi.records import Scope
from jiyi.settings import load_settings
from jiyi.storage.transfer.repair import repair_file

BAD = {"no UTF-8": "x'7b22ff'", "another letter": "replace(body, 'umbrella', 'umbrelle')", "a number": "7"}
ANA = Scope(user_id="ana")


def spoil(path, table, value, where):
    connection = apsw.Connection(str(path))
    value = value if value == "7" else f"CAST({value} AS TEXT)"
    connection.execute(f"UPDATE {table} SET body = {value} WHERE {where}")
    connection.close()


@pytest.fixture(params=BAD)
def spoilt(request, path, open_memory):
    """A memory of five messages, one of them spoilt, and the log of what is told."""
    memory = open_memory()
    for number in range(5):
        memory.save_message("s", {"role": "user", "content": f"note {number} umbrella"})
    bad = memory.session_messages("s")[2]
    memory.flush()
    memory.close()
    spoil(path, "messages", BAD[request.param], f"doc = (SELECT doc FROM documents WHERE id = '{bad.id}')")
    return bad.id


def test_reading_leaves_it_out_and_says_so(spoilt, path, open_memory, tmp_path, caplog):
    memory = open_memory()
    with caplog.at_level(logging.WARNING, "jiyi"):
        said = [message.text for message in memory.session_messages("s")]
    assert [text[5] for text in said] == ["0", "1", "3", "4"]
    assert [record.message.count(spoilt) for record in caplog.records] == [1]
    assert len(memory.session_messages("s", limit=4)) == 4
    hits = memory.search("umbrella", kinds="message")
    assert len(hits) == 4
    assert "damaged records left out: 1" in hits.notes[-1]
    assert any("left out: 1" in note for note in memory.build_context("s", "umbrella?").report.notes)
    receipt = memory.export(tmp_path / "out.jsonl")
    assert (receipt.counts["message"], receipt.damaged) == (4, 1)
    assert memory.export(tmp_path / "out.md", format="markdown").damaged == 1
    refused(DatabaseDamaged, f"message '{spoilt}' in session 's' of user 'ana'", check_database, path)


@pytest.mark.parametrize("what", [{"session_id": "s"}, {"everything": True}, {"ids": True}])
@pytest.mark.parametrize("purge", [False, True])
def test_forgetting_takes_it_along(spoilt, path, open_memory, what, purge):
    memory = open_memory()
    assert memory.forget(**({"ids": spoilt} if "ids" in what else what), purge=purge).damaged == 1
    assert memory.session_messages("s") == [] or "ids" in what
    assert "is sound" in check_database(path)
    memory.close()
    assert b"umbrelle" not in path.read_bytes() or not purge


def test_saving_it_again_makes_it_good(spoilt, path, open_memory):
    memory = open_memory()
    memory.save_message("s", {"role": "user", "content": "note 2 umbrella", "id": spoilt})
    assert len(memory.session_messages("s")) == 5
    assert "is sound" in check_database(path)


def test_a_repair_saves_the_rest_into_a_new_file(spoilt, path, tmp_path, open_memory, capsys):
    before = path.read_bytes()
    new = tmp_path / "new.db"
    with pytest.raises(SystemExit) as stopped:
        app(["repair", str(path), str(new)], standalone_mode=True)
    assert stopped.value.code == 1
    assert "4 messages" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert "is sound" in check_database(new)
    assert [m.text[5] for m in open_memory(new).session_messages("s")] == ["0", "1", "3", "4"]
    refused(InputError, "exists already", repair_file, path, new, load_settings())


def test_tasks_steps_facts_and_the_trash(path, open_memory):
    memory = open_memory()
    task = memory.start_task("s", "mend the umbrella")
    memory.add_step(task.id, "open the umbrella")
    memory.add_step(task.id, "look at it")
    other = memory.start_task("s2", "another")
    memory.save_message("s", {"role": "user", "content": "I live in Berlin."})
    memory.forget(ids=memory.save_message("s", {"role": "user", "content": "umbrella to forget"}).id)
    assert memory.facts()
    memory.close()
    spoil(path, "steps", BAD["no UTF-8"], "body LIKE '%umbrella%'")
    spoil(path, "tasks", BAD["no UTF-8"], f"id = '{other.id}'")
    spoil(path, "facts", BAD["no UTF-8"], "1")
    spoil(path, "trash", BAD["no UTF-8"], "1")
    memory = open_memory()
    (left,) = memory.tasks()
    assert [step.description for step in left.steps] == ["look at it"]
    assert memory.facts() == []
    assert memory.maintain().gate is not None
    assert memory.forget(everything=True, purge=True).overwritten
    assert "is sound" in check_database(path)
