"""The example file of the documentation is whole, and its JSON has the keys that are written."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jiyi.cli.app import app
from jiyi.evaluate import METRICS, evaluate, read_dataset
from jiyi.testing import HashEmbedder

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "evaluate.md", DOCS / "zh" / "evaluate.md"]


def json_blocks(page: Path) -> list:
    return [
        json.loads(block)
        for block in re.findall(r"^```json\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)
    ]


@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_the_example_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jiyi.wiring.embedder_for", lambda settings: HashEmbedder())
    example, shown = json_blocks(page)
    Path("mine.json").write_text(json.dumps(example, ensure_ascii=False), "utf-8")
    options = ["--budget", "500", "--baseline", "bm25", "--by", "category", "--json", "out.json"]
    result = CliRunner().invoke(app, ["evaluate", "mine.json", *options])
    assert result.exit_code == 0, result.output
    written = json.loads(Path("out.json").read_text("utf-8"))
    jiyi, bm25 = written["runs"]
    assert (jiyi["questions"], jiyi["metrics"]["recall@10"]) == (3, 1)
    assert bm25["metrics"]["recall@10"] == 1
    [run] = shown["runs"]
    assert {**shown, "runs": []} == {**written, "runs": []}
    assert list(run) == list(jiyi)
    for part in ("metrics", "evidence_in_context", "latency_ms", "ingest"):
        assert list(run[part]) == list(jiyi[part]), part
    assert set(run["by_category"]) <= set(jiyi["by_category"])
    for field in ("file", "language", "system", "backend", "questions"):
        assert run[field] == jiyi[field], field
    assert None in run["metrics"].values()


@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_every_metric_and_field_of_the_example_is_explained(page):
    text = page.read_text("utf-8")
    for name in METRICS:
        assert f"`{name}`" in text or f"`{name[name.index('@') :]}`" in text, name
    [conversation] = json_blocks(page)[0]["conversations"]
    parts = [*conversation["sessions"], *conversation["questions"], *conversation["sessions"][0]["messages"]]
    for field in {field for part in parts for field in part} - {"messages", "answer"}:
        assert f"`{field}`" in text, field


def test_both_examples_mean_the_same():
    english, chinese = (read_dataset(json_blocks(page)[0]) for page in PAGES)
    assert [q.evidence for q in english.questions] == [q.evidence for q in chinese.questions]
    runs = [evaluate(dataset, embedder=HashEmbedder()).runs[0] for dataset in (english, chinese)]
    assert runs[0].scores.questions == runs[1].scores.questions == 3
