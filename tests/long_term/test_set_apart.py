"""Texts that an embedder refuses keep nobody waiting, and an embedder that fails breaks nothing."""

import json

import pytest
from embedders import Moody
from refusing import refused
from refusing_endpoint import POISON, RefusingEndpoint
from typer.testing import CliRunner

import jiyi
from jiyi.cli.app import app
from jiyi.testing import HashEmbedder


@pytest.fixture
def endpoint(monkeypatch):
    with RefusingEndpoint(status=413, says="too large") as server:
        for name, value in (
            ("EMBEDDER", "openai"),
            ("EMBEDDING_MODEL", "m"),
            ("EMBEDDING_BASE_URL", server.url),
        ):
            monkeypatch.setenv(f"JIYI_{name}", value)
        yield server


def say(memory, *texts):
    for text in texts:
        memory.save_message("s", role="user", content=text)


def test_the_settings_reach_the_endpoint(open_memory, endpoint, monkeypatch):
    monkeypatch.setenv("JIYI_EMBEDDING_MAX_CHARS", "12")
    monkeypatch.setenv("JIYI_EMBEDDING_BATCH_SIZE", "2")
    memory = open_memory(embedder=None, embedding_dimensions=3, learn_facts=False)
    say(memory, *(f"text number {i:02}" for i in range(5)))
    memory.flush()
    assert {asked["dimensions"] for asked in endpoint.asked} == {3}
    assert max(len(asked["input"]) for asked in endpoint.asked) == 2
    assert {text for asked in endpoint.asked for text in asked["input"]} == {"text number "}


def test_a_refused_text_blocks_nobody_and_is_tried_again_by_reembed(open_memory, endpoint, path):
    memory = open_memory(embedder=None, learn_facts=False)
    say(memory, *(f"text {i}" for i in range(5)), f"a {POISON} 中文", *(f"text {i}" for i in range(5, 12)))
    assert memory.flush() == 12
    stats = memory.stats()
    assert (stats["vectors_pending"], stats["vectors_apart"]) == (1, 1)
    asked = len(endpoint.asked)
    say(memory, "one more")
    assert memory.flush() == 1
    assert len(endpoint.asked) == asked + 1, "nobody asks for it again"
    assert memory.search(POISON)[0].record.content == f"a {POISON} 中文"

    told = CliRunner().invoke(app, ["doctor", "--db", str(path), "--json"])
    refused = next(one for one in json.loads(told.stdout)["checks"] if one["name"] == "refused")
    assert (told.exit_code, refused["ok"]) == (1, False)
    assert refused["detail"] == "records found by their words only: 1 refused with HTTP 413"
    assert "jiyi reembed --db" in refused["fix"]

    assert memory.reembed() == 0
    assert memory.stats()["vectors_apart"] == 1
    endpoint.refused = "nothing any more"
    before = len(endpoint.asked)
    assert memory.reembed() == 1
    assert len(endpoint.asked) == before + 1, "the others keep their vectors"
    assert "vectors_apart" not in memory.stats()
    assert memory.stats()["vectors_pending"] == 0
    told = CliRunner().invoke(app, ["doctor", "--db", str(path), "--json"])
    assert '"refused"' not in told.stdout


def test_the_worker_sets_it_apart_as_well(open_memory, endpoint):
    memory = open_memory(embedder=None, learn_facts=False)
    say(memory, f"{POISON}", "a", "b")
    indexer = memory._long_term.indexer
    assert indexer._run_once()
    assert not indexer._run_once()
    assert memory.stats()["vectors_apart"] == 1


def test_the_first_text_of_a_memory_may_be_refused(open_memory, endpoint):
    memory = open_memory(embedder=None, learn_facts=False)
    say(memory, POISON)
    assert (memory.flush(), memory.stats()["vectors_apart"]) == (0, 1)
    assert memory.reembed() == 0
    say(memory, "a")
    assert memory.flush() == 1


def test_another_embedder_leaves_out_what_it_refuses(open_memory, endpoint):
    memory = open_memory(learn_facts=False)
    say(memory, *(f"text {i}" for i in range(5)), f"a {POISON}")
    assert memory.flush() == 6
    memory.close()
    memory = open_memory(embedder=None, check_embedder=False, learn_facts=False)
    assert memory.reembed() == 5
    assert (memory.stats()["vectors_apart"], memory.search("text 3").notes) == (1, ())


class Picky(Moody):
    """Raises something of its own at one text."""

    def embed(self, texts, kind):
        if any(POISON in text for text in texts):
            raise ValueError("I cannot read this")
        return super().embed(texts, kind)


def test_an_own_embedder_that_cannot_read_one_text(open_memory, path):
    memory = open_memory(embedder=Picky(), learn_facts=False)
    say(memory, "before", POISON, "behind")
    assert (memory.flush(), memory.stats()["vectors_apart"]) == (2, 1)
    hits = memory.search(POISON)
    assert hits[0].record.content == POISON
    assert "text search only: the embedder failed: ValueError('I cannot read this')" in hits.notes[0]


class Fails(HashEmbedder):
    """Raises what it is given, whatever it is asked, and as a reranker too."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def embed(self, texts, kind):
        raise self.error

    score = embed


OWN = [ValueError("bad"), RuntimeError("CUDA"), KeyError("x"), OSError("gone"), MemoryError()]
ERRORS = pytest.mark.parametrize("error", [*OWN, AssertionError()], ids=lambda e: type(e).__name__)
ENDS = pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=["interrupt", "exit"])


@ERRORS
def test_an_own_embedder_may_raise_anything(open_memory, error):
    memory = open_memory(embedder=Fails(error))
    say(memory, "我的名字是安娜", "the disk is full")
    memory.complete_task(memory.start_task("s", "free the disk").id)
    assert memory.search("disk")[0].kind in ("message", "episode")
    assert "text search only" in memory.search("disk").notes[0]
    assert "text search only" in " ".join(memory.build_context("s", "is the disk full?").report.notes)
    refused(jiyi.errors.EmbeddingError, "the embedder failed", memory.flush)
    stats = memory.stats()
    assert stats["vectors_pending"] == sum(stats[kind] for kind in ("message", "episode", "fact"))
    assert "vectors_apart" not in stats, "where nothing is embedded no text is to blame"


@ENDS
def test_whoever_ends_the_program_is_heard(open_memory, error):
    memory = open_memory(embedder=Fails(error))
    say(memory, "the disk is full", "the disk of db-1 is empty")
    for ask in (memory.flush, lambda: memory.search("disk")):
        with pytest.raises(type(error)):
            ask()
    judged = open_memory(reranker=Fails(error))
    judged.flush()
    with pytest.raises(type(error)):
        judged.search("disk")


@ERRORS
def test_an_own_reranker_may_raise_anything(open_memory, error):
    memory = open_memory(reranker=Fails(error))
    say(memory, "the disk is full", "the disk of db-1 is empty")
    memory.flush()
    hits = memory.search("disk")
    assert len(hits) == 2
    assert f"not reranked, {HashEmbedder().name} failed" in hits.notes[0]
