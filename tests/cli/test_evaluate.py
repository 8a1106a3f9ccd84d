"""`jiyi evaluate`: figures for people and as JSON, and what is said of input that is wrong."""

import json
import signal
import sys
import time
import tomllib
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
from at_once import wait_until
from tables import read_tables

from jiyi.errors import EmbeddingError
from jiyi.evaluate import BASELINES, METRICS
from jiyi.evaluate.baselines import POLICIES
from jiyi.evaluate.metrics import Latency
from jiyi.testing import HashEmbedder

SMALL = Path(__file__).parents[1] / "evaluate"
EN, ZH = SMALL / "small-en.json", SMALL / "small-zh.json"


@pytest.fixture(autouse=True)
def _wide_and_tidy(monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    yield
    assert list(folder.iterdir()) == []


@pytest.fixture
def written(run, tmp_path):
    """Evaluate and return the JSON."""

    def written(*words: object):
        out = tmp_path / "out.json"
        run("evaluate", *words, "--json", out)
        return json.loads(out.read_text("utf-8"))

    return written


def test_the_table(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    words = ("--budget", 300, "--budget", 1000, "--by", "category")
    baselines = [word for name in BASELINES for word in ("--baseline", name)]
    text = run("evaluate", EN, ZH, *words, *baselines).stdout
    assert "small-en.json  en\n2 conversations, 8 messages, 5 questions: 4 with evidence, 1 to" in text
    assert "small-zh.json  zh" in text
    assert "sqlite · hash:64" in text
    for name in ("jiyi", *BASELINES):
        # Quality and cost of two files; a policy has no quality.
        assert text.count(f"\n{name} ") == (2 if name in POLICIES else 4), name
    for heading in ("recall", "session", "current", "as of", "in window", "@300", "@1000", "vectors", "both"):
        assert heading in text
    assert "abstain\nAUROC" not in text  # no system says how sure it is
    assert "category  asked  system" in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_metrics_that_apply_to_nothing_are_left_out(run, tmp_path):
    data = json.loads(EN.read_text("utf-8"))
    del data["conversations"][0]
    file = tmp_path / "garden.json"
    file.write_text(json.dumps(data), "utf-8")
    text = run("evaluate", file).stdout
    assert "recall" in text
    for heading in ("current", "as of", "abstain\n", "in window", "category"):
        assert heading not in text, heading


def test_the_json(written):
    told = written(EN, ZH, "--budget", 500, "--baseline", "bm25")
    assert list(told) == ["version", "runs"]
    assert told["version"] == 1
    files_and_systems = [(one["file"], one["system"]) for one in told["runs"]]
    assert files_and_systems == [(file.name, name) for file in (EN, ZH) for name in ("jiyi", "bm25")]
    jiyi = told["runs"][0]
    assert {"questions", "metrics", "latency_ms", "ingest"} <= set(jiyi)
    assert list(jiyi["evidence_in_context"]) == ["500"]
    assert set(jiyi["by_category"]) == {"current", "as_of", "history", "abstain", "single"}
    assert jiyi["by_category"]["single"]["recall@5"] == 1
    assert jiyi["by_category"]["single"]["current_ok"] is None
    assert (jiyi["backend"], jiyi["embedder"], jiyi["questions"]) == ("sqlite", "hash:64", 5)


def test_two_runs_give_the_same_figures(written):
    first, again = (written(ZH, "--baseline", "dense")["runs"] for _ in range(2))
    assert [one["metrics"] for one in first] == [one["metrics"] for one in again]


def test_notes_are_told(run):
    result = run("evaluate", EN, "--budget", 17)
    assert "note: jiyi: 17 tokens are too few for 1 of the questions" in result.stderr


@pytest.mark.parametrize("columns", [20, 60, 80, 140])
def test_every_width(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    text = run("evaluate", ZH, "--baseline", "bm25", "--budget", 500, "--by", "category").stdout
    if columns >= 60:
        assert "…" not in text
        assert text.count("1.000") >= 10


def test_what_a_file_says_does_not_steer_the_terminal(run, written, tmp_path):
    data = json.loads(EN.read_text("utf-8"))
    data["language"] = "\x1b[31men[bold]"
    data["conversations"][1]["questions"][0]["category"] = "\x1b[31m[red]c\ud800[/nope]"
    file = tmp_path / "[bold]x[bold].json"
    file.write_text(json.dumps(data), "utf-8")
    result = run("evaluate", file, "--by", "category", "--budget", 20)
    assert "\x1b" not in result.output
    assert "[red]c" in result.stdout
    assert "[bold]x[bold].json" in result.stdout
    assert "\x1b[31m[red]c\ud800[/nope]" in written(file)["runs"][0]["by_category"]


@pytest.mark.parametrize(("words", "reason"), read_tables(__file__)["bad words"])
def test_bad_input_is_told_briefly_and_nothing_is_written(run, tmp_path, words, reason):
    (tmp_path / "notes.txt").write_text("my notes")
    before = sorted(tmp_path.iterdir())
    result = run("evaluate", *(EN if word == "EN" else word for word in words.split()), code=1)
    assert reason in result.stderr
    assert result.stderr.startswith("error: ")
    assert "secret" not in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


def test_questions_are_not_overwritten_and_a_failing_run_touches_no_file(run, tmp_path):
    file = tmp_path / "mine.json"
    file.write_bytes(EN.read_bytes())
    assert "name another file" in run("evaluate", file, "--json", "mine.json", code=1).stderr
    assert file.read_bytes() == EN.read_bytes()
    out = tmp_path / "out.json"
    out.write_text("precious")
    run("evaluate", "none.json", "--json", out, code=1)
    assert out.read_text() == "precious"


def test_what_is_done_is_kept_when_a_later_file_fails(run, tmp_path, monkeypatch):
    class Failing(HashEmbedder):
        broken = False

        def embed(self, texts, kind):
            self.broken = self.broken or any("疫苗" in text for text in texts)
            if self.broken:
                raise EmbeddingError("the embedder broke")
            return super().embed(texts, kind)

    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: Failing())
    out = tmp_path / "out.json"
    assert "error: the embedder broke" in run("evaluate", EN, ZH, "--json", out, code=1).stderr
    assert [one["file"] for one in json.loads(out.read_text("utf-8"))["runs"]] == ["small-en.json"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
def test_an_interruption_leaves_no_temporary_folder(start, tmp_path):
    data = json.loads(EN.read_text("utf-8"))
    message = data["conversations"][0]["sessions"][0]["messages"]
    message += [{"id": f"x{i}", "role": "user", "content": f"message {i} " * 60} for i in range(400)]
    file, temporary = tmp_path / "long.json", tmp_path / "temporary"
    file.write_text(json.dumps(data), "utf-8")
    temporary.mkdir()
    process = start("evaluate", file, TMPDIR=str(temporary))
    wait_until(lambda: any(temporary.rglob("memory.db-wal")), 60)
    assert process.poll() is None
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert said == b""
    assert b"Traceback" not in complaint
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_two_backends_side_by_side(written, run, empty_postgres_url):
    words = (EN, "--backend", "sqlite", "--backend", empty_postgres_url, "--baseline", "recent")
    text = run("evaluate", *words, "--by", "category").stdout
    for part in ("sqlite, postgresql · hash:64", "\njiyi sqlite ", "\njiyi postgresql "):
        assert part in text
    here, there, recent = written(*words, "--budget", 500)["runs"]
    for one, backend in ((here, "sqlite"), (there, "postgresql")):
        assert (one["system"], one["backend"]) == ("jiyi", backend)
    assert (recent["system"], recent["backend"]) == ("recent", None)
    assert here["metrics"] == there["metrics"]
    assert here["evidence_in_context"] == there["evidence_in_context"]


def test_a_database_of_somebody_is_refused(run, open_memory, postgres_url):
    with open_memory(postgres_url) as memory:
        memory.save_message("s-1", role="user", content="Keep this.")
        refused = run("evaluate", EN, "--backend", postgres_url, code=1).stderr
        assert "holds memories of 1 user, such as 'ana'; an evaluation needs" in refused
        assert "a database of its own" in refused
        assert memory.stats()["message"] == 1


def test_every_figure_has_a_heading():
    headings = tomllib.loads((files("jiyi.cli") / "evaluate.toml").read_text("utf-8"))
    assert set(headings["metrics"]) == set(METRICS)
    assert set(headings["latencies"]) <= {field.name for field in fields(Latency)}
    assert all(heading.count("\n") == 1 for some in headings.values() for heading in some.values())
