"""What a memory holds, listed for people and as JSON; its words never steer the terminal."""

from datetime import UTC, datetime
from typing import get_args

import pytest
from rich.cells import cell_len

from jiyi.cli.terminal import safe
from jiyi.cli.windows import STYLES
from jiyi.records import SECTIONS, FactStatus, Outcome, Role, TaskStatus


@pytest.fixture
def busy(db, open_memory):
    """The memory of ana with facts, more tasks, what they taught, and words that would steer a terminal."""
    with open_memory() as memory:
        for text in ("edge-02 的端口是 8443", "edge-02 的端口改成 8444 了"):
            memory.save_message("s2", {"role": "user", "name": "Mei", "content": text})
        memory.remember("\x1b[31mred [bold]alert[/bold]\x1b[2J")
        for name in ("nginx 容器", "nginx container", "the nginx container"):
            task = memory.start_task("s2", "重启 \x1b[2J 容器", target=name)
            memory.add_step(task.id, "docker restart nginx", tool_name="shell")
            memory.complete_task(task.id, summary="恢复 " * 100)
        memory.add_step(memory.start_task("s2", "[red]not[/red] done yet", target="db-1").id, "看看日志")
        memory.run_consolidation()
        memory.pin(memory.knowledge()[0].id)
        memory.flush()
    return db


LISTS = ("tasks", "episodes", "knowledge", "facts")


def test_tasks_and_episodes(run, run_json, busy):
    text = run("tasks", "--db", busy).stdout
    for words in ("in_progress · about db-1 · 1 step\n", "[red]not[/red] done yet", "now: 看看日志"):
        assert words in text
    assert text.count("now:") == 1
    told = run_json("tasks", "--db", busy)
    assert [one["status"] for one in told] == ["in_progress", *["completed"] * 4], "newest first"
    assert told[0]["steps"][0]["description"] == "看看日志"
    [one] = run_json("tasks", "--status", "in_progress", "--db", busy)
    assert one == told[0]
    assert run("tasks", "--status", "failed", "--db", busy).stdout == "nothing there\n"
    text = run("episodes", "--db", busy).stdout
    assert "success · about nginx 容器 · importance 0.50 · consolidated" in " ".join(text.split())
    assert "重启 nginx 容器 -> 重启后恢复" in text
    assert "note: only 2 are shown; there are more" in run("episodes", "--limit", 2, "--db", busy).stderr
    told = run_json("episodes", "--limit", 2, "--db", busy)
    assert [one["target"] for one in told] == ["the nginx container", "nginx container"]
    assert {"id", "task_id", "outcome", "importance", "consolidated", "session_id"} <= set(told[0])


def test_knowledge_and_facts(run, run_json, busy):
    text = run("knowledge", "--db", busy).stdout
    assert "from 3 episodes · pinned" in text
    assert "- docker restart nginx" in text
    (one,) = run_json("knowledge", "--db", busy)
    assert len(one["source_episodes"]) == 3
    assert 0.5 <= one["confidence"] <= 1
    assert run_json("show", one["id"], "--db", busy)[0] == one
    text = run("facts", "edge-02", "--db", busy).stdout
    assert "active · said by Mei" in text
    assert "edge-02 · 端口: 8444" in text
    assert "8443" not in text
    assert "superseded · until " in run("facts", "edge-02", "--all", "--db", busy).stdout
    old, new = run_json("facts", "edge-02", "--all", "--db", busy)
    assert (old["status"], old["superseded_by"], new["supersedes"]) == ("superseded", new["id"], old["id"])
    assert run_json("show", new["id"], "--db", busy) == run_json("facts", "edge-02", "--db", busy) == [new]
    assert run("facts", "nobody", "--db", busy).stdout == "nothing there\n"
    assert len(run_json("facts", "--limit", 1, "--db", busy)) == 1


def test_facts_of_another_time(run, run_json, open_memory, path):
    with open_memory() as memory:
        for month, port in ((3, 8443), (6, 8444)):
            at = datetime(2026, month, 1, tzinfo=UTC)
            memory.save_message("s", role="user", content=f"edge-02 的端口改成 {port} 了", created_at=at)

    def ports(moment):
        return [one["object"] for one in run_json("facts", "edge-02", "--as-of", moment, "--db", path)]

    assert ports("2026-02-28") == []
    assert ports("2026-04-01") == ["8443"]
    assert ports("2026-06-01T00:00:00+00:00") == ["8444"]
    assert "until 2026-06-01" in run("facts", "--as-of", "2026-04-01", "--db", path).stdout


@pytest.mark.parametrize("command", LISTS)
def test_nothing_there(run, run_json, two_users, command):
    if command in ("knowledge", "facts"):
        assert run(command, "--user", "bob", "--db", two_users).stdout == "nothing there\n"
    assert run_json(command, "--user", "bob", "--db", two_users) == []


@pytest.mark.parametrize("columns", [20, 60, 80, 140])
def test_every_width_without_control_characters_or_markup(run, busy, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in LISTS:
        text = run(command, "--db", busy).stdout
        assert "\x1b" not in text
        assert max(cell_len(line) for line in text.splitlines()) <= columns
    if columns == 140:
        assert r"\x1b[31mred [bold]alert[/bold]" in run("facts", "--db", busy).stdout


def test_the_profile_alone(run, run_json, db, open_memory):
    with open_memory() as memory:
        memory.save_message("s", role="user", content="The port of api is 8080. Always answer in German.")
        memory.remember("The greenhouse has no power on Sundays", pinned=True)
    rule, pinned = run_json("facts", "--profile", "--db", db)
    assert rule["object"] == "Always answer in German"
    assert pinned["object"] == "The greenhouse has no power on Sundays"
    assert "pinned" in run("facts", "--profile", "--limit", 1, "--db", db).stdout


def test_everything_shown_in_colour_has_one():
    statuses = {*get_args(FactStatus), *get_args(Outcome), *get_args(TaskStatus)}
    shown = {"role": set(get_args(Role)), "section": {*SECTIONS, "framing"}, "status": statuses}
    assert {of: set(styles) for of, styles in STYLES.items()} == shown


HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\u2028f\x7fg\rh\u200bi\U000e0041"
SHOWN = r"a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\u2028f\x7fg\x0dh\u200bi\U000e0041"


@pytest.fixture
def hostile(tmp_path, steering):
    return steering(tmp_path / "hostile.db", HOSTILE)


def test_it_is_shown_as_escapes(run, run_json, hostile, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("show", "--db", hostile).stdout
    assert f"s{SHOWN}" in shown
    assert f"restart {SHOWN}" in shown
    assert f"nginx {SHOWN}" in run("search", "nginx", "--db", hostile).stdout
    (message,) = run_json("show", f"m{HOSTILE}", "--db", hostile)
    assert message["content"] == f"nginx {HOSTILE}", "JSON gives back what was stored"


@pytest.mark.parametrize("words", [("show", HOSTILE), ("stats", "--user", HOSTILE), ("restore", HOSTILE)])
def test_errors_are_safe(run, hostile, words):
    told = run(*words, "--db", hostile, code=1).stderr
    assert "error:" in told
    assert safe(told) == told


def test_safe_leaves_ordinary_text_alone():
    text = "naïve e\u0301 记忆 👩\u200d💻 ✌️ می\u200cخواهم\ta\nb \\x1b שלום"
    assert safe(text) == text
    assert safe(safe(HOSTILE)) == safe(HOSTILE) == SHOWN
    assert safe("\ud800") == r"\ud800"
