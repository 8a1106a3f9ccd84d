"""Whatever a memory holds, its words never steer the terminal: they are shown as visible escapes."""

import re

import pytest

from jiyi.cli.terminal import safe

STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e0fff]"
)
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
    assert not STEERING.search(told)


def test_safe_leaves_ordinary_text_alone():
    text = "naïve e\u0301 记忆 👩\u200d💻 ✌️ می\u200cخواهم\ta\nb \\x1b שלום"
    assert safe(text) == text
    assert safe(safe(HOSTILE)) == safe(HOSTILE) == SHOWN
    assert safe("\ud800") == r"\ud800"
