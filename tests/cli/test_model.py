"""`jiyi model`, the commands on a machine without the bundled model's data file, and the demo with it."""

import json
import shutil
from pathlib import Path

import pytest
from model_wheels import make_wheel

from jiyi.databases import check_database
from jiyi.embeddings import E5Embedder
from jiyi.embeddings.e5 import locate as module
from jiyi.embeddings.e5.locate import NAME, SIZE, cache_folder, model_file

SMALL = Path(__file__).parents[1] / "evaluate" / "small-en.json"


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine with neither the package nor anything in the cache; the settings' own embedder."""
    for name in ("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(module, "PACKAGE", "nobody-has-this-package")
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: E5Embedder(file=settings.model_file))
    return tmp_path


@pytest.fixture
def wheel(tmp_path):
    return make_wheel(tmp_path, model_file().read_bytes())


@pytest.mark.slow
def test_fetch_and_where(wheel, bare, run, run_json):
    assert "jiyi model fetch" in run("model", "where", code=1).stderr
    shown = run("model", "fetch", "--from", wheel)
    assert shown.stdout.startswith("fetched 71.6 MB in ")
    assert "note" not in shown.stderr
    place = str(cache_folder() / NAME)
    assert run_json("model", "where") == {"path": place, "bytes": SIZE}
    assert run_json("model", "fetch")["new"] is False
    assert "it is there already" in run("model", "fetch").stdout
    assert place in "".join(run("model", "where").stdout.split("\n"))


def test_a_damaged_file_is_named(wheel, bare, run):
    run("model", "fetch", "--from", wheel)
    with (cache_folder() / NAME).open("r+b") as file:
        file.write(b"?")
    assert "is not the model that jiyi knows" in run("model", "where", code=1).stderr


@pytest.mark.slow
def test_a_fetch_says_where_another_file_is_used(wheel, bare, run, monkeypatch):
    monkeypatch.setenv("JIYI_MODEL_FILE", str(bare / "gone.bin"))
    assert "gone.bin, which is no file" in run("model", "fetch", "--from", wheel).stderr
    shutil.copy(cache_folder() / NAME, bare / "gone.bin")
    assert "the file in use is" in run("model", "fetch").stderr


def test_what_is_no_wheel_is_told_in_a_line(bare, run):
    (bare / "page.whl").write_text("<html>")
    assert "error: page.whl is no wheel" in run("model", "fetch", "--from", bare / "page.whl", code=1).stderr


TALK = [{"role": "user", "content": "nginx on edge-01 returns 502"}, {"role": "user", "content": "磁盘满了"}]


@pytest.fixture
def nowhere(bare, monkeypatch):
    """A name of nothing: a model that this process has loaded before is another one."""
    monkeypatch.setenv("JIYI_MODEL_FILE", str(bare / "gone.bin"))
    return bare


def test_commands_go_by_words(nowhere, run, run_json):
    (nowhere / "talk.jsonl").write_text("\n".join(map(json.dumps, TALK)), "utf-8")
    db = ("--db", nowhere / "a.db")
    assert run_json("import", nowhere / "talk.jsonl", *db, "--user", "ana", "--session", "s")["added"] == 2
    assert run_json("search", "502", *db)["hits"][0]["text"] == TALK[0]["content"]
    assert "jiyi model fetch" in run("search", "502", *db).stderr
    assert "磁盘满了" in str(run_json("context", "s", "disk", *db)["messages"])
    assert run_json("stats", *db)["vectors_pending"] >= 2
    run("maintain", *db)
    run("forget", "502", *db, "--yes")
    run("export", nowhere / "out.jsonl", *db)
    assert "jiyi model fetch" in run("reembed", *db, code=1).stderr
    assert "jiyi model fetch" in run("doctor", *db, code=1).stdout
    checks = {one["name"]: one for one in run_json("doctor", *db, code=1)["checks"]}
    assert [name for name, one in checks.items() if not one["ok"]] == ["model"]


@pytest.mark.slow
def test_evaluate_and_the_demo_go_by_words(nowhere, run, run_json):
    assert run_json("demo", "--db", nowhere / "demo.db")["stats"]["vectors_pending"] > 100
    shown = run("evaluate", SMALL)
    assert "text search only" in " ".join((shown.stdout + shown.stderr).split())
    assert "jiyi model fetch" in run("evaluate", SMALL, "--baseline", "dense", code=1).stderr


@pytest.mark.slow
def test_the_demo_finds_all_evidence(out, tmp_path):
    db = tmp_path / "demo.db"
    told = json.loads(out("demo", "--json", "--db", db))
    assert len(told["questions"]) == 3
    for question in told["questions"]:
        assert question["found"] == question["evidence"], question["question"]
        assert question["place"], question["question"]
        assert question["report"]["tokens"] <= question["report"]["max_input_tokens"]
    assert told["stats"]["vectors_pending"] == 0
    assert "sound" in check_database(db)
