"""Whatever a memory holds, its words never steer the terminal: they are shown as visible escapes."""

import json
import re

import pytest

import jiyi
from jiyi.cli.terminal import safe
from jiyi.testing import HashEmbedder

STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]"
)
HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\u2028f\x7fg\rh\u200bi\U000e0041"
SHOWN = r"a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\u2028f\x7fg\x0dh\u200bi\U000e0041"


@pytest.fixture
def hostile(tmp_path):
    """A memory in which ids, names, requests and words would steer the terminal."""
    db = tmp_path / "hostile.db"
    with jiyi.open(db, user_id=HOSTILE, embedder=HashEmbedder(), background=False) as memory:
        said = {"role": "user", "name": f"n {HOSTILE}", "content": f"nginx {HOSTILE}"}
        memory.save_message(f"s {HOSTILE}", said, id=f"m{HOSTILE}")
        task = memory.start_task(f"s {HOSTILE}", f"restart {HOSTILE}", target=f"t {HOSTILE}")
        for place in range(6):
            step = memory.add_step(task.id, f"bake a cake {HOSTILE} {place}", tool_name="shell")
            memory.update_step(step.id, status="failed", result=HOSTILE)
        done = memory.start_task("s2", f"look {HOSTILE}", target="db")
        memory.complete_task(done.id, summary=f"fine {HOSTILE}")
        memory.remember(f"the port of api is {HOSTILE}")
        memory.flush()
    return db


COMMANDS = [
    ("show",),
    ("show", f"s {HOSTILE}"),
    ("show", f"m{HOSTILE}"),
    ("search", "nginx restart", "--around", 1, "--why"),
    ("context", f"s {HOSTILE}", "nginx"),
    ("tasks",),
    ("episodes",),
    ("facts",),
    ("monitor",),
    ("maintain",),
    ("forget", "nginx", "--dry-run"),
    ("forget", "nginx", "--yes"),
    ("stats",),
]


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_nothing_stored_steers_the_terminal(run, hostile, words, form):
    result = run(*words, *form, "--db", hostile)
    assert not STEERING.search(result.stdout)
    assert not STEERING.search(result.stderr)
    if form:
        json.loads(result.stdout)


def test_it_is_shown_as_escapes(run, run_json, hostile, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert f"s {SHOWN}" in run("show", "--db", hostile).stdout
    assert f"restart {SHOWN}" in run("show", "--db", hostile).stdout
    assert f"nginx {SHOWN}" in run("search", "nginx", "--db", hostile).stdout
    (message,) = run_json("show", f"m{HOSTILE}", "--db", hostile)
    assert message["content"] == f"nginx {HOSTILE}", "JSON gives back what was stored"


@pytest.mark.parametrize(
    "words", [("show", HOSTILE), ("stats", "--user", HOSTILE[::-1]), ("restore", HOSTILE)]
)
def test_errors_are_safe(run, hostile, words):
    told = run(*words, "--db", hostile, code=1).stderr
    assert "error:" in told
    assert not STEERING.search(told)


def test_safe_leaves_ordinary_text_alone():
    text = "naïve e\u0301 记忆 👩\u200d💻 ✌️ می\u200cخواهم\ta\nb \\x1b שלום"
    assert safe(text) == text
    assert safe(safe(HOSTILE)) == safe(HOSTILE) == SHOWN
    assert safe("\ud800") == r"\ud800"
