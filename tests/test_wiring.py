"""Opening: URLs, embedders that do not fit, and nothing left behind by a failure."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from uses import uses

import jiyi
from jiyi.errors import EmbedderMismatch, ForeignDatabase, NewerDatabase, SettingsError, StorageError
from jiyi.long_term import ForgetRule
from jiyi.storage import SqliteDatabase
from jiyi.testing import HashEmbedder, ManualClock


def test_the_ways_to_name_a_file(tmp_path, monkeypatch, open_memory):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for url, name in {
        "plain.db": "plain.db",
        str(tmp_path / "absolute.db"): "absolute.db",
        Path("path.db"): "path.db",
        "sqlite:///relative.db": "relative.db",
        f"sqlite:///{tmp_path}/four slashes.db": "four slashes.db",
        "~/home.db": "home.db",
        "sqlite:///~/tilde.db": "tilde.db",
        "记忆.db": "记忆.db",
    }.items():
        open_memory(url).save_message("s", role="user", content="x")
        assert (tmp_path / name).is_file(), url


@pytest.mark.parametrize(
    "url",
    [
        "mysql://localhost/x", "sqlite://relative.db", "ftp://x", "", "  ", ":memory:",
        "sqlite:///:memory:", "sqlite:///", None, 5, b"bytes.db",
    ],
)  # fmt: skip
def test_urls_that_name_nothing_are_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError):
        jiyi.open(url, user_id="ana", embedder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


def test_another_embedder_is_refused_with_the_way_out(open_memory):
    with open_memory() as memory:
        memory.save_message("s", role="user", content="x")
        with open_memory(embedder=HashEmbedder(dims=32)) as other:
            assert other.stats()["message"] == 1, "nothing is embedded yet, so nothing is bound"
        memory.flush()
    with pytest.raises(EmbedderMismatch, match=r"hash:64 .*jiyi reembed --db .*agent\.db"):
        open_memory(embedder=HashEmbedder(dims=32))
    with open_memory(embedder=HashEmbedder(dims=32), check_embedder=False) as memory:
        assert "text search only" in memory.search("x").notes[0]
        assert memory.reembed() == 1
        assert memory.search("x").notes == ()
    with open_memory(embedder=HashEmbedder(dims=32)) as memory:
        assert memory.search("x")[0].why.keys() >= {"first_by_words", "first_by_meaning"}


def test_foreign_and_newer_files_are_refused(path, open_memory):
    path.write_text("a list of things to buy")
    with pytest.raises(ForeignDatabase):
        open_memory()
    path.unlink()
    database = SqliteDatabase(path)
    with database.write() as db:
        db.raw.execute("PRAGMA user_version=999")
    database.close()
    with pytest.raises(NewerDatabase):
        open_memory()


def test_a_failed_open_leaves_no_thread_and_no_lock(path, open_memory):
    before = threading.active_count()
    for options in ({"embedder": HashEmbedder(dims=32)}, {"max_turns": 0}, {"model": ""}, {"colour": "red"}):
        with open_memory() as memory:
            memory.save_message("s", role="user", content="x")
            memory.flush()
        with pytest.raises(jiyi.JiyiError):
            open_memory(background=True, **options)
    assert threading.active_count() == before
    path.rename(path.with_suffix(".moved"))
    open_memory(path.with_suffix(".moved")).save_message("s", role="user", content="y")


def test_settings_and_scope_reach_the_parts(open_memory):
    clock = ManualClock()
    memory = open_memory(agent_id="ops", clock=clock, max_turns=1, max_input_tokens=300, language="zh")
    for i in range(3):
        saved = memory.save_message("s", role="user", content=f"turn {i}")
    assert (saved.created_at, saved.scope.agent_id) == (clock(), "ops")
    assert [m.content for m in memory.recent_messages("s")] == ["turn 2"]
    window = memory.build_context("s", "turn?")
    assert window.report.budget.max_input_tokens == 300
    assert "当前问题" in window.markdown


def test_a_closed_memory_says_so(open_memory, path):
    memory = open_memory(background=True)
    memory.close()
    memory.close()
    every = uses(memory, path.with_name("never.jsonl"))
    for use in (*every, memory.flush, lambda: memory.forget("x", purge=True)):
        with pytest.raises(StorageError, match="closed"):
            use()
    assert list(path.parent.iterdir()) == [path]


def test_the_parts_of_its_life_share_a_clock_a_zone_and_a_rule(open_memory):
    class Strict(ForgetRule):
        def importance(self, record, now):
            return 0.0 if now == clock() else 1.0

    clock = ManualClock(datetime(2026, 1, 31, 20, tzinfo=UTC))  # in Shanghai it is February
    memory = open_memory(clock=clock, timezone="Asia/Shanghai", forget_rule=Strict(min_age=timedelta(0)))
    memory.complete_task(memory.start_task("s", "restart").id)
    memory.save_message("s", role="user", content="从明天起 edge-02 的端口改成 8444")
    (fact,) = memory.facts()
    assert fact.created_at == clock()
    assert fact.valid_from == datetime(2026, 2, 1, 16, tzinfo=UTC), "midnight there"
    clock.forward(days=1)
    receipt = memory.run_forget_gate()
    assert (receipt.at, receipt.total) == (clock(), 2)


def test_the_bundled_model_brings_back_what_shares_no_word_with_the_question(path):
    with jiyi.open(path, user_id="ana") as memory:
        memory.save_message("s", role="user", content="我家的猫昨天生病了，去看了兽医")
        memory.save_message("s", role="user", content="The server certificate expires on Friday")
        memory.save_message("s", role="user", content="午饭吃了面条")
        memory.flush()
        assert "certificate" in memory.search("when must I renew TLS?", limit=1)[0].text
        assert "猫" in memory.search("宠物身体不舒服", limit=1)[0].text


LOADING = """
import sys, threading, jiyi
from jiyi.testing import HashEmbedder
def loads(**options):
    with jiyi.open(sys.argv[1], user_id="ana", **options):
        return "jiyi-e5-load" in {thread.name for thread in threading.enumerate()}
assert not loads(background=False)
assert loads()
for thread in threading.enumerate():
    if thread.name == "jiyi-e5-load":
        thread.join()
assert not loads(), "it is there already"
assert "onnxruntime" in sys.modules
"""

NOT_LOADING = """
import sys, threading, jiyi
from jiyi.testing import HashEmbedder
with jiyi.open(sys.argv[1], user_id="ana", embedder=HashEmbedder()):
    assert "jiyi-e5-load" not in {thread.name for thread in threading.enumerate()}
    assert "onnxruntime" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [LOADING, NOT_LOADING], ids=["bundled", "own"])
def test_opening_loads_the_bundled_model_in_the_background_where_it_is_used(path, code):
    command = [sys.executable, "-W", "error", "-c", code, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
