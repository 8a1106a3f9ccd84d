"""What a memory knows, written for other programs and read again."""

import json
import os

import apsw
import pytest

import jiyi
from jiyi.errors import InputError
from jiyi.exporters import WRITERS, export_for

SAID = "I moved to Lisbon and my sister is called Mei. 我喜欢喝绿茶。"


@pytest.fixture
def full(memory):
    memory.remember(SAID)
    memory.remember("The port of api is 8080", metadata={"team": "ops"})
    memory.save_message("s", role="user", content="Only said, kept by nobody else.")
    memory.put_item(("users", "ana"), "settings", {"theme": "dark", "note": "likes 绿茶"}, ttl=3600)
    memory.put_item(("files",), "empty", {"n": 1})
    memory.put_item(("with.dot",), "k", {"note": "dotted"})
    return memory


def test_mem0_gets_each_memory_once_and_gives_it_back(full, tmp_path, open_memory):
    file = tmp_path / "mem0.json"
    told = export_for("mem0", full, file)
    results = json.loads(file.read_text("utf-8"))["results"]
    texts = [one["memory"] for one in results]
    assert sorted(texts) == sorted(set(texts))
    assert any("Lisbon" in text for text in texts)
    assert {"team": "ops"} in [one["metadata"] for one in results]
    assert {one["user_id"] for one in results} == {"ana"}
    assert told.left_out["without words"] == 1
    assert told.counts["item"] == 3
    assert "Only said" not in file.read_text("utf-8")
    other = open_memory(tmp_path / "other.db")
    receipt = other.import_(file)
    assert receipt.added == len(results)
    assert not receipt.rejected
    assert "绿茶" in other.search("绿茶")[0].text


def test_langgraph_gets_a_store_that_its_own_tables_describe(full, tmp_path):
    file = tmp_path / "store.db"
    told = export_for("langgraph", full, file)
    with apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY) as db:
        rows = {
            (prefix, key): json.loads(value)
            for prefix, key, value in db.execute("SELECT prefix, key, value FROM store")
        }
        ends = dict(db.execute("SELECT key, ttl_minutes FROM store WHERE expires_at IS NOT NULL"))
    assert rows["users.ana", "settings"] == {"theme": "dark", "note": "likes 绿茶"}
    assert ends == {"settings": 60}
    facts = [value for (prefix, _), value in rows.items() if prefix == "memories.facts"]
    assert {"8080"} <= {fact["object"] for fact in facts}
    assert told.left_out == {"labels that LangGraph refuses": 1}


@pytest.mark.parametrize("program", WRITERS)
def test_a_file_is_whole_and_nobody_elses_to_read(program, full, tmp_path):
    file = tmp_path / "out"
    first = export_for(program, full, file)
    assert os.stat(file).st_mode & 0o777 == 0o600
    assert first.bytes == file.stat().st_size
    with pytest.raises(InputError):
        export_for(program, full, tmp_path / "agent.db")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".jiyi")) == []
    assert full.facts(), "the memory is still there"


@pytest.mark.parametrize("program", WRITERS)
def test_an_empty_memory_makes_an_empty_file(program, tmp_path):
    with jiyi.open(tmp_path / "m.db", user_id="eve", background=False) as memory:
        told = export_for(program, memory, tmp_path / "out")
    assert sum(told.counts.values()) == 0
    assert told.bytes > 0
