"""The benchmark of search runs, compares what it says it compares, and finds what it asks for."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
WITH_CHROMA = importlib.util.find_spec("chromadb") is not None


def run(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCH / "recall_speed.py", "--questions", 4, "--rounds", 1, *options]
    return subprocess.run(
        [str(word) for word in command],
        env=os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The output of one run and the figures it wrote."""
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    done = run("--sizes", 40, 90, "--without-chroma", "--json", file)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text("utf-8"))


def test_every_system_is_measured_at_every_size(measured):
    _, figures = measured
    rows = [(row["messages"], row["system"]) for row in figures["rows"]]
    assert rows == [(40, "jiyi"), (40, "scan"), (90, "jiyi"), (90, "scan")]


def test_every_question_finds_its_message(measured):
    _, figures = measured
    assert [row["found"] for row in figures["rows"]] == [1.0] * 4


def test_the_figures_are_of_real_searches(measured):
    _, figures = measured
    for row in figures["rows"]:
        assert 0 < row["search_p50"] <= row["search_p95"] < row["first_search"] + 1
        assert row["rss"] > 10_000_000
        assert row["times_jiyi"] == 1 if row["system"] == "jiyi" else row["times_jiyi"] < 1
    files = [row["file"] for row in figures["rows"] if row["system"] == "jiyi"]
    assert files[0] < files[1]


def test_the_tables_show_them(measured):
    printed, _ = measured
    for words in ("One search", "Around it", "x jiyi", "saving too", "OMP_NUM_THREADS"):
        assert words in printed
    assert printed.count("scan") == 4


@pytest.mark.skipif(not WITH_CHROMA, reason="Chroma is not installed: the extra bench-chroma")
def test_chroma_is_asked_the_same(tmp_path):
    done = run("--sizes", 60, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text("utf-8"))["rows"]
    assert [row["system"] for row in rows] == ["jiyi", "chroma_of_user", "chroma", "scan"]
    assert [row["found"] for row in rows] == [1.0] * 4


@pytest.mark.skipif(WITH_CHROMA, reason="Chroma is installed")
def test_without_chroma_it_says_so_and_goes_on():
    done = run("--sizes", 30)
    assert done.returncode == 0, done.stderr
    assert "Chroma is not installed" in done.stdout
    assert "One search" in done.stdout


def test_a_size_of_nothing_is_refused():
    done = run("--sizes", 0)
    assert done.returncode == 2
    assert "0 must be at least 1" in done.stderr


def test_a_short_chat_is_the_beginning_of_a_longer_one(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    chat = importlib.import_module("chat")
    assert chat.chat(70)[:45] == chat.chat(45)
    assert (chat.vectors_of(70)[:45] == chat.vectors_of(45)).all()
    texts = [said.message["content"] for said in chat.chat(600)]
    assert len(set(texts)) == 600
    assert sum(text.isascii() for text in texts) == 300
